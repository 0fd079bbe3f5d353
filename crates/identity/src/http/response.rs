//! The responses of `{auth_url}`.

use std::time::Duration;

use bytes::Bytes;
use cookie::{Cookie, SameSite};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, PRAGMA, REFERRER_POLICY,
    RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use maud::Markup;
use portico_kernel::{Code, Problem};
use serde::Serialize;
use serde_json::{Value, json};

use super::routes::is_oauth_endpoint;
use crate::oauth::OAuthError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"portico\", charset=\"UTF-8\"");

/// A response of `{auth_url}`.
pub(crate) type AuthResponse = Response<Bytes>;

pub(super) fn new(status: StatusCode, body: impl Into<Bytes>) -> AuthResponse {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
}

pub(super) fn with(mut response: AuthResponse, name: HeaderName, value: HeaderValue) -> AuthResponse {
    response.headers_mut().insert(name, value);
    response
}

fn json(status: StatusCode, body: &impl Serialize) -> AuthResponse {
    // What goes out here is made of strings and numbers, which always serialise.
    with(new(status, serde_json::to_vec(body).unwrap_or_default()), CONTENT_TYPE, JSON)
}

/// A document that anybody may read, and keep for five minutes.
pub(crate) fn document(body: &impl Serialize) -> AuthResponse {
    cached(json(StatusCode::OK, body), 300)
}

fn cached(response: AuthResponse, seconds: u32) -> AuthResponse {
    let value = HeaderValue::from_str(&format!("public, max-age={seconds}"));
    value.map_or_else(|_| AuthResponse::default(), |value| with(response, CACHE_CONTROL, value))
}

/// JSON that no cache may keep.
pub(crate) fn private_json(status: StatusCode, body: &impl Serialize) -> AuthResponse {
    no_store(json(status, body))
}

fn no_store(response: AuthResponse) -> AuthResponse {
    with(with(response, CACHE_CONTROL, NO_STORE), PRAGMA, HeaderValue::from_static("no-cache"))
}

/// A refusal in OAuth's own shape.
pub(crate) fn oauth_error(error: &OAuthError) -> AuthResponse {
    let body = oauth_body(error.error, &error.description);
    let status = match error.error {
        "invalid_client" => StatusCode::UNAUTHORIZED,
        _ if error.retry_after.is_some() => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut response = private_json(status, &body);
    if status == StatusCode::UNAUTHORIZED {
        response = with(response, WWW_AUTHENTICATE, CHALLENGE);
    }
    if let Some(wait) = error.retry_after {
        response = with(response, RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
    response
}

/// A refusal of another part of the platform at an endpoint of OAuth, in OAuth's own shape all the same: its clients read
/// nothing else. `None` at any other path.
pub fn oauth_refusal(path: &str, problem: &Problem) -> Option<Response<Bytes>> {
    if !is_oauth_endpoint(path) {
        return None;
    }
    let error = match problem.code() {
        Code::RateLimited | Code::Unavailable | Code::Timeout => "temporarily_unavailable",
        code if code.status() >= 500 => "server_error",
        _ => "invalid_request",
    };
    let status = StatusCode::from_u16(problem.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let response = private_json(status, &oauth_body(error, problem.error()));
    Some(match problem.retry_seconds() {
        Some(seconds) => retry_after(response, seconds),
        None => response,
    })
}

fn oauth_body(error: &str, description: &str) -> Value {
    json!({ "error": error, "error_description": description })
}

/// A time to wait in whole seconds, at least one.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Status 405 without a body: the gateway writes the `Problem` that goes with it.
pub(crate) fn method_not_allowed(allow: HeaderValue) -> AuthResponse {
    with(new(StatusCode::METHOD_NOT_ALLOWED, ""), ALLOW, allow)
}

/// A redirect, always with GET: what was posted here is not posted there.
pub(crate) fn see_other(address: &str) -> AuthResponse {
    let response = new(StatusCode::SEE_OTHER, "");
    let Ok(location) = HeaderValue::from_str(address) else { return response };
    framed(no_store(with(response, LOCATION, location)), "")
}

/// A page. Its forms may lead here and, by way of a redirect, to `onwards`.
pub(crate) fn page(status: StatusCode, markup: Markup, onwards: &str) -> AuthResponse {
    framed(no_store(with(new(status, markup.into_string()), CONTENT_TYPE, HTML)), onwards)
}

/// A file that pages use.
pub(crate) fn asset(content_type: &'static str, text: impl Into<Bytes>) -> AuthResponse {
    let response = with(new(StatusCode::OK, text), CONTENT_TYPE, HeaderValue::from_static(content_type));
    no_sniffing(cached(response, 3600))
}

/// The response, which is what it says it is and nothing else.
pub(super) fn no_sniffing(response: AuthResponse) -> AuthResponse {
    with(response, X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
}

/// The response with the headers that keep other sites from framing or scripting our pages.
fn framed(response: AuthResponse, onwards: &str) -> AuthResponse {
    let policy = format!(
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'{}{onwards}; frame-ancestors 'none'; base-uri 'none'",
        if onwards.is_empty() { "" } else { " " },
    );
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let response = with(response, CONTENT_SECURITY_POLICY, policy);
    let response = with(response, X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let response = with(response, REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    no_sniffing(response)
}

/// The response with `Retry-After`.
pub(crate) fn retry_after(response: AuthResponse, seconds: i64) -> AuthResponse {
    with(response, RETRY_AFTER, HeaderValue::from(seconds))
}

/// The response with a cookie that only this host gets and no script reads. Without `life` it lives as long as the
/// browser.
pub(crate) fn set_cookie(
    mut response: AuthResponse,
    name: &'static str,
    value: &str,
    life: Option<Duration>,
) -> AuthResponse {
    let cookie = Cookie::build((name, value)).path("/").secure(true).http_only(true).same_site(SameSite::Lax);
    let mut cookie = cookie.build();
    cookie.set_max_age(life.and_then(|life| cookie::time::Duration::try_from(life).ok()));
    if let Ok(value) = HeaderValue::from_str(&cookie.to_string()) {
        response.headers_mut().append(SET_COOKIE, value);
    }
    response
}

/// The response that removes a cookie.
pub(crate) fn remove_cookie(response: AuthResponse, name: &'static str) -> AuthResponse {
    set_cookie(response, name, "", Some(Duration::ZERO))
}
