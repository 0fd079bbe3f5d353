//! Answers and refusals as HTTP: status, headers, `Link` and `ETag`.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, LINK, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use portico_engine::input::Fields;
use portico_engine::{Access, Entry, Reply, next_query};
use portico_kernel::{Code, Problem, hex};
use portico_metering::RateLimitStatus;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"platform-api\"");
pub(crate) const CHALLENGE_INVALID: HeaderValue =
    HeaderValue::from_static("Bearer realm=\"platform-api\", error=\"invalid_token\"");

/// An `ETag` is this much of the hash of the answer.
const ETAG_BYTES: usize = 16;
/// Three numbers of the usual length.
const NUMBERS_BYTES: usize = 32;
/// Everything but what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const OPEN_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const AUTHORIZED_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");

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
        let message = format!("This path serves {}.", allow.to_str().unwrap_or_default());
        let problem = Problem::new(Code::MethodNotAllowed, message);
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

/// About how many headers an answer has. Room for them is made once.
const HEADERS: usize = 12;

/// An answer of ours, before the headers that every answer has.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
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

/// Tells the caller of their rate limit.
pub(crate) fn rate_limit(response: &mut Response<Bytes>, status: RateLimitStatus) {
    // The three numbers are one text, of which each header has its part.
    let mut text = String::with_capacity(NUMBERS_BYTES);
    let mut end = |number: u64| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{number}");
        text.len()
    };
    let (limit, remaining) = (end(status.limit.into()), end(status.remaining.into()));
    let reset = end(status.reset_seconds);
    let text = Bytes::from(text);
    let headers = response.headers_mut();
    for (name, part) in
        [(RATE_LIMIT, 0..limit), (RATE_REMAINING, limit..remaining), (RATE_RESET, remaining..reset)]
    {
        headers.extend(HeaderValue::from_maybe_shared(text.slice(part)).ok().map(|value| (name, value)));
    }
}

/// Says that the connection ends with this answer.
pub(crate) fn close(response: &mut Response<Bytes>) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}

/// The response for `reply`; `sent` is the message of a list, which its next page repeats.
pub(crate) fn from_reply(
    entry: &Entry,
    parts: &Parts,
    reply: Reply,
    sent: Option<Fields>,
) -> Result<Response<Bytes>, Problem> {
    let body = reply.body.into_json()?;
    let mut response = match reply.refused {
        Some((code, retry)) => refused(code, retry, body),
        None => json(StatusCode::OK, body),
    };
    if reply.replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    if let (Some(token), Some(sent)) = (reply.next_page_token, sent) {
        let variables: Vec<_> = entry.spec.variables().collect();
        let sent = sent.into_iter().filter(|(name, _)| !variables.contains(&name.as_str())).collect();
        let link = format!("<{}?{}>; rel=\"next\"", parts.uri.path(), encode(&next_query(&sent, &token)));
        response.headers_mut().extend(HeaderValue::from_str(&link).ok().map(|link| (LINK, link)));
    }
    if entry.spec.etag && response.status() == StatusCode::OK {
        let hash = digest(&SHA256, reply.tagged.as_ref().unwrap_or(response.body()));
        tag(entry, &parts.headers, &mut response, hash.as_ref());
    }
    Ok(response)
}

/// Adds the `ETag`; whoever has the answer already gets 304 instead.
fn tag(entry: &Entry, asked: &HeaderMap, response: &mut Response<Bytes>, hash: &[u8]) {
    let tag = format!("\"{}\"", hex(&hash[..ETAG_BYTES]));
    let has = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|tags| {
        tags.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
    });
    if has {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Bytes::new();
        response.headers_mut().remove(CONTENT_TYPE);
    }
    let cache = if entry.spec.access == Access::Open { OPEN_CACHE } else { AUTHORIZED_CACHE };
    response.headers_mut().insert(CACHE_CONTROL, cache);
    response.headers_mut().extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
}

fn encode(pairs: &[(String, String)]) -> String {
    let encode = |text| utf8_percent_encode(text, ESCAPED);
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}
