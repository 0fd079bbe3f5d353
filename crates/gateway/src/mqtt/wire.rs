//! What carries the packets: TCP, TLS or a WebSocket.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::tungstenite::Message;

use super::CLOSE_TIME_MAX;
use crate::websocket::{FRAME_BYTES_MAX, Ws, websocket};

/// What is read at once. It is on the stack while it is read, so that a quiet connection holds nothing.
const READ_BYTES: usize = 4 << 10;

/// A connection, whatever it is made of.
pub(super) struct Wire {
    kind: Kind,
    /// Is there anything that was handed over, but may not have left?
    unsent: bool,
    /// Is a WebSocket to be pinged?
    ping: bool,
}

enum Kind {
    Stream(Box<dyn ByteStream>),
    Socket(Box<Ws>),
}

trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl ByteStream for TcpStream {}
impl ByteStream for TlsStream<TcpStream> {}

/// What was transferred.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct IoProgress {
    pub(super) wrote: bool,
    pub(super) read: bool,
    /// The peer has gone.
    pub(super) ended: bool,
}

impl<S: ByteStream + 'static> From<S> for Wire {
    fn from(stream: S) -> Self {
        Self::new(Kind::Stream(Box::new(stream)))
    }
}

impl From<Ws> for Wire {
    fn from(ws: Ws) -> Self {
        Self::new(Kind::Socket(Box::new(ws)))
    }
}

impl Wire {
    fn new(kind: Kind) -> Self {
        Self { kind, unsent: false, ping: false }
    }

    /// Pings a WebSocket; MQTT itself has nothing that a server could ask with. Returns whether it is one.
    pub(super) fn ping(&mut self) -> bool {
        self.ping = matches!(self.kind, Kind::Socket(_));
        self.ping
    }

    /// The same with the usual limits, for a WebSocket that was not touched yet; `rest` has come already.
    pub(super) async fn widened(self, rest: BytesMut) -> Self {
        match self.kind {
            Kind::Socket(ws) => websocket(ws.into_inner(), rest, FRAME_BYTES_MAX).await.into(),
            kind @ Kind::Stream(_) => Self { kind, ..self },
        }
    }

    /// The largest packet that can come.
    pub(super) fn packet_max(&self) -> usize {
        match &self.kind {
            Kind::Socket(ws) => ws.get_config().max_frame_size.unwrap_or(FRAME_BYTES_MAX),
            Kind::Stream(_) => FRAME_BYTES_MAX,
        }
    }

    /// Has everything left?
    pub(super) fn is_clear(&self, out: &BytesMut) -> bool {
        out.is_empty() && !self.unsent && !self.ping
    }

    /// Transfers what can be transferred: what is in `out` leaves, and if `may_read`, what has come is added to `input`.
    /// Both at once, because a peer may wait for the one before it does the other. Given up half-way, nothing is lost.
    pub(super) async fn transfer(
        &mut self,
        out: &mut BytesMut,
        input: &mut BytesMut,
        may_read: bool,
    ) -> io::Result<IoProgress> {
        poll_fn(|cx| {
            let mut progress = IoProgress { wrote: self.poll_send(cx, out)?, ..IoProgress::default() };
            if may_read && let Poll::Ready(ended) = self.poll_read(cx, input)? {
                (progress.read, progress.ended) = (true, ended);
            }
            if progress.wrote || progress.read { Poll::Ready(Ok(progress)) } else { Poll::Pending }
        })
        .await
    }

    /// Sends what can be sent of `out`; returns whether that was something.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> io::Result<bool> {
        let mut wrote = false;
        while self.poll_write(cx, out)? {
            (wrote, self.unsent) = (true, true);
        }
        if self.unsent && self.poll_flush(cx)?.is_ready() {
            (wrote, self.unsent) = (true, false);
        }
        if out.is_empty() && out.capacity() > 0 {
            *out = BytesMut::new();
        }
        Ok(wrote)
    }

    /// Hands over what can be; returns whether that was something.
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> io::Result<bool> {
        match &mut self.kind {
            Kind::Stream(_) if out.is_empty() => Ok(false),
            Kind::Stream(stream) => match Pin::new(stream).poll_write(cx, out)? {
                Poll::Ready(0) => Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => {
                    out.advance(written);
                    Ok(true)
                }
                Poll::Pending => Ok(false),
            },
            Kind::Socket(ws) => {
                if (out.is_empty() && !self.ping)
                    || ws.poll_ready_unpin(cx).map_err(io::Error::other)?.is_pending()
                {
                    return Ok(false);
                }
                // What is ready goes out as one message; packets and messages need not begin together.
                let message = if std::mem::take(&mut self.ping) {
                    Message::Ping(Bytes::new())
                } else {
                    Message::Binary(std::mem::take(out).freeze())
                };
                ws.start_send_unpin(message).map_err(io::Error::other)?;
                Ok(true)
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        Ok(match &mut self.kind {
            Kind::Stream(stream) => Pin::new(stream).poll_flush(cx)?,
            Kind::Socket(ws) => ws.poll_flush_unpin(cx).map_err(io::Error::other)?,
        })
    }

    /// Adds what has come to `input`; returns whether the peer has gone.
    fn poll_read(&mut self, cx: &mut Context<'_>, input: &mut BytesMut) -> Poll<io::Result<bool>> {
        match &mut self.kind {
            Kind::Stream(stream) => {
                let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
                let mut read = ReadBuf::uninit(&mut space);
                ready!(Pin::new(stream).poll_read(cx, &mut read))?;
                input.extend_from_slice(read.filled());
                Poll::Ready(Ok(read.filled().is_empty()))
            }
            Kind::Socket(ws) => {
                match ready!(ws.poll_next_unpin(cx)) {
                    Some(Ok(Message::Binary(bytes))) => input.extend_from_slice(&bytes),
                    // The library has its answer ready; it only has to leave.
                    Some(Ok(Message::Ping(_))) => self.unsent = true,
                    Some(Ok(Message::Pong(_) | Message::Frame(_))) => {}
                    // MQTT is binary: whoever sends text does not speak it.
                    Some(Ok(Message::Text(_) | Message::Close(_)) | Err(_)) | None => {
                        return Poll::Ready(Ok(true));
                    }
                }
                Poll::Ready(Ok(false))
            }
        }
    }

    /// Sends what is left and closes, within a second.
    pub(super) async fn close(mut self, mut out: BytesMut) {
        let leaving = async {
            let mut input = BytesMut::new();
            while !self.is_clear(&out) {
                self.transfer(&mut out, &mut input, false).await?;
            }
            match &mut self.kind {
                Kind::Stream(stream) => stream.shutdown().await?,
                Kind::Socket(ws) => (**ws).close(None).await.map_err(io::Error::other)?,
            }
            // Until the peer has closed too: what it sent and nobody read would cut off what it has yet to read.
            while !self.transfer(&mut out, &mut input, true).await?.ended {
                input.clear();
            }
            Ok::<_, io::Error>(())
        };
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, leaving).await;
    }
}
