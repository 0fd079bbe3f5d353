//! The body of a service's answer, on its way to the caller.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use hyper::body::{Body, Frame, SizeHint};
use portico_engine::ports::Charge;
use portico_kernel::Code;
use portico_upstream::{AnswerBody, AnswerError, strip_trailers};

use super::in_flight::InFlight;
use super::units_told;
use crate::outgoing::BrokenOff;
use crate::scope::CallScope;
use crate::transport::Transport;

/// A body that comes from a service. The call ends with it: before its last byte leaves, it is recorded. Dropped before
/// that, because the caller left, it ends the call at the service.
pub struct ForwardedBody {
    body: AnswerBody,
    status: u16,
    /// `None` once the call has ended.
    scope: Option<CallScope>,
    charge: Option<Arc<dyn Charge>>,
    /// The last frame and what it waits for: a price that came in the trailers.
    last: Option<(Option<Frame<Bytes>>, BoxFuture<'static, ()>)>,
    /// Resolves when an answer that goes on and on must end.
    watch: Option<BoxFuture<'static, ()>>,
    /// Until its end it is one of the calls that its tenant may have at once.
    _in_flight: InFlight,
    /// Marks the connection as one whose answer goes on and on.
    _stream: Option<StreamMark>,
}

/// The answer of this connection may pause for as long as it likes.
struct StreamMark(Transport);

impl Drop for StreamMark {
    fn drop(&mut self) {
        self.0.set_streaming(false);
    }
}

impl ForwardedBody {
    pub(super) fn new(
        body: AnswerBody,
        status: u16,
        (scope, charge, in_flight): (CallScope, Option<Arc<dyn Charge>>, InFlight),
        transport: Option<Transport>,
        watch: Option<BoxFuture<'static, ()>>,
    ) -> Self {
        let watch = watch.filter(|_| body.size_hint().exact().is_none());
        let stream = match (transport, body.size_hint().exact()) {
            (Some(transport), Some(length)) => {
                transport.expect_body(length);
                None
            }
            (Some(transport), None) => {
                transport.set_streaming(true);
                transport.expect_pieces();
                Some(StreamMark(transport))
            }
            (None, _) => None,
        };
        Self {
            body,
            status,
            scope: Some(scope),
            charge,
            last: None,
            watch,
            _in_flight: in_flight,
            _stream: stream,
        }
    }

    /// Ends the call, once.
    fn end(&mut self, code: Option<Code>) {
        if let Some(scope) = self.scope.take() {
            scope.finish(self.status, code);
        }
    }

    /// What the trailers mean: those that are for us are not passed on.
    fn take_trailers(&mut self, frame: Frame<Bytes>) -> Option<Frame<Bytes>> {
        let mut trailers = match frame.into_trailers() {
            Ok(trailers) => trailers,
            Err(frame) => return Some(frame),
        };
        let units = StatusCode::from_u16(self.status).ok().and_then(|status| units_told(&trailers, status));
        strip_trailers(&mut trailers);
        let frame = (!trailers.is_empty()).then(|| Frame::trailers(trailers));
        if let (Some(units), Some(charge)) = (units, self.charge.clone()) {
            let repricing = Box::pin(async move {
                if let Err(problem) = charge.reprice(units).await {
                    tracing::error!(cause = ?problem.cause(), "Failed to charge what a service told in its trailers");
                }
            });
            self.last = Some((frame, repricing));
            return None;
        }
        frame
    }
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        if let Some(watch) = &mut this.watch
            && watch.as_mut().poll(cx).is_ready()
        {
            // The caller may not read on, or the server stops.
            this.watch = None;
            this.end(None);
            return Poll::Ready(Some(Err(BrokenOff)));
        }
        loop {
            if let Some((frame, repricing)) = &mut this.last {
                ready!(repricing.as_mut().poll(cx));
                let frame = frame.take();
                this.last = None;
                this.end(None);
                return Poll::Ready(frame.map(Ok));
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let is_trailers = frame.is_trailers();
                    let frame = this.take_trailers(frame);
                    if this.last.is_some() {
                        continue;
                    }
                    if is_trailers || this.body.is_end_stream() {
                        this.end(None);
                    }
                    if let Some(frame) = frame {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                None => {
                    this.end(None);
                    return Poll::Ready(None);
                }
                Some(Err(AnswerError::RequestBroke)) => {
                    // Whoever breaks their own request off pays for what was answered.
                    this.end(None);
                    return Poll::Ready(Some(Err(BrokenOff)));
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "Answer of a service broke off");
                    // It was not served, and costs nothing.
                    this.end(Some(Code::Unavailable));
                    return Poll::Ready(Some(Err(BrokenOff)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
