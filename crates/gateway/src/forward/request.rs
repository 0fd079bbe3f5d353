//! A request on its way to a service: checked against the document, its body whole or as it comes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use hyper::body::{Body, Frame, SizeHint};
use portico_engine::input::{Fields, Node, parse_form, too_large};
use portico_kernel::{Caller, Code, Problem, Sleep};
use portico_openapi::{BodyRule, FieldError, dots_fault};

use super::ServiceOperation;
use super::in_flight::InFlight;
use crate::body::{BODY_TIME_MAX, HttpBody, too_slow};
use crate::incoming::IncomingRequest;
use crate::message;
use crate::transport::wait;

/// The largest body that is read whole, because it is checked.
const CHECKED_BYTES_MAX: u64 = 16 << 20;

/// Fields that are wrong, as a refusal.
pub(super) fn refused(errors: Vec<FieldError>) -> Problem {
    let faults = errors.into_iter().map(|error| (error.field, error.description));
    Problem::fields(faults).unwrap_or_else(|| Problem::internal("a request was refused for nothing"))
}

impl ServiceOperation {
    /// Checks path, query and headers against the document; where nothing is checked, that the path means what it says.
    pub(super) fn check_head(
        &self,
        parts: &Parts,
        headers: &HeaderMap,
        variables: &Fields,
    ) -> Result<(), Problem> {
        let variables: Vec<_> = variables.iter().map(|(name, node)| (name.clone(), text_of(node))).collect();
        if !self.service.checks_requests {
            let fault = |(name, text): &(String, String)| Some(Problem::field(name, dots_fault(text)?));
            return variables.iter().find_map(fault).map_or(Ok(()), Err);
        }
        let query = parse_form(parts.uri.query().unwrap_or_default())?;
        let header = |name: &str| {
            let mut values =
                headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
            let first = values.next()?.into_owned();
            Some(values.fold(first, |all, next| all + ", " + &next))
        };
        self.operation().check_head(&variables, &query, &header).map_err(refused)
    }

    /// Takes the body for the service: read and checked, or to be passed on as it comes.
    pub(super) async fn read_body<B: HttpBody>(
        &self,
        incoming: &mut IncomingRequest<B>,
        caller: &Caller,
        in_flight: &mut InFlight,
    ) -> Result<Upload, Problem> {
        let limit = self.service.body_max;
        if incoming.parts.headers.get_all(CONTENT_TYPE).iter().count() > 1 {
            return Err(Problem::new(Code::UnsupportedMediaType, "A body has one `Content-Type`."));
        }
        let is_empty = incoming.body.has_ended();
        if !self.service.checks_requests {
            return stream(incoming, limit);
        }
        let Some(body) = &self.operation().body else {
            if is_empty || incoming.body.read(0).await.is_ok_and(|bytes| bytes.is_empty()) {
                return Ok(Upload::whole(Bytes::new()));
            }
            return Err(Problem::field("body", "must be empty: this request takes none"));
        };
        let content_type =
            incoming.parts.headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
        let content_type = content_type.map(str::to_owned);
        if is_empty {
            body.check(content_type.as_deref(), b"").map_err(refused)?;
            return Ok(Upload::whole(Bytes::new()));
        }
        match body.rule(content_type.as_deref()) {
            BodyRule::Pass => stream(incoming, limit),
            BodyRule::None | BodyRule::Unsupported => {
                let types: Vec<_> = body.media_types().collect();
                let message = format!("The body must be of the type {}.", types.join(", "));
                Err(Problem::new(Code::UnsupportedMediaType, message))
            }
            BodyRule::Check => {
                message::check_coding(&incoming.parts.headers)?;
                let limit = limit.min(CHECKED_BYTES_MAX);
                incoming.body.check_declared(limit)?;
                in_flight.hold(incoming.body.length().unwrap_or(limit))?;
                let bytes = incoming.body.read(limit).await?;
                in_flight.hold(bytes.len() as u64)?;
                let (body, text) = (body.clone(), bytes.clone());
                let check = move |text: &[u8]| body.check(content_type.as_deref(), text);
                message::parse(caller, text, check).await?.map_err(refused)?;
                Ok(Upload::whole(bytes))
            }
        }
    }
}

/// The body as it comes.
fn stream<B: HttpBody>(incoming: &mut IncomingRequest<B>, limit: u64) -> Result<Upload, Problem> {
    incoming.body.check_declared(limit)?;
    let length = incoming.body.length();
    let Some((inner, ended)) = incoming.body.take() else { return Ok(Upload::whole(Bytes::new())) };
    let fault = UploadFault { limit, kind: Arc::default() };
    let body =
        UploadBody { inner, length, left: limit, fault: fault.clone(), ended, pause: wait(BODY_TIME_MAX) };
    Ok(Upload { body: ForwardedUpload::Stream(Box::new(body)), fault: Some(fault) })
}

/// A text from a path or a query.
fn text_of(node: &Node) -> String {
    match node {
        Node::Texts(words) => words.join(","),
        Node::Text(word) => word.clone(),
        _ => String::new(),
    }
}

/// A body for a service, and what may yet turn out to be wrong with it.
pub(super) struct Upload {
    pub(super) body: ForwardedUpload,
    pub(super) fault: Option<UploadFault>,
}

impl Upload {
    fn whole(bytes: Bytes) -> Self {
        Self { body: ForwardedUpload::Whole(bytes), fault: None }
    }
}

/// Why a body ended before it was whole.
#[derive(Debug, Clone)]
pub(super) struct UploadFault {
    limit: u64,
    kind: Arc<AtomicU8>,
}

const TOO_LARGE: u8 = 1;
const TOO_SLOW: u8 = 2;

impl UploadFault {
    /// As its sender is told.
    pub(super) fn problem(&self) -> Problem {
        match self.kind.load(Ordering::Relaxed) {
            TOO_LARGE => too_large(self.limit),
            TOO_SLOW => too_slow(),
            _ => Problem::field("body", "did not arrive whole"),
        }
    }
}

/// The body of a request on its way to a service.
pub(crate) enum ForwardedUpload {
    /// All of it; empty when there is none.
    Whole(Bytes),
    /// As it comes.
    Stream(Box<dyn Body<Data = Bytes, Error = UploadBroke> + Send + Unpin>),
}

/// The body did not arrive whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UploadBroke;

impl fmt::Display for UploadBroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body did not arrive whole")
    }
}

impl std::error::Error for UploadBroke {}

impl Body for ForwardedUpload {
    type Data = Bytes;
    type Error = UploadBroke;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadBroke>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(body) => Pin::new(&mut **body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

/// A body as it comes, bounded in size and in the pauses that its sender may make.
struct UploadBody<B> {
    inner: B,
    length: Option<u64>,
    left: u64,
    fault: UploadFault,
    /// Tells whoever ends the request that all of it was read.
    ended: Arc<AtomicBool>,
    pause: Sleep,
}

impl<B: HttpBody> Body for UploadBody<B> {
    type Data = Bytes;
    type Error = UploadBroke;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadBroke>>> {
        let this = self.get_mut();
        let fail = |kind: u8| {
            this.fault.kind.store(kind, Ordering::Relaxed);
            Poll::Ready(Some(Err(UploadBroke)))
        };
        loop {
            let frame = match Pin::new(&mut this.inner).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    ready!(this.pause.as_mut().poll(cx));
                    return fail(TOO_SLOW);
                }
            };
            this.pause = wait(BODY_TIME_MAX);
            match frame {
                None => {
                    this.ended.store(true, Ordering::Relaxed);
                    return Poll::Ready(None);
                }
                Some(Err(_)) => return fail(0),
                Some(Ok(frame)) => {
                    // Trailers of a request are nothing that a service may be told.
                    let Ok(data) = frame.into_data() else { continue };
                    let Some(left) = this.left.checked_sub(data.len() as u64) else { return fail(TOO_LARGE) };
                    this.left = left;
                    if this.inner.is_end_stream() {
                        this.ended.store(true, Ordering::Relaxed);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
