//! An answer of bytes as HTTP: validators, ranges, and a body that is read as the client takes it (RFC 9110, sections 13
//! and 14).

use std::ops::Range;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE,
    RANGE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use portico_engine::BytesAnswer;

use crate::outgoing::{HttpAnswer, Outgoing};
use crate::scope::CallScope;
use crate::transport::Transport;

/// Keeps a browser from taking bytes for another type than they are said to be.
const NO_SNIFF: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));

/// What of the bytes a request asks for.
#[derive(Debug, PartialEq, Eq)]
enum Selection {
    /// The client has them already.
    NotModified,
    /// All of them.
    All,
    /// One range.
    Part(Range<u64>),
    /// A range that is not there.
    Unsatisfiable,
}

/// The answer, whose body is read as the client takes it.
pub(crate) fn response(answer: BytesAnswer, request: &Parts) -> HttpAnswer {
    let BytesAnswer { media_type, length, etag, source } = answer;
    let etag = etag.and_then(|etag| HeaderValue::from_str(&format!("\"{etag}\"")).ok());
    let is_head = request.method == Method::HEAD;
    let (status, range) = match select(&request.headers, etag.as_ref(), length) {
        // A range is asked for with GET alone.
        Selection::Part(_) | Selection::Unsatisfiable if is_head => (StatusCode::OK, Some(0..length)),
        Selection::NotModified => (StatusCode::NOT_MODIFIED, None),
        Selection::All => (StatusCode::OK, Some(0..length)),
        Selection::Part(range) => (StatusCode::PARTIAL_CONTENT, Some(range)),
        Selection::Unsatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, None),
    };
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.extend(etag.map(|etag| (ETAG, etag)));
    headers.extend([NO_SNIFF]);
    let content_range = match (&range, status) {
        (Some(range), StatusCode::PARTIAL_CONTENT) => {
            Some(format!("bytes {}-{}/{length}", range.start, range.end - 1))
        }
        (None, StatusCode::RANGE_NOT_SATISFIABLE) => Some(format!("bytes */{length}")),
        _ => None,
    };
    headers.extend(content_range.and_then(|text| Some((CONTENT_RANGE, HeaderValue::from_str(&text).ok()?))));
    let Some(range) = range else { return response.into() };
    let media_type = HeaderValue::from_str(&media_type);
    headers.insert(CONTENT_TYPE, media_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    if let Some(transport) = request.extensions.get::<Transport>().filter(|_| !is_head) {
        transport.expect_body(range.end - range.start);
    }
    let pieces = source.read(range).scan((), |(), piece| {
        // The head is gone, so all that is left is to cut the connection short of the length that was promised.
        let piece =
            piece.inspect_err(|error| tracing::error!(%error, "Failed to read the bytes of an answer"));
        std::future::ready(piece.ok())
    });
    let begin = move |scope: CallScope| -> Outgoing {
        // What the client takes of it is its own business.
        scope.finish(status.as_u16(), None);
        Outgoing::Stream(Box::pin(pieces))
    };
    HttpAnswer { head: response, stream: Some(Box::new(begin)) }
}

/// What the request asks for. `If-None-Match` comes before `Range`; a range that does not read is as if it were not there.
fn select(asked: &HeaderMap, etag: Option<&HeaderValue>, length: u64) -> Selection {
    let strong = |value: &str| etag.is_some_and(|etag| etag.as_bytes() == value.as_bytes());
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    if known
        .flat_map(|tags| tags.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || strong(tag.trim_start_matches("W/")))
    {
        return Selection::NotModified;
    }
    // What the client has is of another version, so that the rest of this one would not fit.
    if asked.get(IF_RANGE).is_some_and(|value| !value.to_str().is_ok_and(strong)) {
        return Selection::All;
    }
    let mut ranges = asked.get_all(RANGE).iter();
    match (ranges.next().and_then(|value| value.to_str().ok()), ranges.next()) {
        (Some(range), None) => parse(range, length).unwrap_or(Selection::All),
        _ => Selection::All,
    }
}

/// One range of bytes; `None` for what is none, or several.
fn parse(range: &str, length: u64) -> Option<Selection> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.trim().split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // More digits than fit are beyond every end.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match (first.trim(), last.trim()) {
        ("", suffix) => (length.saturating_sub(number(suffix)?), length),
        (first, "") => (number(first)?, length),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(length))
        }
    };
    Some(if start < end { Selection::Part(start..end) } else { Selection::Unsatisfiable })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn of_range(range: &str) -> Selection {
        select(&asked(&[(RANGE, range)]), None, 100)
    }

    #[test]
    fn a_range_is_what_the_standard_says() {
        assert_eq!(of_range("bytes=0-9"), Selection::Part(0..10));
        assert_eq!(of_range("bytes=90-"), Selection::Part(90..100));
        assert_eq!(of_range("bytes=-10"), Selection::Part(90..100));
        assert_eq!(of_range("bytes=-1000"), Selection::Part(0..100));
        assert_eq!(of_range("bytes=99-99999999999999999999999"), Selection::Part(99..100));
        for beyond in ["bytes=100-", "bytes=100-200", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of_range(beyond), Selection::Unsatisfiable, "{beyond}");
        }
        for none in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-4",
            "bytes=a-b",
            "bytes=0-1,5-6",
            "lines=1-2",
            "bytes=+1-2",
        ] {
            assert_eq!(of_range(none), Selection::All, "{none}");
        }
    }

    #[test]
    fn validators_come_before_ranges() {
        let etag = HeaderValue::from_static("\"a\"");
        let select = |pairs: &[(HeaderName, &str)]| select(&asked(pairs), Some(&etag), 100);
        assert_eq!(
            select(&[(IF_NONE_MATCH, "\"b\", W/\"a\""), (RANGE, "bytes=0-9")]),
            Selection::NotModified
        );
        assert_eq!(select(&[(IF_NONE_MATCH, "*")]), Selection::NotModified);
        assert_eq!(select(&[(IF_NONE_MATCH, "\"b\"")]), Selection::All);
        assert_eq!(select(&[(IF_RANGE, "\"a\""), (RANGE, "bytes=0-9")]), Selection::Part(0..10));
        assert_eq!(select(&[(IF_RANGE, "W/\"a\""), (RANGE, "bytes=0-9")]), Selection::All);
        assert_eq!(select(&[(IF_RANGE, "\"b\""), (RANGE, "bytes=0-9")]), Selection::All);
    }
}
