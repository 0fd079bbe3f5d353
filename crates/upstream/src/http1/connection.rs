//! A connection that speaks HTTP/1.1.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tokio::io::{AsyncReadExt, ReadHalf};

use super::head::{Asked, Head, HeadReader};
use super::write::{WriteError, Writer};
use crate::deadline::Deadline;
use crate::failure::Fault;
use crate::io::Io;

/// How much is read at once, at first and at most.
const READ_BYTES: usize = 8 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// A connection and what was read from it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) io: Io,
    pub(super) buf: BytesMut,
    read_bytes: usize,
}

impl Connection {
    pub(crate) fn new(io: Io) -> Self {
        Self { io, buf: BytesMut::new(), read_bytes: READ_BYTES }
    }

    /// Reads what has come. 0 is the end. There is no buffer before bytes have come, so waiting takes no memory.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.io.poll_read_ready(cx)?.is_pending() {
            return self.wait();
        }
        let mut room = self.buf.capacity() - self.buf.len();
        if room < self.read_bytes / 2 {
            self.buf.reserve(self.read_bytes);
            room = self.buf.capacity() - self.buf.len();
        }
        let read = pin!(self.io.read_buf(&mut self.buf)).poll(cx)?;
        let Poll::Ready(read) = read else { return self.wait() };
        if read == room {
            self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        }
        Poll::Ready(Ok(read))
    }

    fn wait(&mut self) -> Poll<io::Result<usize>> {
        if self.buf.is_empty() {
            self.buf = BytesMut::new();
        }
        Poll::Pending
    }

    /// Has the target said nothing since the last answer, and not hung up?
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.buf.is_empty() && self.poll_read(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// What is under it, and what was read beyond the last head.
    pub(crate) fn into_parts(self) -> (Io, Bytes) {
        (self.io, self.buf.freeze())
    }

    /// Leaves writing to somebody else.
    pub(crate) fn split(self) -> (Self, tokio::io::WriteHalf<Box<Io>>) {
        let (reading, writing): (ReadHalf<Box<Io>>, _) = tokio::io::split(Box::new(self.io));
        (Self { io: Io::Reading(reading), ..self }, writing)
    }
}

/// Writes the request, as far as the target takes it, and reads the head of the answer. A target may answer before it has
/// taken the whole request.
pub(crate) async fn exchange<B>(
    connection: &mut Connection,
    writer: &mut Writer,
    body: &mut B,
    asked: Asked,
    mut deadline: Deadline<'_>,
) -> Result<Head, Fault>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut reader = HeadReader::default();
    let mut is_answered = false;
    // A target that refuses a request may hang up before it has read it all, and its answer counts.
    let mut is_writing = true;
    poll_fn(|cx| {
        if is_writing {
            let before = writer.written();
            match writer.poll(cx, &mut connection.io, body) {
                Poll::Ready(Err(WriteError::Body)) => return Poll::Ready(Err(Fault::RequestBroke)),
                Poll::Ready(Err(WriteError::Io)) if writer.written() == 0 => {
                    return Poll::Ready(Err(Fault::Unsent));
                }
                Poll::Ready(_) => {
                    is_writing = false;
                    deadline.restart();
                }
                Poll::Pending if writer.waits_for_body() => deadline.pause(),
                Poll::Pending if writer.written() != before || deadline.is_paused() => deadline.restart(),
                Poll::Pending => {}
            }
        }
        loop {
            if !connection.buf.is_empty()
                && let Some(head) = reader.read(&mut connection.buf, asked).map_err(Fault::BrokenHead)?
            {
                return Poll::Ready(Ok(head));
            }
            match connection.poll_read(cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(read)) if read > 0 => is_answered = true,
                Poll::Ready(_) if is_answered => {
                    return Poll::Ready(Err(Fault::BrokenHead("the head is not whole")));
                }
                Poll::Ready(_) if writer.written() == 0 => return Poll::Ready(Err(Fault::Unsent)),
                Poll::Ready(_) => return Poll::Ready(Err(Fault::Unanswered)),
            }
        }
        ready!(deadline.poll(cx));
        Poll::Ready(Err(Fault::TimedOut))
    })
    .await
}
