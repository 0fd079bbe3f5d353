//! The answer of a request: whole, or a stream of messages that ends with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::StatusCode;
use portico_kernel::Sleep;
use tokio::task::AbortHandle;

use super::exchange::{Exchange, frame};
use super::message::RpcOutcome;
use crate::Stopping;
use crate::outgoing::{HttpAnswer, Outgoing};
use crate::response;
use crate::scope::CallScope;
use crate::transport::{Transport, wait};

/// How often a stream looks whether its client may still listen.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After so many looks without a message the client hears that the work is under way, or at least that the connection is.
const LOOKS_PER_BEAT: u32 = 2;
const BEAT_EVERY: Duration = LOOK_EVERY.saturating_mul(LOOKS_PER_BEAT);
const LOOKS_PER_PING: u32 = 15;
/// A client that takes nothing for so many looks is cut off when the server stops, and sooner when it may not listen.
const LOOKS_STALLED_MAX: u32 = 5;

/// How a request is answered.
pub(super) enum AnswerMode {
    /// It was answered before anything else was said.
    Whole(RpcOutcome),
    /// Something was said first.
    Streamed(PendingAnswer),
}

/// A request that is not answered yet, and of which something was said already.
pub(super) struct PendingAnswer {
    first: Bytes,
    exchange: Arc<Exchange>,
    work: BoxFuture<'static, RpcOutcome>,
}

/// Waits for the answer, or for the first message before it.
pub(super) async fn first_message(
    mut work: BoxFuture<'static, RpcOutcome>,
    exchange: Arc<Exchange>,
) -> AnswerMode {
    let first = loop {
        tokio::select! {
            biased;
            outcome = &mut work => {
                // What was said while it ended comes before the end.
                let Some(first) = exchange.take_message() else { return AnswerMode::Whole(outcome) };
                work = Box::pin(std::future::ready(outcome));
                break first;
            }
            first = exchange.message() => break first,
            // Made when it is waited for: most work ends at once.
            () = async { wait(BEAT_EVERY).await }, if exchange.hears_beats() => exchange.beat(),
        }
    };
    AnswerMode::Streamed(PendingAnswer { first, exchange, work })
}

/// May the client still listen?
pub(super) type ValidityCheck = Arc<dyn Fn() -> bool + Send + Sync>;

impl PendingAnswer {
    /// The stream: what is said, then the answer. It ends when the client goes away, which takes the work with it, and when
    /// its credential is not valid any more. The call ends with it.
    pub(super) fn answer(self, transport: Option<Transport>, is_valid: ValidityCheck) -> HttpAnswer {
        transport.as_ref().inspect(|transport| transport.set_streaming(true));
        let watch = transport.clone().map(|transport| {
            let watch = watch(transport, is_valid.clone(), self.exchange.stopping().clone());
            tokio::spawn(watch).abort_handle()
        });
        let mut answer = AnswerStream {
            first: Some(self.first),
            exchange: self.exchange,
            work: Some(self.work),
            scope: None,
            is_valid,
            look: wait(LOOK_EVERY),
            looks: 0,
            transport,
            watch,
        };
        let begin = move |scope: CallScope| -> Outgoing {
            answer.scope = Some(scope);
            let pieces = stream::unfold(answer, |mut answer| async { Some((answer.next().await?, answer)) });
            Outgoing::Stream(Box::pin(pieces))
        };
        let head = response::json(StatusCode::OK, Bytes::new());
        let head = response::event_stream(head, "no-store, no-transform");
        HttpAnswer { head, stream: Some(Box::new(begin)) }
    }
}

/// Cuts off a client that may not listen any more, and one that takes nothing while the server stops.
async fn watch(transport: Transport, is_valid: ValidityCheck, stopping: Stopping) {
    let (mut refused, mut stalled) = (0, 0);
    while refused <= 1 && stalled <= LOOKS_STALLED_MAX {
        wait(LOOK_EVERY).await;
        refused += u32::from(!is_valid());
        stalled = if stopping.check().is_err() && transport.blocked.is_set() { stalled + 1 } else { 0 };
    }
    transport.cut.notify_one();
}

/// The stream of a request that is not answered yet.
struct AnswerStream {
    first: Option<Bytes>,
    exchange: Arc<Exchange>,
    /// `None` once it has ended.
    work: Option<BoxFuture<'static, RpcOutcome>>,
    scope: Option<CallScope>,
    is_valid: ValidityCheck,
    look: Sleep,
    looks: u32,
    transport: Option<Transport>,
    /// Looks after a client that takes nothing, for which this stream is not asked either.
    watch: Option<AbortHandle>,
}

impl Drop for AnswerStream {
    fn drop(&mut self) {
        self.watch.as_ref().inspect(|watch| watch.abort());
        self.transport.as_ref().inspect(|transport| transport.set_streaming(false));
    }
}

impl AnswerStream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let work = self.work.as_mut()?;
            tokio::select! {
                biased;
                // First, or one who hears much would never be looked at.
                () = &mut self.look => {
                    self.look = wait(LOOK_EVERY);
                    if !(self.is_valid)() {
                        self.work = None;
                        return None;
                    }
                    self.looks += 1;
                    if self.looks.is_multiple_of(LOOKS_PER_BEAT) {
                        self.exchange.beat();
                    }
                    if self.looks.is_multiple_of(LOOKS_PER_PING) {
                        return Some(Bytes::from_static(b": \n\n"));
                    }
                }
                message = self.exchange.message() => {
                    self.looks = 0;
                    return Some(message);
                }
                outcome = work => {
                    self.work = None;
                    return Some(self.end(&outcome));
                }
            }
        }
    }

    /// Ends the call, and writes its answer.
    fn end(&mut self, outcome: &RpcOutcome) -> Bytes {
        if let Some(mut scope) = self.scope.take() {
            scope.note(outcome.queries, outcome.code);
            scope.finish(outcome.status.as_u16(), None);
        }
        // What was said while it ended comes before the end.
        let mut rest = Vec::new();
        while let Some(message) = self.exchange.take_message() {
            rest.extend_from_slice(&message);
        }
        rest.extend_from_slice(&frame(&String::from_utf8_lossy(&outcome.text)));
        rest.into()
    }
}
