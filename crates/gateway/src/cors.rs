//! CORS: browsers of the console, and of origins that the operator names.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

const ALLOW_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-none-match, last-event-id, mcp-method, mcp-name, \
     mcp-protocol-version, mcp-session-id, x-request-id",
);
const EXPOSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "etag, idempotency-replayed, link, mcp-session-id, retry-after, www-authenticate, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, \
     x-request-id",
);
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");

const ANY: HeaderValue = HeaderValue::from_static("*");

/// The origins whose pages may call.
#[derive(Debug, Clone)]
pub struct Origins(Which);

#[derive(Debug, Clone)]
enum Which {
    /// All: for what a page gets without anything of its visitor's.
    Any,
    /// These.
    Only(HashSet<String>),
}

/// None.
impl Default for Origins {
    fn default() -> Self {
        Self(Which::Only(HashSet::new()))
    }
}

impl FromIterator<String> for Origins {
    fn from_iter<I: IntoIterator<Item = String>>(origins: I) -> Self {
        Self(Which::Only(origins.into_iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect()))
    }
}

impl Origins {
    /// Pages of every origin, none of which is sent with its visitor's cookies.
    pub(crate) fn any() -> Self {
        Self(Which::Any)
    }

    /// The origin that may read the answer, if the request comes from a page that may.
    pub(crate) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        match &self.0 {
            Which::Any => Some(ANY),
            Which::Only(known) => {
                origin.to_str().is_ok_and(|origin| known.contains(origin)).then(|| origin.clone())
            }
        }
    }

    /// Is this a browser's question whether it may call?
    pub(crate) fn is_preflight(headers: &HeaderMap) -> bool {
        headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }
}

/// The answer to a browser's question about a path that serves `allow`.
pub(crate) fn preflight(allow: &HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOW_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS);
    response
}

/// Lets the page at `origin` read the answer.
pub(crate) fn expose(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSE_HEADERS);
}
