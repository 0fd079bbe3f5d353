//! CORS: browsers of the console, and of origins that the operator names.

use std::collections::HashSet;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

const ALLOW_HEADERS: HeaderValue =
    HeaderValue::from_static("authorization, content-type, idempotency-key, if-none-match, x-request-id");
const EXPOSE_HEADERS: HeaderValue = HeaderValue::from_static(
    "etag, idempotency-replayed, link, retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, \
     x-request-id",
);
const MAX_AGE_SECONDS: HeaderValue = HeaderValue::from_static("600");

/// The origins whose pages may call the API.
#[derive(Debug, Default, Clone)]
pub struct Origins(HashSet<String>);

impl FromIterator<String> for Origins {
    fn from_iter<I: IntoIterator<Item = String>>(origins: I) -> Self {
        Self(origins.into_iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect())
    }
}

impl Origins {
    /// The origin of the request, if it is one of ours.
    pub(crate) fn allowed<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        headers.get(ORIGIN).filter(|origin| origin.to_str().is_ok_and(|origin| self.0.contains(origin)))
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
pub(crate) fn expose(origin: &HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSE_HEADERS);
}
