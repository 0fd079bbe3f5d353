//! The body of an answer: whole, or a stream that goes on.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http::Response;
use hyper::body::{Body, Frame, SizeHint};

use crate::forward::ForwardedBody;
use crate::scope::CallScope;

/// Pieces of an answer that goes on.
pub(crate) type BodyStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Begins the body that follows a head. It is given the call's scope: the call ends now, or in the body.
pub(crate) type StreamStart = Box<dyn FnOnce(CallScope) -> Outgoing + Send>;

/// An answer over HTTP: a response that is whole, or the head of one whose body is a stream.
pub(crate) struct HttpAnswer {
    pub(crate) head: Response<Bytes>,
    pub(crate) stream: Option<StreamStart>,
}

impl From<Response<Bytes>> for HttpAnswer {
    fn from(head: Response<Bytes>) -> Self {
        Self { head, stream: None }
    }
}

/// The body of an answer.
pub enum Outgoing {
    /// All of it.
    Whole(Bytes),
    /// Piece by piece.
    Stream(BodyStream),
    /// As a service sends it.
    Forwarded(Box<ForwardedBody>),
}

/// An answer broke off at the service that gave it; whoever called is cut off too.
#[derive(Debug, Clone, Copy)]
pub struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer of the service broke off")
    }
}

impl std::error::Error for BrokenOff {}

impl Outgoing {
    /// The whole body; empty for one that is not in memory.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Stream(_) | Self::Forwarded(_) => Bytes::new(),
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(pieces) => {
                pieces.as_mut().poll_next(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
            Self::Forwarded(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(_) => false,
            Self::Forwarded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
            Self::Forwarded(body) => body.size_hint(),
        }
    }
}
