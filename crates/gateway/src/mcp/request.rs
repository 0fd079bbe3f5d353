//! A request of JSON-RPC, on its way to the answer.

use std::sync::Arc;

use http::HeaderMap;
use http::header::ACCEPT;
use http::request::Parts;
use portico_engine::Entry;
use portico_engine::input::{Fields, Node};

use super::Mcp;
use super::exchange::Exchange;
use super::message::{Id, RpcError};
use super::revision::Revision;
use super::running::RunningCall;
use super::session;
use crate::credential::Credential;

/// The HTTP request that brought a message, once its sender is known.
#[derive(Clone, Copy)]
pub(super) struct RequestContext<'a> {
    pub(super) entry: &'a Arc<Entry>,
    pub(super) credential: &'a Credential,
    pub(super) parts: &'a Parts,
}

/// A request whose revision is known.
pub(super) struct RpcRequest<'a> {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Fields,
    pub(super) exchange: Arc<Exchange>,
    pub(super) context: RequestContext<'a>,
}

impl<'a> RpcRequest<'a> {
    /// Finds out which revision the request speaks, and what its client can do.
    pub(super) fn new(
        mcp: &Arc<Mcp>,
        context: RequestContext<'a>,
        id: Id,
        method: String,
        params: Fields,
    ) -> Result<Self, RpcError> {
        let (headers, caller) = (&context.parts.headers, context.credential.caller());
        let mut revision = Revision::of(headers, &method, &params)?;
        if !revision.is_stateless && method != "initialize" {
            revision.capabilities = session::recall(&mcp.calls.engine, caller, headers)?;
        }
        let progress_token = progress_token(&params);
        let exchange = Exchange::new(mcp, caller, revision, progress_token, takes_stream(headers));
        Ok(Self { id, method, params, exchange, context })
    }

    pub(super) fn is_stateless(&self) -> bool {
        self.exchange.revision.is_stateless
    }

    /// The request runs from here on. Where it is stateless, its client cancels it by going away, and not by a message.
    pub(super) fn running(&self, mcp: &Mcp) -> RunningCall {
        if self.is_stateless() {
            return RunningCall::default();
        }
        mcp.running.begin(&self.context.credential.caller().actor(), &self.id)
    }
}

/// Under what name the client wants to hear how far it is.
fn progress_token(params: &Fields) -> Option<Node> {
    match params.get("_meta") {
        Some(Node::Object(meta)) => {
            // It is of the same kind as an id.
            meta.get("progressToken").filter(|token| Id::read(token).is_some()).cloned()
        }
        _ => None,
    }
}

/// Does the client take a stream for an answer?
fn takes_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|kind| {
        matches!(kind.split(';').next().map(str::trim), Some("text/event-stream" | "text/*" | "*/*"))
    })
}
