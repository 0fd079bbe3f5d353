//! The bytes of a client, with or without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// What a client that speaks HTTP/2 says first (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// HTTP/2 by the name that TLS agrees on.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// A client's bytes.
pub(crate) struct ClientStream {
    inner: Inner,
    /// What was looked at, and is to be read again.
    seen: [u8; PREFACE.len()],
    read: usize,
    given: usize,
}

enum Inner {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl From<TcpStream> for ClientStream {
    fn from(stream: TcpStream) -> Self {
        Self { inner: Inner::Tcp(stream), seen: [0; PREFACE.len()], read: 0, given: 0 }
    }
}

impl From<TlsStream<TcpStream>> for ClientStream {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self { inner: Inner::Tls(Box::new(stream)), seen: [0; PREFACE.len()], read: 0, given: 0 }
    }
}

impl ClientStream {
    /// Does the client speak HTTP/2? Under TLS it said so already; otherwise as many bytes are waited for as it takes to
    /// tell.
    pub(crate) async fn speaks_http2(&mut self) -> io::Result<bool> {
        let stream = match &mut self.inner {
            Inner::Tls(stream) => return Ok(stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2)),
            Inner::Tcp(stream) => stream,
        };
        // Nearly always it can be told at once, and the library reads it all as it came.
        let come = stream.peek(&mut self.seen).await?;
        if come == PREFACE.len() || !PREFACE.starts_with(&self.seen[..come]) {
            return Ok(self.seen == *PREFACE);
        }
        while self.read < PREFACE.len() && PREFACE.starts_with(&self.seen[..self.read]) {
            match stream.read(&mut self.seen[self.read..]).await? {
                0 => return Ok(false),
                more => self.read += more,
            }
        }
        Ok(self.seen == *PREFACE)
    }
}

macro_rules! inner {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().inner {
            Inner::Tcp($stream) => $call,
            Inner::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.given < self.read {
            let end = self.read.min(self.given + buffer.remaining());
            buffer.put_slice(&self.seen[self.given..end]);
            self.given = end;
            return Poll::Ready(Ok(()));
        }
        inner!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        inner!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.inner {
            Inner::Tcp(stream) => stream.is_write_vectored(),
            Inner::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
