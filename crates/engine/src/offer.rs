//! What an area offers to assistants beside its operations.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use portico_kernel::{Caller, Problem};
use serde_json::{Map, Value};

use crate::Engine;
use crate::input::Fields;

/// What an area offers to assistants beside its operations: tools that are not known before the server runs, prompts and
/// resources.
pub trait Offer: Send + Sync {
    /// What it adds to the server's capabilities.
    fn capabilities(&self) -> Map<String, Value>;

    /// The tools that it has for this caller, as `tools/list` shows them.
    fn tools<'a>(
        &'a self,
        engine: &'a Arc<Engine>,
        caller: &'a Arc<Caller>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Problem>>;

    /// What a tool of that name is a call of, as far as the name alone tells, whether or not the caller has it: nothing is
    /// looked up. `None` for a name that no such tool has.
    fn operation_of(&self, _caller: &Caller, _name: &str) -> Option<ToolOperation> {
        None
    }

    /// The tool of that name, where it is a call of an operation: it is counted and answered as that. Asked only for callers
    /// who were admitted to what [`Offer::operation_of`] says. `None` where the caller has no such tool.
    fn operation_tool<'a>(
        &'a self,
        _engine: &'a Arc<Engine>,
        _caller: &'a Arc<Caller>,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<Option<OperationTool>, Problem>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Tells when one of its lists has changed for this caller, as long as somebody listens; `None` where they never do.
    fn changes(&self, _caller: &Caller) -> Option<BoxStream<'static, OfferedList>> {
        None
    }

    /// Answers a request of the protocol; `None` when it knows no such method, or no tool of that name.
    fn answer<'a>(&'a self, request: OfferRequest<'a>) -> BoxFuture<'a, Option<Result<Value, OfferFault>>>;
}

/// A list that assistants can hear of when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedList {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
}

/// The operation that a tool is a call of. It acts in the caller's own account.
#[derive(Debug, Clone, Copy)]
pub struct ToolOperation {
    /// The name of the operation.
    pub operation: &'static str,
    /// The scopes that every tool asks for which the name may mean.
    pub scopes: &'static [&'static str],
}

/// A tool that is a call of an operation, of whose fields the tool itself says some.
pub struct OperationTool {
    /// The name for people.
    pub title: String,
    /// The fields that the tool says.
    pub fields: Fields,
    /// The one field that is the tool's arguments, all of them.
    pub arguments: &'static str,
    /// The scopes that it asks for, whatever its operation asks for elsewhere.
    pub scopes: &'static [&'static str],
    /// Does it change nothing, whatever its operation can do elsewhere?
    pub only_reads: bool,
    /// Is what it does lost for good?
    pub irreversible: bool,
}

/// A request of an assistant.
#[derive(Clone, Copy)]
pub struct OfferRequest<'a> {
    /// The id that the assistant gave it.
    pub id: &'a Value,
    /// The protocol's method.
    pub method: &'a str,
    /// Its parameters.
    pub params: &'a Value,
    /// Who asks.
    pub caller: &'a Caller,
    /// The assistant, while it waits.
    pub assistant: &'a dyn Assistant,
}

/// An assistant that waits for an answer.
pub trait Assistant: Send + Sync {
    /// Does it speak a revision without a handshake, whose requests stand by themselves?
    fn is_modern(&self) -> bool;

    /// Does it say that it can do this?
    fn can(&self, capability: &str) -> bool;

    /// Does it take messages before the answer?
    fn hears(&self) -> bool;

    /// Ends when the server stops, and an answer is wanted soon.
    fn stopped(&self) -> BoxFuture<'_, ()>;

    /// Sends it a notification, if it takes them.
    fn tell(&self, method: &str, params: Value);

    /// Tells it how far the work is, if it wants to know.
    fn progress(&self, done: u64, total: u64, words: &str);

    /// Asks it something, and waits for the answer. Not of a modern one, which is asked by the answer itself.
    fn ask<'a>(&'a self, method: &'a str, params: Value) -> BoxFuture<'a, Result<Value, Problem>>;

    /// Seals a state that the assistant brings back, for this caller and this use.
    fn seal(&self, purpose: &str, state: &[u8]) -> String;

    /// Opens what was sealed; `None` when it is too old, damaged, or another's.
    fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>>;
}

/// Why a request is refused: an error of the protocol, with what belongs to it.
#[derive(Debug)]
pub struct OfferFault {
    /// The protocol's code.
    pub code: i32,
    /// What is wrong.
    pub problem: Problem,
    /// What the protocol wants beside it.
    pub more: Map<String, Value>,
}
