//! The frames of an HTTP/2 connection, as they come in: how many come to nothing.
//!
//! The library keeps to the protocol, and refuses what it can only be hurt by: endless heads, streams beyond the limit, and
//! streams that are reset before it has looked at them. What it takes for as long as it comes are frames that are allowed and that it costs next to nothing to
//! send: pings, settings, priorities, window updates, empty pieces of bodies. A client has a use for
//! some of them, in proportion to what it asks for and takes. So they are counted here, and whoever sends far more is told to
//! go.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use portico_engine::clock::Stopwatch;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Http2Connection;
use crate::client_stream::{ClientStream, PREFACE};

/// How many frames without a part of a body a client may send at once,
const ALLOWANCE_MAX: u64 = 2_000;
/// and how many more it may with each second,
const ALLOWANCE_PER_SECOND: u64 = 100;
/// and with each request that is taken and each piece of an answer that it takes: libraries that know no better send two
/// window updates for every few kilobytes.
const ALLOWANCE_PER_STEP: u64 = 8;

/// The length of a frame's head (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const END_STREAM: u8 = 1;

/// Follows the frames of a client, and counts those without a part of a body. A request is one of them, and earns more than it
/// costs if it is taken.
#[derive(Debug)]
struct FrameCount {
    head: [u8; HEAD_BYTES],
    /// How much of the head is there.
    have: usize,
    /// How much is to come before the next head: at first, what the client says before any frame.
    skip: usize,
    empty: u64,
}

impl FrameCount {
    fn new() -> Self {
        Self { head: [0; HEAD_BYTES], have: 0, skip: PREFACE.len(), empty: 0 }
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEAD_BYTES - self.have).min(bytes.len());
            self.head[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEAD_BYTES {
                self.have = 0;
                self.end_head();
            }
        }
    }

    fn end_head(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        self.skip = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let is_body = kind == DATA && (self.skip > 0 || flags & END_STREAM != 0);
        self.empty += u64::from(!is_body);
    }
}

/// The bytes of an HTTP/2 connection.
pub(super) struct Http2Io {
    inner: ClientStream,
    connection: Arc<Http2Connection>,
    frames: FrameCount,
    since: Stopwatch,
}

impl Http2Io {
    pub(super) fn new(inner: ClientStream, connection: Arc<Http2Connection>) -> Self {
        Self { inner, connection, frames: FrameCount::new(), since: Stopwatch::start() }
    }

    /// Has the client sent more of these frames than anybody needs?
    fn is_flooded(&mut self) -> bool {
        if self.frames.empty <= ALLOWANCE_MAX {
            return false;
        }
        // What was earned meanwhile is taken off, and a long quiet past allows no more at once than a short one.
        let steps = u64::from(self.connection.take_steps());
        let seconds = self.since.elapsed().as_secs();
        if seconds > 0 {
            self.since = Stopwatch::start();
        }
        let earned = steps * ALLOWANCE_PER_STEP + seconds * ALLOWANCE_PER_SECOND;
        self.frames.empty = self.frames.empty.saturating_sub(earned);
        self.frames.empty > ALLOWANCE_MAX
    }
}

impl AsyncRead for Http2Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.connection.is_flooded() {
            // Nothing more is read until the connection has ended, which is soon.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        this.frames.follow(&buffer.filled()[before..]);
        if this.is_flooded() {
            this.connection.set_flooded();
        }
        Poll::Ready(Ok(()))
    }
}

impl Http2Io {
    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        let transport = &self.connection.transport;
        transport.blocked.set(written.is_pending());
        if let Poll::Ready(Ok(count)) = written {
            transport.sent(*count);
        }
    }
}

impl AsyncWrite for Http2Io {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, pieces);
        self.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(payload).unwrap().to_be_bytes();
        [vec![a, b, c, kind, flags, 0, 0, 0, 1], vec![0xff; payload]].concat()
    }

    #[test]
    fn frames_without_a_body_are_counted_however_they_come() {
        const PING: u8 = 6;
        const CONTINUATION: u8 = 9;
        let sent = [
            PREFACE.to_vec(),
            frame(4, 0, 0),
            frame(1, 4, 70_000),
            frame(DATA, 0, 10),
            frame(DATA, END_STREAM, 0),
            frame(PING, 0, 8),
            frame(DATA, 0, 0),
            frame(CONTINUATION, 0, 0),
            frame(0xbe, 0, 300),
        ]
        .concat();
        for piece in [1, 7, sent.len()] {
            let mut count = FrameCount::new();
            sent.chunks(piece).for_each(|bytes| count.follow(bytes));
            assert_eq!((count.empty, count.skip, count.have), (6, 0, 0));
        }
    }
}
