//! The body of an answer over HTTP/1.1.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use tokio::io::WriteHalf;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::chunked::Chunked;
use super::connection::Connection;
use super::head::Framing;
use super::write::{WriteError, Writer};
use crate::failure::AnswerError;
use crate::io::Io;
use crate::pool::Keeping;

/// What comes next in a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    NeedsMore,
    Data(Bytes),
    /// With its trailers, if there are any.
    End(Option<HeaderMap>),
}

#[derive(Debug)]
pub(super) enum Decoder {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl Decoder {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunked::new()),
            Framing::UntilClose => Self::UntilClose,
            Framing::Empty | Framing::Switched => Self::Length(0),
        }
    }

    /// Takes the next piece out of what was read.
    pub(super) fn decode(&mut self, buf: &mut BytesMut) -> Result<Decoded, &'static str> {
        match self {
            Self::Chunked(chunked) => chunked.decode(buf),
            Self::Length(0) => Ok(Decoded::End(None)),
            _ if buf.is_empty() => Ok(Decoded::NeedsMore),
            Self::Length(left) => {
                let taken = usize::try_from(*left).map_or(buf.len(), |left| left.min(buf.len()));
                *left -= taken as u64;
                Ok(Decoded::Data(buf.split_to(taken).freeze()))
            }
            Self::UntilClose => Ok(Decoded::Data(buf.split().freeze())),
        }
    }
}

/// A request whose target answers before it has all of it. It is written by a task, so that neither direction waits for
/// the other; dropping this ends it.
#[derive(Debug)]
pub(crate) struct Upload {
    task: AbortHandle,
    /// Says whether the request broke off.
    broke: Option<oneshot::Receiver<bool>>,
}

impl Upload {
    pub(crate) fn spawn<B>(mut writer: Writer, mut io: WriteHalf<Box<Io>>, mut body: B) -> Self
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
    {
        Self::run(async move {
            let written = poll_fn(|cx| writer.poll(cx, &mut io, &mut body)).await;
            // A target that takes no more may have answered already.
            matches!(written, Err(WriteError::Body))
        })
    }

    /// The future says whether the request broke off.
    pub(crate) fn run(upload: impl Future<Output = bool> + Send + 'static) -> Self {
        let (sender, broke) = oneshot::channel();
        let task = tokio::spawn(async move {
            // Whoever has the whole answer does not listen any more.
            let _ = sender.send(upload.await);
        });
        Self { task: task.abort_handle(), broke: Some(broke) }
    }

    /// Ready once the request has broken off.
    pub(crate) fn poll_broke(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(broke) = &mut self.broke
            && let Poll::Ready(broke) = Pin::new(broke).poll(cx)
        {
            self.broke = None;
            if broke == Ok(true) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the body of an answer, and keeps the connection for the next call once it is whole.
#[derive(Debug)]
pub(crate) struct Http1Body {
    connection: Connection,
    decoder: Decoder,
    /// What follows the piece that was handed out last, as far as it was read.
    ahead: Option<Result<Decoded, &'static str>>,
    upload: Option<Upload>,
    /// Where the connection goes afterwards.
    keeping: Option<Keeping>,
}

impl Http1Body {
    pub(crate) fn new(
        connection: Connection,
        framing: Framing,
        upload: Option<Upload>,
        keeping: Option<Keeping>,
    ) -> Self {
        let decoder = Decoder::new(framing);
        Self { connection, decoder, ahead: None, upload, keeping }
    }

    /// How many bytes are still to come, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.decoder {
            Decoder::Length(left) => Some(left),
            _ => None,
        }
    }

    /// The next frame; `None` at the end.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, AnswerError>> {
        if self.upload.as_mut().is_some_and(|upload| upload.poll_broke(cx).is_ready()) {
            return Poll::Ready(Err(AnswerError::RequestBroke));
        }
        loop {
            let decoded = match self.ahead.take() {
                Some(decoded) => decoded,
                None => self.decoder.decode(&mut self.connection.buf),
            };
            match decoded.map_err(AnswerError::Framing)? {
                Decoded::Data(data) => {
                    self.look_ahead();
                    return Poll::Ready(Ok(Some(Frame::data(data))));
                }
                Decoded::End(trailers) => return Poll::Ready(Ok(trailers.map(Frame::trailers))),
                Decoded::NeedsMore => {}
            }
            let read = ready!(self.connection.poll_read(cx)).map_err(|_| AnswerError::BrokeOff)?;
            if read == 0 {
                let is_whole = matches!(self.decoder, Decoder::UntilClose);
                return Poll::Ready(if is_whole { Ok(None) } else { Err(AnswerError::BrokeOff) });
            }
        }
    }

    /// The end of a chunked body mostly comes with its last piece.
    fn look_ahead(&mut self) {
        if let Decoder::Chunked(chunked) = &mut self.decoder {
            let ahead = chunked.decode(&mut self.connection.buf);
            self.ahead = (ahead != Ok(Decoded::NeedsMore)).then_some(ahead);
        }
    }

    /// Was everything read?
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.decoder, Decoder::Length(0)) || matches!(self.ahead, Some(Ok(Decoded::End(_))))
    }

    /// Gives the connection back, and returns the trailers that were not handed out. The answer must be whole.
    pub(crate) fn finish(self) -> Option<HeaderMap> {
        if let (Some(keeping), None) = (self.keeping, &self.upload) {
            keeping.put(self.connection);
        }
        if let Some(Ok(Decoded::End(trailers))) = self.ahead { trailers } else { None }
    }
}
