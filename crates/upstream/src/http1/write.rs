//! A request on its way to a target.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::HeaderValue;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http_body::Body;
use tokio::io::AsyncWrite;

use crate::upstream::has_content;

/// Pieces of a body up to this size are copied behind what is to be written anyway.
const COPIED_MAX: usize = 8 << 10;
/// Enough is gathered for one write.
const GATHERED: usize = 16 << 10;
const LINE_END: &[u8] = b"\r\n";

/// Where the request ends, for its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    /// So many bytes are still to come.
    Length(u64),
    Chunked,
}

/// Why the request could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteError {
    /// The connection has ended.
    Io,
    /// The body broke off, or is not as long as it said.
    Body,
}

/// Writes the head and then the body, as far as either side lets it.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Written first: the head, small pieces, the sizes of chunks.
    gathered: BytesMut,
    /// Written next, without a copy.
    piece: Bytes,
    /// Written behind the piece.
    tail: &'static [u8],
    framing: Framing,
    /// Nothing more will be gathered.
    has_ended: bool,
    written: u64,
    waits_for_body: bool,
}

impl Writer {
    /// A request to `host`. Its framing is what its body says, whatever stands in its headers.
    pub(crate) fn new<B: Body>(parts: &Parts, host: &HeaderValue, body: &B, upgrades: bool) -> Self {
        let mut head = BytesMut::with_capacity(256 + 48 * parts.headers.len());
        head.put_slice(parts.method.as_str().as_bytes());
        head.put_u8(b' ');
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        head.put_slice(path.as_bytes());
        head.put_slice(b" HTTP/1.1\r\n");
        put(&mut head, b"host", host.as_bytes());
        for (name, value) in &parts.headers {
            if !matches!(*name, CONTENT_LENGTH | TRANSFER_ENCODING | CONNECTION | HOST | TE | UPGRADE) {
                put(&mut head, name.as_str().as_bytes(), value.as_bytes());
            }
        }
        head.put_slice(if upgrades {
            b"connection: upgrade\r\nupgrade: websocket\r\n"
        } else {
            // Many servers send trailers to nobody else.
            b"te: trailers\r\nconnection: te\r\n"
        });
        let length = if body.is_end_stream() { Some(0) } else { body.size_hint().exact() };
        let framing = length.map_or(Framing::Chunked, Framing::Length);
        match length {
            Some(0) if !has_content(&parts.method) => {}
            Some(length) => put(&mut head, b"content-length", itoa(length, &mut [0; 20])),
            None => put(&mut head, b"transfer-encoding", b"chunked"),
        }
        head.put_slice(LINE_END);
        Self {
            gathered: head,
            piece: Bytes::new(),
            tail: &[],
            framing,
            has_ended: length == Some(0),
            written: 0,
            waits_for_body: false,
        }
    }

    /// What is written next.
    #[cfg(test)]
    pub(super) fn gathered(&self) -> &[u8] {
        &self.gathered
    }

    /// How many bytes the connection has taken.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Is it the body that is waited for, and not the connection?
    pub(crate) fn waits_for_body(&self) -> bool {
        self.waits_for_body
    }

    /// Has everything been taken?
    pub(crate) fn is_done(&self) -> bool {
        self.has_ended && self.left() == 0
    }

    fn left(&self) -> usize {
        self.gathered.len() + self.piece.len() + self.tail.len()
    }

    /// Writes on, until everything was taken.
    pub(crate) fn poll<B, W>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut W,
        body: &mut B,
    ) -> Poll<Result<(), WriteError>>
    where
        B: Body<Data = Bytes> + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            self.waits_for_body = false;
            let is_body_pending = self.gather(cx, body)?.is_pending();
            while self.left() > 0 {
                let taken = ready!(self.poll_write(cx, io)).map_err(|_| WriteError::Io)?;
                if taken == 0 {
                    return Poll::Ready(Err(WriteError::Io));
                }
                self.advance(taken);
            }
            if self.has_ended || is_body_pending {
                ready!(Pin::new(&mut *io).poll_flush(cx)).map_err(|_| WriteError::Io)?;
            }
            if self.has_ended {
                return Poll::Ready(Ok(()));
            }
            if is_body_pending {
                self.waits_for_body = true;
                return Poll::Pending;
            }
        }
    }

    /// Takes from the body what there is, up to a good write.
    fn gather<B>(&mut self, cx: &mut Context<'_>, body: &mut B) -> Result<Poll<()>, WriteError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        while !self.has_ended
            && self.piece.is_empty()
            && self.tail.is_empty()
            && self.gathered.len() < GATHERED
        {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Some(Ok(frame))) => {
                    // What a caller sends behind its body is not passed on.
                    if let Ok(data) = frame.into_data() {
                        self.push(data)?;
                    }
                }
                Poll::Ready(Some(Err(_))) => return Err(WriteError::Body),
                Poll::Ready(None) => self.end()?,
            }
        }
        Ok(Poll::Ready(()))
    }

    fn push(&mut self, data: Bytes) -> Result<(), WriteError> {
        if data.is_empty() {
            return Ok(());
        }
        let tail: &'static [u8] = match &mut self.framing {
            Framing::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(WriteError::Body)?;
                self.has_ended = *left == 0;
                &[]
            }
            Framing::Chunked => {
                self.gathered.put_slice(hex(data.len() as u64, &mut [0; 16]));
                self.gathered.put_slice(LINE_END);
                LINE_END
            }
        };
        if data.len() <= COPIED_MAX {
            self.gathered.put_slice(&data);
            self.gathered.put_slice(tail);
        } else {
            (self.piece, self.tail) = (data, tail);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), WriteError> {
        match self.framing {
            Framing::Length(0) => {}
            Framing::Length(_) => return Err(WriteError::Body),
            Framing::Chunked => self.gathered.put_slice(b"0\r\n\r\n"),
        }
        self.has_ended = true;
        Ok(())
    }

    fn poll_write<W: AsyncWrite + Unpin>(&self, cx: &mut Context<'_>, io: &mut W) -> Poll<io::Result<usize>> {
        let io = Pin::new(io);
        if self.piece.is_empty() && self.tail.is_empty() {
            return io.poll_write(cx, &self.gathered);
        }
        if self.gathered.is_empty() && self.tail.is_empty() {
            return io.poll_write(cx, &self.piece);
        }
        let pieces = [IoSlice::new(&self.gathered), IoSlice::new(&self.piece), IoSlice::new(self.tail)];
        io.poll_write_vectored(cx, &pieces)
    }

    fn advance(&mut self, mut taken: usize) {
        self.written += taken as u64;
        let of_gathered = taken.min(self.gathered.len());
        self.gathered.advance(of_gathered);
        taken -= of_gathered;
        let of_piece = taken.min(self.piece.len());
        self.piece.advance(of_piece);
        self.tail = &self.tail[taken - of_piece..];
    }
}

fn put(head: &mut BytesMut, name: &[u8], value: &[u8]) {
    head.put_slice(name);
    head.put_slice(b": ");
    head.put_slice(value);
    head.put_slice(LINE_END);
}

/// The number in decimal digits.
fn itoa(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    in_digits(number, 10, digits)
}

/// The number in hexadecimal digits.
fn hex(number: u64, digits: &mut [u8; 16]) -> &[u8] {
    in_digits(number, 16, digits)
}

fn in_digits(mut number: u64, base: u64, digits: &mut [u8]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[usize::try_from(number % base).unwrap_or_default()];
        number /= base;
        if number == 0 {
            return &digits[at..];
        }
    }
}
