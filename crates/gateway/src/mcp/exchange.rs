//! A request and what goes back and forth until it is answered: one answer, or a stream that ends with it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use portico_engine::input::Node;
use portico_engine::ports::Progress;
use portico_engine::{Assistant, Engine};
use portico_kernel::{Caller, Code, Problem, seconds};
use portico_store::Context;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::Mcp;
use super::message::value;
use super::revision::Revision;
use crate::Stopping;

/// How many messages may wait for the client; what is told beyond that is left out.
const WAITING_MAX: usize = 64;
/// How long what was sealed for a client can be brought back.
const SEALED_SECONDS: u64 = 600;
const SEALED_FOR: &str = "assistant";

/// The other side, while it waits for the answer.
pub(super) struct Exchange {
    pub(super) mcp: Arc<Mcp>,
    pub(super) caller: Arc<Caller>,
    pub(super) revision: Revision,
    progress_token: Option<Value>,
    /// One more than the last progress that was told; progress only grows.
    told: AtomicU64,
    beats: AtomicU32,
    /// Does the client take a stream for an answer? Otherwise nothing is said before it.
    hears: bool,
    /// What waits for the client. Most calls say nothing before their answer.
    messages: Mutex<VecDeque<Bytes>>,
    more: Notify,
}

impl Exchange {
    pub(super) fn new(
        mcp: &Arc<Mcp>,
        caller: &Arc<Caller>,
        revision: Revision,
        progress_token: Option<Node>,
        hears: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            mcp: mcp.clone(),
            caller: caller.clone(),
            revision,
            progress_token: progress_token.map(value),
            told: AtomicU64::new(0),
            beats: AtomicU32::new(0),
            hears,
            messages: Mutex::default(),
            more: Notify::new(),
        })
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.mcp.calls.engine
    }

    pub(super) fn stopping(&self) -> &Stopping {
        &self.mcp.calls.stopping
    }

    /// Does the client hear, beside the answer, that the work is under way?
    pub(super) fn hears_beats(&self) -> bool {
        self.hears && self.progress_token.is_some()
    }

    /// Says that a silent operation is still under way. Progress only grows, and what the operation itself tells is 1 and
    /// more, so these are steps towards 1.
    pub(super) fn beat(&self) {
        let Some(token) = &self.progress_token else { return };
        if self.told.load(Ordering::Relaxed) == 0 {
            let beats = self.beats.fetch_add(1, Ordering::Relaxed) + 1;
            let progress = 1.0 - 1.0 / f64::from(beats + 1);
            let params =
                json!({ "progressToken": token, "progress": progress, "message": "Still under way." });
            Assistant::tell(self, "notifications/progress", params);
        }
    }

    fn send(&self, message: &Value) -> bool {
        if !self.hears {
            return false;
        }
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = messages.len() < WAITING_MAX;
        if has_room {
            messages.push_back(frame(&message.to_string()));
            self.more.notify_one();
        }
        has_room
    }

    /// The next message to the client, if one waits.
    pub(super) fn take_message(&self) -> Option<Bytes> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for the next message to the client.
    pub(super) async fn message(&self) -> Bytes {
        loop {
            if let Some(message) = self.take_message() {
                return message;
            }
            self.more.notified().await;
        }
    }

    /// What is sealed is for whoever acts, in the account that they act in, and for one use.
    fn row(&self, purpose: &str) -> (String, String) {
        let account = self.caller.org.map(|account| account.to_string()).unwrap_or_default();
        (account, format!("{} {purpose}", self.caller.actor()))
    }
}

/// A message as a server-sent event. JSON has no line breaks of its own.
pub(super) fn frame(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}

impl Progress for Exchange {
    fn tell(&self, done: u64, total: u64, message: &str) {
        let Some(token) = &self.progress_token else { return };
        if self.told.fetch_max(done + 1, Ordering::Relaxed) > done {
            return;
        }
        let mut params = json!({ "progressToken": token, "progress": done, "total": total });
        if !message.is_empty() {
            params["message"] = json!(message);
        }
        Assistant::tell(self, "notifications/progress", params);
    }
}

impl Assistant for Exchange {
    fn is_modern(&self) -> bool {
        self.revision.is_stateless
    }

    fn can(&self, capability: &str) -> bool {
        self.revision.can(capability)
    }

    fn hears(&self) -> bool {
        self.hears
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stopping().begun())
    }

    fn tell(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn progress(&self, done: u64, total: u64, message: &str) {
        Progress::tell(self, done, total, message);
    }

    fn ask<'a>(&'a self, method: &'a str, params: Value) -> BoxFuture<'a, Result<Value, Problem>> {
        Box::pin(async move {
            let unasked =
                |message| Problem::new(Code::FailedPrecondition, message).with_info("NOT_ASKED", "mcp", []);
            let question = self.mcp.questions.ask(self.engine().entropy.as_ref(), &self.caller);
            let mut question =
                question.ok_or_else(|| unasked("Too many questions to the client wait already."))?;
            let request = json!({ "jsonrpc": "2.0", "id": question.id, "method": method, "params": params });
            if self.revision.is_stateless || !self.send(&request) {
                return Err(unasked("The client takes no questions while it waits for an answer."));
            }
            let answer = tokio::select! {
                answer = question.answer() => answer,
                () = self.stopping().begun() => return self.stopping().check().map(|()| Value::Null),
            };
            answer.ok_or_else(|| unasked("The client did not answer what it was asked."))
        })
    }

    fn seal(&self, purpose: &str, state: &[u8]) -> String {
        let until = self.engine().clock.now() + seconds(SEALED_SECONDS);
        let (account, row) = self.row(purpose);
        let context = Context { account: &account, row: &row, purpose: SEALED_FOR };
        self.engine().keyring.seal_token(self.engine().entropy.as_ref(), context, until, state)
    }

    fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let (account, row) = self.row(purpose);
        let context = Context { account: &account, row: &row, purpose: SEALED_FOR };
        self.engine().keyring.open_token(context, self.engine().clock.now(), sealed).ok()
    }
}
