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
use tokio_tungstenite::tungstenite::{Error, Message};

use super::CLOSE_TIME_MAX;
use crate::carried::{FRAME_BYTES_MAX, Ws, opened};

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
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Socket(Box<Ws>),
}

/// What moved.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Moved {
    pub(super) wrote: bool,
    pub(super) read: bool,
    /// The peer has gone.
    pub(super) ended: bool,
}

impl From<TcpStream> for Wire {
    fn from(stream: TcpStream) -> Self {
        Self { kind: Kind::Plain(stream), unsent: false, ping: false }
    }
}

impl From<TlsStream<TcpStream>> for Wire {
    fn from(stream: TlsStream<TcpStream>) -> Self {
        Self { kind: Kind::Tls(Box::new(stream)), unsent: false, ping: false }
    }
}

impl From<Ws> for Wire {
    fn from(ws: Ws) -> Self {
        Self { kind: Kind::Socket(Box::new(ws)), unsent: false, ping: false }
    }
}

impl Wire {
    /// Pings a WebSocket; MQTT itself has nothing that a server could ask with. Answers whether it is one.
    pub(super) fn ping(&mut self) -> bool {
        self.ping = matches!(self.kind, Kind::Socket(_));
        self.ping
    }

    /// The same with the usual limits, for a WebSocket that was not touched yet; `rest` has come already.
    pub(super) async fn widened(self, rest: BytesMut) -> Self {
        match self.kind {
            Kind::Socket(ws) => opened(ws.into_inner(), rest).await.into(),
            kind => Self { kind, ..self },
        }
    }

    /// The largest packet that can come.
    pub(super) fn packet_max(&self) -> usize {
        match &self.kind {
            Kind::Socket(ws) => ws.get_config().max_frame_size.unwrap_or(FRAME_BYTES_MAX),
            Kind::Plain(_) | Kind::Tls(_) => FRAME_BYTES_MAX,
        }
    }

    /// Has everything left?
    pub(super) fn is_clear(&self, out: &BytesMut) -> bool {
        out.is_empty() && !self.unsent && !self.ping
    }

    /// Moves what can be moved: what is in `out` leaves, and if `may_read`, what has come is added to `input`. Both at
    /// once, because a peer may wait for the one before it does the other. Given up half-way, nothing is lost.
    pub(super) async fn moved(
        &mut self,
        out: &mut BytesMut,
        input: &mut BytesMut,
        may_read: bool,
    ) -> io::Result<Moved> {
        poll_fn(|cx| {
            let unsent = &mut self.unsent;
            let moved = match &mut self.kind {
                Kind::Plain(stream) => poll_stream(stream, unsent, cx, out, may_read.then_some(&mut *input)),
                Kind::Tls(stream) => {
                    poll_stream(&mut **stream, unsent, cx, out, may_read.then_some(&mut *input))
                }
                Kind::Socket(ws) => {
                    poll_ping(ws, &mut self.ping, unsent, cx)?;
                    poll_socket(ws, unsent, cx, out, may_read.then_some(&mut *input))
                }
            }?;
            if moved.wrote || moved.read || moved.ended { Poll::Ready(Ok(moved)) } else { Poll::Pending }
        })
        .await
    }

    /// Sends what is left and closes, within a second.
    pub(super) async fn close(mut self, mut out: BytesMut) {
        let leaving = async {
            let mut input = BytesMut::new();
            while !self.is_clear(&out) {
                self.moved(&mut out, &mut input, false).await?;
            }
            match &mut self.kind {
                Kind::Plain(stream) => stream.shutdown().await?,
                Kind::Tls(stream) => stream.shutdown().await?,
                Kind::Socket(ws) => (**ws).close(None).await.map_err(io::Error::other)?,
            }
            // Until the peer has closed too: what it sent and nobody read would cut off what it has yet to read.
            while !self.moved(&mut out, &mut input, true).await?.ended {
                input.clear();
            }
            Ok::<_, io::Error>(())
        };
        let _ = tokio::time::timeout(CLOSE_TIME_MAX, leaving).await;
    }
}

fn poll_stream<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    unsent: &mut bool,
    cx: &mut Context<'_>,
    out: &mut BytesMut,
    input: Option<&mut BytesMut>,
) -> io::Result<Moved> {
    let mut moved = Moved::default();
    while !out.is_empty() {
        match Pin::new(&mut *stream).poll_write(cx, out)? {
            Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(written) => {
                out.advance(written);
                (moved.wrote, *unsent) = (true, true);
            }
            Poll::Pending => break,
        }
    }
    if *unsent && Pin::new(&mut *stream).poll_flush(cx)?.is_ready() {
        (moved.wrote, *unsent) = (true, false);
    }
    if out.is_empty() && out.capacity() > 0 {
        *out = BytesMut::new();
    }
    let Some(input) = input else { return Ok(moved) };
    let mut space = [const { MaybeUninit::uninit() }; READ_BYTES];
    let mut read = ReadBuf::uninit(&mut space);
    if Pin::new(stream).poll_read(cx, &mut read)?.is_ready() {
        (moved.read, moved.ended) = (true, read.filled().is_empty());
        input.extend_from_slice(read.filled());
    }
    Ok(moved)
}

fn poll_ping(ws: &mut Ws, ping: &mut bool, unsent: &mut bool, cx: &mut Context<'_>) -> io::Result<()> {
    if *ping && ws.poll_ready_unpin(cx).map_err(io::Error::other)?.is_ready() {
        ws.start_send_unpin(Message::Ping(Bytes::new())).map_err(io::Error::other)?;
        (*ping, *unsent) = (false, true);
    }
    Ok(())
}

/// The same over a WebSocket. What is ready goes out as one message; packets and messages need not begin together.
fn poll_socket(
    ws: &mut Ws,
    unsent: &mut bool,
    cx: &mut Context<'_>,
    out: &mut BytesMut,
    input: Option<&mut BytesMut>,
) -> io::Result<Moved> {
    let mut moved = Moved::default();
    match poll_socket_both(ws, unsent, cx, out, input, &mut moved) {
        Ok(()) => Ok(moved),
        Err(Error::ConnectionClosed | Error::AlreadyClosed) => Ok(Moved { ended: true, ..moved }),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn poll_socket_both(
    ws: &mut Ws,
    unsent: &mut bool,
    cx: &mut Context<'_>,
    out: &mut BytesMut,
    input: Option<&mut BytesMut>,
    moved: &mut Moved,
) -> Result<(), Error> {
    if !out.is_empty() && ws.poll_ready_unpin(cx)?.is_ready() {
        ws.start_send_unpin(Message::Binary(std::mem::take(out).freeze()))?;
        (moved.wrote, *unsent) = (true, true);
    }
    if *unsent && ws.poll_flush_unpin(cx)?.is_ready() {
        (moved.wrote, *unsent) = (true, false);
    }
    let Some(input) = input else { return Ok(()) };
    let _: Poll<Result<(), Error>> = poll_message(ws, unsent, cx, input, moved);
    Ok(())
}

fn poll_message(
    ws: &mut Ws,
    unsent: &mut bool,
    cx: &mut Context<'_>,
    input: &mut BytesMut,
    moved: &mut Moved,
) -> Poll<Result<(), Error>> {
    let message = ready!(ws.poll_next_unpin(cx));
    moved.read = true;
    match message {
        Some(Ok(Message::Binary(bytes))) => input.extend_from_slice(&bytes),
        // The library has its answer ready; it only has to leave.
        Some(Ok(Message::Ping(_))) => *unsent = true,
        Some(Ok(Message::Pong(_) | Message::Frame(_))) => {}
        // MQTT is binary: whoever sends text does not speak it.
        Some(Ok(Message::Text(_) | Message::Close(_)) | Err(_)) | None => moved.ended = true,
    }
    Poll::Ready(Ok(()))
}
