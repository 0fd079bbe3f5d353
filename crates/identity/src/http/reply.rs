//! Answers of `{auth_url}`.

use bytes::Bytes;
use cookie::{Cookie, SameSite};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, PRAGMA, REFERRER_POLICY,
    RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use maud::Markup;
use serde::Serialize;
use serde_json::json;

use crate::oauth::OAuthError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"portico\", charset=\"UTF-8\"");

/// An answer on its way out.
pub(crate) type Reply = Response<Bytes>;

fn with(mut reply: Reply, name: HeaderName, value: HeaderValue) -> Reply {
    reply.headers_mut().insert(name, value);
    reply
}

pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    // What goes out here is made of strings and numbers, which always serialise.
    let mut reply = Response::new(Bytes::from(serde_json::to_vec(body).unwrap_or_default()));
    *reply.status_mut() = status;
    with(reply, CONTENT_TYPE, JSON)
}

/// The answer with the right to be kept for a while.
pub(crate) fn cached(reply: Reply, seconds: u32) -> Reply {
    let value = HeaderValue::from_str(&format!("public, max-age={seconds}"));
    value.map_or_else(|_| Reply::default(), |value| with(reply, CACHE_CONTROL, value))
}

/// The answer that nobody may keep.
pub(crate) fn no_store(reply: Reply) -> Reply {
    with(with(reply, CACHE_CONTROL, NO_STORE), PRAGMA, HeaderValue::from_static("no-cache"))
}

/// A refusal in OAuth's own shape.
pub(crate) fn oauth_error(error: &OAuthError) -> Reply {
    let body = json!({ "error": error.error, "error_description": error.description });
    let status = match error.error {
        "invalid_client" => StatusCode::UNAUTHORIZED,
        _ if error.retry_after.is_some() => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut reply = no_store(json(status, &body));
    if status == StatusCode::UNAUTHORIZED {
        reply = with(reply, WWW_AUTHENTICATE, CHALLENGE);
    }
    if let Some(wait) = error.retry_after {
        reply = with(reply, RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    }
    reply
}

/// The edge writes the `Problem` that goes with the status.
pub(crate) fn method_not_allowed(allow: &'static str) -> Reply {
    let mut reply = Response::new(Bytes::new());
    *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    with(reply, ALLOW, HeaderValue::from_static(allow))
}

/// To another address, always with GET: what was posted here is not posted there.
pub(crate) fn see_other(address: &str) -> Reply {
    let mut reply = Response::new(Bytes::new());
    *reply.status_mut() = StatusCode::SEE_OTHER;
    let Ok(location) = HeaderValue::from_str(address) else { return reply };
    framed(no_store(with(reply, LOCATION, location)), "")
}

/// A page. Its forms may lead here and, by way of a redirect, to `onwards`.
pub(crate) fn page(status: StatusCode, markup: Markup, onwards: &str) -> Reply {
    let mut reply = Response::new(Bytes::from(markup.into_string()));
    *reply.status_mut() = status;
    framed(no_store(with(reply, CONTENT_TYPE, HTML)), onwards)
}

/// A file that pages use.
pub(crate) fn asset(content_type: &'static str, text: &'static str) -> Reply {
    let reply = Response::new(Bytes::from_static(text.as_bytes()));
    let reply = with(reply, CONTENT_TYPE, HeaderValue::from_static(content_type));
    with(cached(reply, 3600), X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
}

/// What keeps other sites away from our pages.
fn framed(reply: Reply, onwards: &str) -> Reply {
    let policy = format!(
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'{}{onwards}; frame-ancestors 'none'; base-uri 'none'",
        if onwards.is_empty() { "" } else { " " },
    );
    let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    let reply = with(reply, CONTENT_SECURITY_POLICY, policy);
    let reply = with(reply, X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    let reply = with(reply, REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    with(reply, X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"))
}

/// The answer with `Retry-After`.
pub(crate) fn retry_after(reply: Reply, wait: std::time::Duration) -> Reply {
    with(reply, RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1))
}

/// The answer with a cookie that only this host gets and no script reads; it lives as long as the browser.
pub(crate) fn set_cookie(reply: Reply, name: &'static str, value: &str) -> Reply {
    add_cookie(reply, Cookie::build((name, value.to_owned())))
}

/// The same for a session: it outlives the browser.
pub(crate) fn set_lasting_cookie(
    reply: Reply,
    name: &'static str,
    value: &str,
    life: std::time::Duration,
) -> Reply {
    let seconds = i64::try_from(life.as_secs()).unwrap_or(0);
    add_cookie(
        reply,
        Cookie::build((name, value.to_owned())).max_age(cookie::time::Duration::seconds(seconds)),
    )
}

/// The answer that removes a cookie.
pub(crate) fn remove_cookie(reply: Reply, name: &'static str) -> Reply {
    add_cookie(reply, Cookie::build((name, "")).max_age(cookie::time::Duration::ZERO))
}

fn add_cookie(mut reply: Reply, cookie: cookie::CookieBuilder<'_>) -> Reply {
    let cookie = cookie.path("/").secure(true).http_only(true).same_site(SameSite::Lax).build();
    if let Ok(value) = HeaderValue::from_str(&cookie.to_string()) {
        reply.headers_mut().append(SET_COOKIE, value);
    }
    reply
}
