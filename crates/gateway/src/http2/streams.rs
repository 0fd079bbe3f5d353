//! The streams of an HTTP/2 connection: one request each, and its answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use portico_events::limits::IDLE_MAX;
use tokio::sync::OwnedSemaphorePermit;

use super::Http2Connection;
use crate::answer_pace::Pace;
use crate::outgoing::{BrokenOff, Outgoing};
use crate::transport::{Flag, Transport};

/// An answer is handed to the library in pieces of at most this size, the next when the client has room for it.
const PIECE_BYTES_MAX: usize = 16 << 10;
/// Of a whole answer that is longer than this the last byte goes by itself. The library takes a piece as soon as there is room for
/// one byte of it, so only then it is known that there was room for all the rest, and the client cannot leave answers behind
/// that nobody looks after any more.
const TAIL_MIN: usize = 1 << 10;

/// The streams of a connection that are not over yet.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Mutex<HashMap<u64, Arc<Http2Stream>>>,
    next_id: AtomicU64,
}

/// A request and its answer.
#[derive(Debug)]
pub(super) struct Http2Stream {
    pub(super) transport: Transport,
    /// Is the head of the answer there?
    pub(super) answered: Flag,
    pace: Mutex<Pace>,
}

impl Http2Stream {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does its client take too little of the answer? Who listens to a stream of events may be slow, but not gone.
    fn is_stalled(&self) -> bool {
        let limit = self.transport.streaming.is_set().then_some(IDLE_MAX);
        self.pace().is_over(limit)
    }
}

/// A stream counts as open until this is dropped.
pub(super) struct OpenStream {
    pub(super) stream: Arc<Http2Stream>,
    connection: Arc<Http2Connection>,
    id: u64,
}

impl OpenStream {
    pub(super) fn new(connection: &Arc<Http2Connection>) -> Self {
        let transport = connection.transport.stream();
        let stream = Arc::new(Http2Stream { transport, answered: Flag::default(), pace: Mutex::default() });
        let id = connection.streams.next_id.fetch_add(1, Ordering::Relaxed);
        connection.streams.open().insert(id, stream.clone());
        Self { stream, connection: connection.clone(), id }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.connection.streams.open().remove(&self.id);
        self.stream.transport.end_stream();
        self.connection.note_end(self.stream.answered.is_set());
    }
}

impl Streams {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Http2Stream>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets those whose client does not take the answer; returns whether there are any streams.
    pub(super) fn look(&self) -> bool {
        let open = self.open();
        let stalled = open.values().filter(|stream| stream.is_stalled());
        stalled.for_each(|stream| stream.transport.cut.notify_one());
        !open.is_empty()
    }
}

/// Runs what the library makes of each request, for as long as its stream may go on.
#[derive(Clone)]
pub(super) struct StreamExecutor(pub(super) Arc<Http2Connection>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, answering: F) {
        // The library calls this right after it has called the service, which left the stream here.
        let Some(open) = self.0.take_begun() else { return };
        tokio::spawn(async move {
            tokio::select! {
                () = answering => {}
                // Dropped before its end, the stream is reset.
                () = open.stream.transport.cut.notified() => {}
            }
        });
    }
}

/// The body of an answer, on its way to the library.
pub(super) struct StreamBody {
    inner: Outgoing,
    /// What is left of the piece under way.
    rest: Bytes,
    stream: Arc<Http2Stream>,
    /// The size of the piece that the library has, and that the client may not have room for yet.
    given: usize,
    /// The connection's other requests wait for it, if the answer is in memory.
    _permit: Option<OwnedSemaphorePermit>,
}

impl StreamBody {
    pub(super) fn new(inner: Outgoing, stream: Arc<Http2Stream>, permit: OwnedSemaphorePermit) -> Self {
        let permit = matches!(inner, Outgoing::Whole(_)).then_some(permit);
        Self { inner, rest: Bytes::new(), stream, given: 0, _permit: permit }
    }

    /// The next piece for the library, of what is there.
    fn piece(&mut self) -> Bytes {
        let is_whole = matches!(self.inner, Outgoing::Whole(_));
        let length = match self.rest.len() {
            length if length > PIECE_BYTES_MAX => PIECE_BYTES_MAX,
            length if is_whole && length > TAIL_MIN => length - 1,
            length => length,
        };
        self.given = length;
        self.stream.transport.blocked.set(true);
        self.stream.pace().wait();
        self.rest.split_to(length)
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = &mut *self;
        if this.given > 0 {
            // The library asks for more once there was room for what it had.
            this.stream.transport.blocked.set(false);
            this.stream.pace().took(this.given);
            this.stream.transport.wrote(this.given);
            this.given = 0;
        }
        while this.rest.is_empty() {
            match ready!(Pin::new(&mut this.inner).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Ok(frame)) => this.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(this.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Outgoing::Whole(bytes) => SizeHint::with_exact((bytes.len() + self.rest.len()) as u64),
            Outgoing::Forwarded(body) if self.rest.is_empty() => body.size_hint(),
            Outgoing::Stream(_) | Outgoing::Forwarded(_) => SizeHint::default(),
        }
    }
}
