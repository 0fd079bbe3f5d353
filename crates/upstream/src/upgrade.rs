//! A request that becomes a WebSocket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::{Request, Response};
use http_body_util::Empty;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};

use crate::answer::{Answer, AnswerBody};
use crate::failure::Failure;
use crate::io::Io;
use crate::state::InFlight;
use crate::upstream::{Call, Reply, Upstream};

/// How much of either direction is held.
const PIECE_BYTES: usize = 8 << 10;

/// What a target said to a request that asked for a WebSocket.
#[derive(Debug)]
pub enum Upgrade {
    /// The connection is one now.
    Switched {
        /// The head of the answer.
        response: Response<()>,
        /// What comes after it.
        io: Upgraded,
        /// The name of the target.
        target: Arc<str>,
    },
    /// It is not; this is the answer.
    Refused(Answer),
}

/// A connection to a target that speaks another protocol now. It counts as a call in flight; dropping it closes it.
#[derive(Debug)]
pub struct Upgraded {
    io: Io,
    /// What was read behind the head of the answer.
    read: Bytes,
    _in_flight: InFlight,
}

impl Upstream {
    /// Asks a target for a WebSocket. `Connection` and `Upgrade` are said here, and HTTP/1.1 is spoken to every target.
    pub async fn upgrade(&self, request: Request<()>) -> Result<Upgrade, Failure> {
        let (parts, ()) = request.into_parts();
        let body = Some(Empty::<Bytes>::new());
        let mut call = Call { parts, body, upgrades: true, timeout: self.timeout };
        let (reply, in_flight, target) = self.ask(&mut call).await?;
        Ok(match reply {
            Reply::Switched(response, connection) => {
                let (io, read) = connection.into_parts();
                Upgrade::Switched { response, io: Upgraded { io, read, _in_flight: in_flight }, target }
            }
            Reply::Http1(head, body) => Upgrade::Refused(Answer {
                response: head.map(|()| AnswerBody::http1(body, in_flight)),
                target,
            }),
            Reply::Http2(head) => Upgrade::Refused(Answer {
                response: head.map(|body| AnswerBody::http2(body, in_flight)),
                target,
            }),
        })
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let taken = this.read.len().min(buf.remaining());
        buf.put_slice(&this.read[..taken]);
        this.read.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

/// Moves bytes between a caller and a target until both have ended. Where one side ends, the other one is told, and may go
/// on speaking. Returns how many bytes the caller and the target sent. How long nothing may be said is the caller's to limit.
pub async fn splice<C>(client: &mut C, target: &mut Upgraded) -> io::Result<(u64, u64)>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional_with_sizes(client, target, PIECE_BYTES, PIECE_BYTES).await
}
