//! Answers and refusals as HTTP.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use portico_kernel::{Code, Problem};
use portico_metering::RateLimitStatus;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"platform-api\"");
pub(crate) const CHALLENGE_INVALID: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"platform-api\", error=\"invalid_token\"");

/// A refusal on its way out, with what only HTTP knows about it.
pub(crate) struct Refusal {
    pub(crate) problem: Problem,
    /// The methods that the path does serve.
    pub(crate) allow: Option<HeaderValue>,
    /// What to do about a token that is missing or lacks something.
    pub(crate) challenge: Option<HeaderValue>,
}

impl<P: Into<Problem>> From<P> for Refusal {
    fn from(problem: P) -> Self {
        Self { problem: problem.into(), allow: None, challenge: None }
    }
}

impl Refusal {
    pub(crate) fn method_not_allowed(allow: &HeaderValue) -> Self {
        let words = format!("This path serves {}.", allow.to_str().unwrap_or_default());
        let problem = Problem::new(Code::MethodNotAllowed, words);
        Self { allow: Some(allow.clone()), ..problem.into() }
    }

    pub(crate) fn into_response(self, request_id: &str) -> Response<Bytes> {
        let code = self.problem.code();
        let mut response =
            refused(code, self.problem.retry_seconds(), self.problem.to_json(request_id).into());
        let headers = response.headers_mut();
        let challenge = self.challenge.or((code == Code::Unauthenticated).then_some(CHALLENGE));
        headers.extend(challenge.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, allow);
        }
        response
    }
}

/// An answer of ours, before the headers that every answer has.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    headers.insert(CACHE_CONTROL, NO_STORE);
    response
}

/// Makes it the head of a stream of server-sent events.
pub(crate) fn event_stream(mut response: Response<Bytes>, cache_control: &'static str) -> Response<Bytes> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    // Proxies would keep a stream to themselves until it ends.
    headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    response
}

/// A refusal whose text is there already.
pub(crate) fn refused(code: Code, retry_seconds: Option<i64>, body: Bytes) -> Response<Bytes> {
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(status, body);
    if let Some(seconds) = retry_seconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Tells the caller of their minute.
pub(crate) fn limit(response: &mut Response<Bytes>, standing: RateLimitStatus) {
    let headers = response.headers_mut();
    headers.insert(RATE_LIMIT, HeaderValue::from(standing.limit));
    headers.insert(RATE_REMAINING, HeaderValue::from(standing.remaining));
    headers.insert(RATE_RESET, HeaderValue::from(standing.reset_seconds));
}

/// Says that the connection ends with this answer.
pub(crate) fn close(response: &mut Response<Bytes>) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}
