//! An answer of the engine as HTTP: status, `Link`, `ETag`.

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use portico_engine::input::Fields;
use portico_engine::{Access, Entry, Reply, next_query};
use portico_kernel::{Problem, hex};

use crate::respond::{self, IDEMPOTENCY_REPLAYED};

/// An `ETag` is this much of the hash of the answer.
const ETAG_BYTES: usize = 16;
/// Everything but what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const OPEN_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const AUTHORIZED_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The response for `reply`; `sent` is the message of a list, which its next page repeats.
pub(crate) fn answered(
    entry: &Entry,
    parts: &Parts,
    reply: Reply,
    sent: Option<Fields>,
) -> Result<Response<Bytes>, Problem> {
    let body = reply.body.into_json()?;
    let mut response = match reply.refused {
        Some((code, retry)) => respond::refused(code, retry, body),
        None => respond::json(StatusCode::OK, body),
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
        tag(entry, &parts.headers, &mut response);
    }
    Ok(response)
}

/// Adds the `ETag`; whoever has the answer already gets 304 instead.
fn tag(entry: &Entry, asked: &HeaderMap, response: &mut Response<Bytes>) {
    let hash = digest(&SHA256, response.body());
    let tag = format!("\"{}\"", hex(&hash.as_ref()[..ETAG_BYTES]));
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
