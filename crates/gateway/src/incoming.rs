//! A request that has come in, and the frame that every answer gets, whichever listener it came to.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONTENT_LENGTH, HOST, VARY};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use portico_engine::{Engine, log_failure};
use portico_kernel::{Caller, Code, Problem, RequestId, seconds};
use tokio::sync::Notify;

use crate::body::{HttpBody, RequestBody};
use crate::cors::{self, Origins};
use crate::party::Party;
use crate::response::{self, REQUEST_ID, Refusal};
use crate::transport::{Flag, Transport};

const REQUEST_ID_CHARACTERS_MAX: usize = 128;

/// Tells every listener that the server is stopping.
#[derive(Debug, Clone, Default)]
pub struct Stopping(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    begun: AtomicBool,
    notify: Notify,
}

impl Stopping {
    /// From now on new calls are refused with 503; those under way end in order.
    pub fn begin(&self) {
        self.0.begun.store(true, Ordering::Relaxed);
        self.0.notify.notify_waiters();
    }

    /// Resolves when that begins.
    pub(crate) async fn begun(&self) {
        let notified = self.0.notify.notified();
        if !self.0.begun.load(Ordering::Relaxed) {
            notified.await;
        }
    }

    /// Refuses a call that comes too late.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.0.begun.load(Ordering::Relaxed) {
            return Err(Problem::unavailable("The server is stopping; another one takes over.", seconds(1)));
        }
        Ok(())
    }
}

/// A request that has come in.
pub(crate) struct IncomingRequest<B> {
    pub(crate) parts: Parts,
    pub(crate) body: RequestBody<B>,
    pub(crate) request_id: Arc<str>,
    /// May pages of any origin read the answer?
    pub(crate) any_origin: bool,
    is_authenticated: Flag,
}

impl<B: HttpBody> IncomingRequest<B> {
    pub(crate) fn new(request: Request<B>, engine: &Engine) -> Self {
        let (parts, body) = request.into_parts();
        let request_id = request_id(&parts.headers, engine);
        let is_authenticated = Flag::default();
        Self { parts, body: RequestBody::new(body), request_id, any_origin: false, is_authenticated }
    }

    /// The request is read; from here until the answer a stopping server waits for it.
    pub(crate) fn mark_working(&self) {
        self.parts.extensions.get::<Transport>().inspect(|transport| transport.set_working(true));
    }

    /// The connection's client has authenticated; 429 when its account has too many connections already.
    pub(crate) fn mark_authenticated(&self, caller: &Caller) -> Result<(), Problem> {
        self.is_authenticated.set(true);
        let Some(transport) = self.parts.extensions.get::<Transport>() else { return Ok(()) };
        // Until the answer is written the connection is not idle.
        transport.set_answering(true);
        if transport.set_authenticated(&Party::of(caller)) {
            return Ok(());
        }
        transport.refusals().end();
        let message = "Too many connections of the account are in use.";
        Err(Problem::new(Code::RateLimited, message).retry_after(seconds(1)))
    }

    /// What every answer has, whoever made it.
    pub(crate) fn finish(
        self,
        result: Result<Response<Bytes>, Refusal>,
        origins: &Origins,
    ) -> Response<Bytes> {
        let mut response = result.unwrap_or_else(|refusal| refusal.into_response(&self.request_id));
        if let Ok(id) = HeaderValue::from_str(&self.request_id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
        let origins = if self.any_origin { &Origins::any() } else { origins };
        if let Some(origin) = origins.allowed(&self.parts.headers) {
            cors::expose(origin, response.headers_mut());
        }
        let transport = self.parts.extensions.get::<Transport>();
        if !self.body.has_ended() {
            // What was not read cannot be told from the next request, so the connection ends.
            response::close(&mut response);
            transport.inspect(|transport| transport.unread.set(true));
        }
        let is_refusal = response.status().is_client_error();
        // What is open to all says nothing about whoever is refused otherwise.
        if is_refusal || self.is_authenticated.is_set() {
            transport.inspect(|transport| transport.refusals().note(is_refusal));
        }
        if transport.is_some_and(|transport| transport.refusals().are_too_many()) {
            response::close(&mut response);
        }
        if self.parts.method == Method::HEAD && !response.body().is_empty() {
            let length = response.body().len();
            *response.body_mut() = Bytes::new();
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        transport.inspect(|transport| transport.set_answering(true));
        transport.inspect(|transport| transport.set_working(false));
        response
    }
}

impl Transport {
    /// Lets a refusal leave in its turn, where the same party was refused often; then the connection ends with it.
    pub(crate) async fn slow_down(
        &self,
        response: &mut Response<Bytes>,
        party: Option<Party>,
        stopping: &Stopping,
    ) {
        let slowed = tokio::select! {
            slowed = self.wait_with_refusal(party) => slowed,
            () = stopping.begun() => true,
        };
        if slowed {
            self.refusals().end();
            response::close(response);
        }
    }
}

/// The call's id: the caller's own, if it is 1 to 128 visible characters, or a new one.
fn request_id(headers: &HeaderMap, engine: &Engine) -> Arc<str> {
    let mut sent = headers.get_all(REQUEST_ID).iter();
    let one = sent.next().filter(|_| sent.next().is_none()).and_then(|value| value.to_str().ok());
    let kept = one.filter(|id| {
        (1..=REQUEST_ID_CHARACTERS_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
    });
    kept.map_or_else(|| new_request_id(engine), Into::into)
}

/// The id of a call whose caller gave none.
pub(crate) fn new_request_id(engine: &Engine) -> Arc<str> {
    let id: RequestId = engine.entropy.id(engine.clock.now());
    id.with_text(|text| text.into())
}

/// A request names one host, which may be empty (RFC 9112, section 3.2); only HTTP/1.0 knows none.
pub(crate) fn check_host(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let fits = match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => is_host(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    if fits {
        Ok(())
    } else {
        Err(Problem::new(Code::BadRequest, "A request has one `Host` header, or `:authority` in HTTP/2."))
    }
}

/// Is it empty, or a host with or without a port, and nobody before it? Most are a plain name, which need not be taken apart.
fn is_host(host: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    host.iter().all(is_name) || !host.contains(&b'@') && Authority::try_from(host).is_ok()
}

/// Turns a panic outside of any operation into a refusal. It is pinned by whoever calls, because a future that is passed on
/// is copied.
pub(crate) async fn guard<T>(
    answering: Pin<&mut impl Future<Output = Result<T, Refusal>>>,
    request_id: &str,
) -> Result<T, Refusal> {
    AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| {
        let problem = Problem::internal("a panic at the edge");
        log_failure(&problem, "none", request_id);
        Err(problem.into())
    })
}
