//! What a connection reads from and writes to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// The stream under a connection.
#[derive(Debug)]
pub(crate) enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Somebody else writes.
    Reading(ReadHalf<Box<Io>>),
}

impl Io {
    /// Is there something to read, as far as is known without asking the system? So a buffer is needed only when bytes
    /// have come.
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
            Self::Tls(_) | Self::Reading(_) => Poll::Ready(Ok(())),
        }
    }
}

/// Does the same with whatever stream it is.
macro_rules! with {
    ($io:expr, $stream:ident => $does:expr) => {
        match $io.get_mut() {
            Io::Tcp($stream) => $does,
            Io::Unix($stream) => $does,
            Io::Tls($stream) => $does,
            Io::Reading(_) => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Reading(half) => Pin::new(half).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with!(self, stream => Pin::new(stream).poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
