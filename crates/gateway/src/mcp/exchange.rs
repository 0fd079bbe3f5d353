//! A request and what goes back and forth until it is answered: one answer, or a stream that ends with it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use portico_engine::input::Node;
use portico_engine::ports::Progress;
use portico_engine::{Assistant, Engine};
use portico_kernel::{Caller, Code, Problem, Sleep, seconds};
use portico_store::Context;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::Mcp;
use super::era::Era;
use super::message::value;
use crate::calls::Calls;
use crate::outgoing::Pieces;
use crate::server::wait;
use crate::{Connection, Stopping};

/// How many messages may wait for the client; what is told beyond that is left out.
const WAITING_MAX: usize = 64;
/// How often a stream looks whether its client may still listen.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so many looks without a message the client hears that the work is under way, or at least that the connection is.
const LOOKS_PER_BEAT: u32 = 2;
const BEAT_EVERY: Duration = LOOK_EVERY.saturating_mul(LOOKS_PER_BEAT);
const LOOKS_PER_PING: u32 = 15;
/// A client that takes nothing for so many looks is cut off when the server stops, and sooner when it may not listen.
const LOOKS_STALLED_MAX: u32 = 5;
/// How long what was sealed for a client can be brought back.
const SEALED_SECONDS: u64 = 600;
const SEALED_FOR: &str = "assistant";

/// The other side, while it waits for the answer.
pub(super) struct Exchange {
    pub(super) mcp: Arc<Mcp>,
    pub(super) engine: Arc<Engine>,
    stopping: Stopping,
    pub(super) caller: Arc<Caller>,
    pub(super) era: Era,
    progress_token: Option<Value>,
    /// One more than the last progress that was told; progress only grows.
    told: AtomicU64,
    beats: AtomicU32,
    /// Does the client take a stream for an answer? Otherwise nothing is said before it.
    hears: bool,
    messages: Messages,
}

/// Messages that wait for the client.
#[derive(Default)]
struct Messages {
    waiting: Mutex<VecDeque<Bytes>>,
    told: Notify,
}

impl Messages {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Bytes>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, if there is room.
    fn add(&self, message: Bytes) -> bool {
        let mut waiting = self.lock();
        let room = waiting.len() < WAITING_MAX;
        if room {
            waiting.push_back(message);
            self.told.notify_one();
        }
        room
    }

    fn take(&self) -> Option<Bytes> {
        self.lock().pop_front()
    }

    async fn next(&self) -> Bytes {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.told.notified().await;
        }
    }
}

impl Exchange {
    pub(super) fn new(
        mcp: &Arc<Mcp>,
        calls: &Calls,
        caller: &Arc<Caller>,
        era: Era,
        progress_token: Option<Node>,
        hears: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            mcp: mcp.clone(),
            engine: calls.engine.clone(),
            stopping: calls.stopping.clone(),
            caller: caller.clone(),
            era,
            progress_token: progress_token.map(value),
            told: AtomicU64::new(0),
            beats: AtomicU32::new(0),
            hears,
            messages: Messages::default(),
        })
    }

    /// Says that a silent operation is still under way. Progress only grows, and what the operation itself tells is 1 and
    /// more, so these are steps towards 1.
    fn beat(&self) {
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
        self.hears && self.messages.add(frame(&message.to_string()))
    }

    /// What is sealed is for whoever acts, in the account that they act in, and for one use.
    fn row(&self, purpose: &str) -> (String, String) {
        let account = self.caller.org.map(|account| account.to_string()).unwrap_or_default();
        (account, format!("{} {purpose}", self.caller.actor()))
    }
}

/// A message as a server-sent event. JSON has no line breaks of its own.
fn frame(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}

impl Progress for Exchange {
    fn tell(&self, done: u64, total: u64, words: &str) {
        let Some(token) = &self.progress_token else { return };
        if self.told.fetch_max(done + 1, Ordering::Relaxed) > done {
            return;
        }
        let mut params = json!({ "progressToken": token, "progress": done, "total": total });
        if !words.is_empty() {
            params["message"] = json!(words);
        }
        Assistant::tell(self, "notifications/progress", params);
    }
}

impl Assistant for Exchange {
    fn is_modern(&self) -> bool {
        self.era.modern
    }

    fn can(&self, capability: &str) -> bool {
        self.era.can(capability)
    }

    fn hears(&self) -> bool {
        self.hears
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stopping.begun())
    }

    fn tell(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn progress(&self, done: u64, total: u64, words: &str) {
        Progress::tell(self, done, total, words);
    }

    fn ask<'a>(&'a self, method: &'a str, params: Value) -> BoxFuture<'a, Result<Value, Problem>> {
        Box::pin(async move {
            let unasked =
                |words| Problem::new(Code::FailedPrecondition, words).with_info("NOT_ASKED", "mcp", []);
            let asked = self.mcp.asks.ask(self.engine.entropy.as_ref(), &self.caller);
            let mut asked = asked.ok_or_else(|| unasked("Too many questions to the client wait already."))?;
            let message = json!({ "jsonrpc": "2.0", "id": asked.id, "method": method, "params": params });
            if self.era.modern || !self.send(&message) {
                return Err(unasked("The client takes no questions while it waits for an answer."));
            }
            let answer = tokio::select! {
                answer = asked.answer() => answer,
                () = self.stopping.begun() => return self.stopping.check().map(|()| Value::Null),
            };
            answer.ok_or_else(|| unasked("The client did not answer what it was asked."))
        })
    }

    fn seal(&self, purpose: &str, state: &[u8]) -> String {
        let until = self.engine.clock.now() + seconds(SEALED_SECONDS);
        let (account, row) = self.row(purpose);
        let context = Context { account: &account, row: &row, purpose: SEALED_FOR };
        self.engine.keyring.seal_token(self.engine.entropy.as_ref(), context, until, state)
    }

    fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let (account, row) = self.row(purpose);
        let context = Context { account: &account, row: &row, purpose: SEALED_FOR };
        self.engine.keyring.open_token(context, self.engine.clock.now(), sealed).ok()
    }
}

/// What comes of a request.
pub(super) enum Carried<T> {
    /// It was answered before anything else was said.
    Whole(T),
    /// Something was said first.
    Going(Going<T>),
}

/// A request that is not answered yet, and of which something was said already.
pub(super) struct Going<T> {
    first: Bytes,
    exchange: Arc<Exchange>,
    work: BoxFuture<'static, T>,
}

/// Waits for the answer, or for the first message before it.
pub(super) async fn carry<T: Send + 'static>(
    mut work: BoxFuture<'static, T>,
    exchange: Arc<Exchange>,
) -> Carried<T> {
    let beats = exchange.progress_token.is_some() && exchange.hears;
    loop {
        tokio::select! {
            biased;
            first = exchange.messages.next() => {
                return Carried::Going(Going { first, exchange: exchange.clone(), work });
            }
            ended = &mut work => return match exchange.messages.take() {
                // What was said while it ended comes before the end.
                Some(first) => {
                    let work = Box::pin(std::future::ready(ended));
                    Carried::Going(Going { first, exchange: exchange.clone(), work })
                }
                None => Carried::Whole(ended),
            },
            // Made when it is waited for: most work ends at once.
            () = async { wait(BEAT_EVERY).await }, if beats => exchange.beat(),
        }
    }
}

/// The stream of a request that is not answered yet.
struct Streamed<T, E> {
    going: Option<Going<T>>,
    first: Option<Bytes>,
    end: Option<E>,
    stands: Stands,
    look: Sleep,
    looks: u32,
    connection: Option<Connection>,
    /// Looks after a client that takes nothing, for which this stream is not asked either.
    watch: Option<AbortHandle>,
}

/// May the client still listen?
pub(super) type Stands = Arc<dyn Fn() -> bool + Send + Sync>;

/// Cuts off a client that may not listen any more, and one that takes nothing while the server stops.
async fn watch(connection: Connection, stands: Stands, stopping: Stopping) {
    let (mut refused, mut stalled) = (0, 0);
    while refused <= 1 && stalled <= LOOKS_STALLED_MAX {
        wait(LOOK_EVERY).await;
        refused += u32::from(!stands());
        stalled = if stopping.check().is_err() && connection.is_blocked() { stalled + 1 } else { 0 };
    }
    connection.cut();
}

impl<T, E> Drop for Streamed<T, E> {
    fn drop(&mut self) {
        self.watch.as_ref().inspect(|watch| watch.abort());
        self.connection.as_ref().inspect(|connection| connection.set_streaming(false));
    }
}

impl<T: Send + 'static> Going<T> {
    /// The stream: what is said, then the text that `end` makes of the answer. It ends when the client goes away, which
    /// takes the work with it, and when the client does not `stand` any more.
    pub(super) fn stream(
        self,
        connection: Option<Connection>,
        stands: Stands,
        end: impl FnOnce(T) -> Bytes + Send + 'static,
    ) -> Pieces {
        connection.as_ref().inspect(|connection| connection.set_streaming(true));
        let watching = connection.clone().map(|connection| {
            let watch = watch(connection, stands.clone(), self.exchange.stopping.clone());
            tokio::spawn(watch).abort_handle()
        });
        let streamed = Streamed {
            first: Some(self.first.clone()),
            going: Some(self),
            end: Some(end),
            stands,
            look: wait(LOOK_EVERY),
            looks: 0,
            connection,
            watch: watching,
        };
        Box::pin(stream::unfold(streamed, |mut streamed| async {
            let piece = streamed.next().await?;
            Some((piece, streamed))
        }))
    }
}

impl<T, E: FnOnce(T) -> Bytes> Streamed<T, E> {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let going = self.going.as_mut()?;
            tokio::select! {
                biased;
                // First, or one who hears much would never be looked at.
                () = &mut self.look => {
                    self.look = wait(LOOK_EVERY);
                    if !(self.stands)() {
                        self.going = None;
                        return None;
                    }
                    self.looks += 1;
                    if self.looks.is_multiple_of(LOOKS_PER_BEAT) {
                        going.exchange.beat();
                    }
                    if self.looks.is_multiple_of(LOOKS_PER_PING) {
                        return Some(Bytes::from_static(b": \n\n"));
                    }
                }
                message = going.exchange.messages.next() => {
                    self.looks = 0;
                    return Some(message);
                }
                ended = &mut going.work => {
                    // What was said while it ended comes before the end.
                    let mut rest = Vec::new();
                    while let Some(message) = going.exchange.messages.take() {
                        rest.extend_from_slice(&message);
                    }
                    let text = self.end.take().map(|end| end(ended)).unwrap_or_default();
                    rest.extend_from_slice(&frame(&String::from_utf8_lossy(&text)));
                    self.going = None;
                    return Some(rest.into());
                }
            }
        }
    }
}
