//! What a target answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};

use crate::failure::AnswerError;
use crate::http1::Http1Body;
use crate::http2::Http2Body;
use crate::state::InFlight;

/// An answer, whatever its status, and who gave it.
#[derive(Debug)]
pub struct Answer {
    /// The answer as the target gave it, but without its framing: that is the body's to say.
    pub response: Response<AnswerBody>,
    /// The name of the target.
    pub target: Arc<str>,
}

/// The body of an answer, as it comes. Dropping it before its end ends the call at the target. A body that breaks off ends
/// with an error, and never as if it were whole.
#[derive(Debug)]
pub struct AnswerBody {
    state: State,
    /// The call counts as in flight until its end.
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
enum State {
    Http1(Box<Http1Body>),
    Http2(Box<Http2Body>),
    /// Everything but these was handed out.
    Trailers(HeaderMap),
    Over,
}

impl AnswerBody {
    pub(crate) fn http1(body: Http1Body, in_flight: InFlight) -> Self {
        let mut this = Self { state: State::Http1(Box::new(body)), in_flight: Some(in_flight) };
        this.settle();
        this
    }

    pub(crate) fn http2(body: Http2Body, in_flight: InFlight) -> Self {
        let mut this = Self { state: State::Http2(Box::new(body)), in_flight: Some(in_flight) };
        this.settle();
        this
    }

    /// Lets the connection go as soon as the answer is whole, and not only when its end is asked for.
    fn settle(&mut self) {
        let is_over = match &self.state {
            State::Http1(body) => body.is_over(),
            State::Http2(body) => body.is_over(),
            State::Trailers(_) | State::Over => false,
        };
        if is_over {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let State::Http1(body) = std::mem::replace(&mut self.state, State::Over)
            && let Some(trailers) = body.finish()
        {
            self.state = State::Trailers(trailers);
        }
        self.in_flight = None;
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = self.get_mut();
        let next = match &mut this.state {
            State::Http1(body) => ready!(body.poll_frame(cx)),
            State::Http2(body) => ready!(body.poll_frame(cx)),
            State::Trailers(trailers) => {
                let trailers = std::mem::take(trailers);
                this.state = State::Over;
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            State::Over => return Poll::Ready(None),
        };
        match &next {
            Ok(Some(frame)) if frame.is_trailers() => this.finish(),
            Ok(Some(_)) => this.settle(),
            Ok(None) => this.finish(),
            Err(_) => {
                this.state = State::Over;
                this.in_flight = None;
            }
        }
        Poll::Ready(next.transpose())
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn size_hint(&self) -> SizeHint {
        let length = match &self.state {
            State::Http1(body) => body.length(),
            State::Http2(body) => body.length(),
            State::Trailers(_) | State::Over => Some(0),
        };
        length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
