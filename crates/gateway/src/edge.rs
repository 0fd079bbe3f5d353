//! The last yard: what the HTTP library answers by itself, and how a connection ends.
//!
//! A request that does not parse never reaches a handler; the library answers it with a bare status. Here that answer
//! is replaced by the envelope, so that a caller gets JSON with a request id even then. And a connection that ends
//! before its request was read whole is drained for a moment, because closing it at once makes the peer's system throw
//! the answer away.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use portico_engine::Engine;
use portico_events::limits::IDLE_MAX;
use portico_kernel::{Code, Problem, Sleep};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::answer_pace::Pace;
use crate::framing::RequestFraming;
use crate::incoming::new_request_id;
use crate::transport::{Transport, wait};

/// How long and how much is drained.
const LINGER_TIME_MAX: Duration = Duration::from_secs(5);
const LINGER_BYTES_MAX: usize = 16 << 20;
/// What is so small is copied into one piece, which the system takes sooner than several.
const PUT_TOGETHER_BYTES_MAX: usize = 2 << 10;
const DRAIN_BUFFER_BYTES: usize = 16 << 10;

/// A connection's bytes, on their way in and out.
pub(crate) struct EdgeIo<T> {
    inner: T,
    engine: Arc<Engine>,
    transport: Transport,
    requests: RequestFraming,
    /// Our own answer, as far as it is not written yet.
    instead: Vec<u8>,
    /// Does the next write begin where the one before ended, in the middle?
    midway: bool,
    /// What is still to come of an answer whose body may look like anything, even like an answer.
    opaque_left: u64,
    /// Resolves when the peer has taken nothing, or too little, for too long.
    patience: Option<Sleep>,
    pace: Pace,
    linger: Option<Linger>,
}

struct Linger {
    ends: Sleep,
    bytes_left: usize,
}

impl<T> EdgeIo<T> {
    /// The connection beneath, once it speaks no HTTP any more.
    pub(crate) fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> EdgeIo<T> {
    pub(crate) fn new(inner: T, engine: Arc<Engine>, transport: Transport) -> Self {
        Self {
            inner,
            engine,
            transport,
            requests: RequestFraming::new(),
            instead: Vec::new(),
            midway: false,
            opaque_left: 0,
            patience: None,
            pace: Pace::default(),
            linger: None,
        }
    }

    /// The envelope in place of the library's bare answer.
    fn replace(&mut self, status: u16) {
        let id = new_request_id(&self.engine);
        let problem = problem(status);
        let body = problem.to_json(&id);
        let status = problem.code().status();
        let head = format!(
            "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nx-request-id: {id}\r\n\
             connection: close\r\n\r\n",
            http::StatusCode::from_u16(status)
                .ok()
                .and_then(|status| status.canonical_reason())
                .unwrap_or_default(),
            body.len(),
        );
        self.instead = [head.into_bytes(), body].concat();
        self.transport.unread.set(true);
    }

    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Writes what `write` writes, of `length` bytes that begin with `first`.
    fn poll_pieces(
        &mut self,
        cx: &mut Context<'_>,
        first: &[u8],
        length: usize,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_instead(cx))?;
        let begins = !self.midway && self.opaque_left == 0 && !self.transport.opaque.is_set();
        if let Some(status) = bare_refusal(first).filter(|_| begins) {
            self.replace(status);
            // What does not go out now goes out with the flush that always follows.
            if let Poll::Ready(Err(error)) = self.poll_instead(cx) {
                return Poll::Ready(Err(error));
            }
            return Poll::Ready(Ok(length));
        }
        let written = write(Pin::new(&mut self.inner), cx);
        if let Poll::Ready(Ok(count)) = written {
            if begins {
                self.pace = Pace::default();
                if first.starts_with(b"HTTP/1.1 101") {
                    self.requests.end();
                }
                self.opaque_left = opaque_bytes(first, self.transport.take_expected_body());
            }
            self.opaque_left = self.opaque_left.saturating_sub(count as u64);
        }
        self.midway = !matches!(written, Poll::Ready(Ok(count)) if count == length);
        self.transport.blocked.set(written.is_pending());
        if let Poll::Ready(result) = &written {
            let count = result.as_ref().map_or(0, |count| *count);
            self.transport.wrote(count);
            self.pace.took(count);
            self.patience = None;
            return written;
        }
        self.pace.wait();
        // Who listens to a stream may be slow; only one that has gone is cut off.
        let limit = if self.transport.streaming.is_set() { IDLE_MAX } else { self.pace.left() };
        let patience = self.patience.get_or_insert_with(|| wait(limit));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Reads on without looking, until the peer is done, or it is enough.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let linger = self
            .linger
            .get_or_insert_with(|| Linger { ends: wait(LINGER_TIME_MAX), bytes_left: LINGER_BYTES_MAX });
        loop {
            if linger.bytes_left == 0 || linger.ends.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut bytes = [0; DRAIN_BUFFER_BYTES];
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    linger.bytes_left = linger.bytes_left.saturating_sub(buffer.filled().len());
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

/// The status of a bare refusal by the library. Our own answers all carry `x-request-id`.
fn bare_refusal(bytes: &[u8]) -> Option<u16> {
    let status = str::from_utf8(bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?).ok()?.parse().ok()?;
    let ours = || bytes.windows(15).any(|window| window.eq_ignore_ascii_case(b"\r\nx-request-id:"));
    (status >= 400 && !ours()).then_some(status)
}

/// The length of an answer that begins here with its head, if its body of so many bytes may look like anything.
fn opaque_bytes(bytes: &[u8], body: u64) -> u64 {
    if body == 0 {
        return 0;
    }
    let head = memchr::memmem::find(bytes, b"\r\n\r\n").map_or(bytes.len(), |end| end + 4);
    head as u64 + body
}

fn problem(status: u16) -> Problem {
    match status {
        413 => Problem::new(Code::PayloadTooLarge, "The body is too large."),
        414 => Problem::new(Code::BadRequest, "The address of the request is too long."),
        431 => Problem::new(Code::BadRequest, "The head of the request is too large."),
        500.. => Problem::internal("the HTTP library failed"),
        _ => Problem::new(Code::BadRequest, "This is not a request that HTTP/1.1 knows."),
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for EdgeIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.inner).poll_read(cx, buffer);
        let read = &mut buffer.filled_mut()[before..];
        if !read.is_empty() {
            this.transport.has_read.set(true);
        }
        this.requests.follow(read);
        polled
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EdgeIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_pieces(cx, bytes, bytes.len(), |inner, cx| inner.poll_write(cx, bytes))
    }

    /// An answer goes out as its head and its body. Put together first, what its reader has not taken yet would be kept a
    /// second time, also where many are sent the same document.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let first = pieces.iter().find(|piece| !piece.is_empty()).map_or(&[][..], |piece| piece);
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if length > PUT_TOGETHER_BYTES_MAX {
            return self.poll_pieces(cx, first, length, |inner, cx| inner.poll_write_vectored(cx, pieces));
        }
        let mut whole = [0; PUT_TOGETHER_BYTES_MAX];
        let mut end = 0;
        for piece in pieces {
            whole[end..end + piece.len()].copy_from_slice(piece);
            end += piece.len();
        }
        self.poll_pieces(cx, first, length, |inner, cx| inner.poll_write(cx, &whole[..length]))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        if !self.midway && self.opaque_left == 0 && !self.transport.serving.is_set() {
            self.transport.set_answering(false);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_instead(cx))?;
        if self.linger.is_none() {
            ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        }
        if self.transport.unread.is_set() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_librarys_own_refusals_are_replaced() {
        assert_eq!(bare_refusal(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"), Some(400));
        assert_eq!(bare_refusal(b"HTTP/1.1 400 Bad Request\r\nX-Request-Id: a\r\n\r\n"), None);
        assert_eq!(bare_refusal(b"HTTP/1.1 100 Continue\r\n\r\n"), None);
        assert_eq!(bare_refusal(b"{\"HTTP/1.1 400\":1}"), None);
        assert_eq!(bare_refusal(b""), None);
    }
}
