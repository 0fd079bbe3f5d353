//! Which headers go on, and which end at the gateway.

use http::HeaderMap;
use http::header::{CONNECTION, HeaderName};

/// What an answer or its trailers say that the call costs, instead of its price.
pub const UNITS: HeaderName = HeaderName::from_static("portico-units");
/// The most that an answer may say.
const UNITS_MAX: u64 = 1_000_000;

/// Headers of one connection, and of none behind it.
const OF_CONNECTION: [&str; 8] =
    ["connection", "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"];
/// What a caller tells the gateway and no service, and what frames the body.
const OF_GATEWAY: [&str; 5] = ["authorization", "cookie", "cookie2", "host", "content-length"];
/// What the gateway says itself, so that no service takes another spelling for it.
const SAID_BY_GATEWAY: [&str; 3] = ["x-request-id", "traceparent", "tracestate"];
/// What nobody may learn only behind the body (RFC 9110, 6.5.1): how it is framed, what it is, who may see it, and where
/// else to go.
const NOT_IN_TRAILERS: [&str; 17] = [
    "age",
    "authorization",
    "cache-control",
    "cookie",
    "date",
    "expires",
    "host",
    "location",
    "max-forwards",
    "pragma",
    "range",
    "retry-after",
    "set-cookie",
    "vary",
    "warning",
    "www-authenticate",
    "x-request-id",
];

/// Removes what ends at the gateway from a request: credentials, headers of the connection and those that it names, what
/// only the gateway may say, and what a caller says about the way before, unless it is a proxy that is believed.
pub fn strip_request(headers: &mut HeaderMap, is_trusted_proxy: bool) {
    strip(headers, |name| {
        // Many frameworks give a service both spellings as one.
        let with_dashes = name.contains('_').then(|| name.replace('_', "-"));
        let plain = with_dashes.as_deref().unwrap_or(name);
        let is_of_way = plain == "forwarded" || plain.starts_with("x-forwarded-");
        is_ours(plain)
            || OF_CONNECTION.contains(&plain)
            || OF_GATEWAY.contains(&plain)
            || plain.starts_with("proxy-")
            || is_of_way && (!is_trusted_proxy || with_dashes.is_some())
            || with_dashes.is_some() && SAID_BY_GATEWAY.contains(&plain)
    });
}

/// Removes what ends at the gateway from an answer: headers of the connection and those that it names, and ours.
pub fn strip_answer(headers: &mut HeaderMap) {
    strip(headers, |name| {
        is_ours(name)
            || OF_CONNECTION.contains(&name)
            || name == "proxy-connection"
            || name == "proxy-authenticate"
    });
}

/// Removes what ends at the gateway from the trailers of an answer, and what may not stand in trailers.
pub fn strip_trailers(trailers: &mut HeaderMap) {
    strip(trailers, |name| {
        is_ours(name)
            || OF_CONNECTION.contains(&name)
            || NOT_IN_TRAILERS.contains(&name)
            || ["content-", "if-", "proxy-", "access-control-"].iter().any(|begin| name.starts_with(begin))
    });
}

/// What an answer or its trailers say that the call costs; `None` if they say nothing that can be used.
pub fn units(headers: &HeaderMap) -> Option<u64> {
    let mut values = headers.get_all(UNITS).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let digits = value.to_str().ok().filter(|digits| !digits.is_empty() && digits.len() <= 7)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|units| is_number && *units <= UNITS_MAX)
}

/// Is it a header that only the gateway says to a service? What is neither letter nor digit may look the same to a service.
fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix("portico").and_then(|rest| rest.bytes().next());
    rest.is_some_and(|next| !next.is_ascii_alphanumeric())
}

/// Removes the headers that end here, and those that `Connection` names.
fn strip(headers: &mut HeaderMap, ends: impl Fn(&str) -> bool) {
    let named =
        headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut gone: Vec<_> = named.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect();
    gone.extend(headers.keys().filter(|name| ends(name.as_str())).cloned());
    for name in gone {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_request_loses_what_ends_at_the_gateway() {
        let ending = [
            "authorization",
            "cookie",
            "cookie2",
            "host",
            "connection",
            "keep-alive",
            "proxy-authorization",
            "proxy-authenticate",
            "proxy-connection",
            "proxy-anything",
            "te",
            "trailer",
            "transfer-encoding",
            "content-length",
            "upgrade",
            "http2-settings",
            "expect",
            "portico-account",
            "portico-assertion",
            "portico-",
            "portico_account",
            "portico_",
            "portico.account",
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-anything",
            "x_forwarded_for",
            "x-forwarded_for",
            "x_request_id",
        ];
        let mut all = headers(&ending.iter().map(|name| (*name, "1")).collect::<Vec<_>>());
        let staying =
            ["accept", "content-type", "idempotency-key", "portico2", "porticos", "x-real-ip", "x_custom"];
        for name in staying {
            all.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("2"));
        }
        strip_request(&mut all, false);
        assert_eq!(names(&all), staying);
    }

    #[test]
    fn names_count_whatever_their_case() {
        let mut all = headers(&[("AuthoriZation", "1"), ("PORTICO-Account", "1"), ("X-FORWARDED-For", "1")]);
        strip_request(&mut all, false);
        assert!(all.is_empty());
    }

    #[test]
    fn every_value_of_a_header_goes() {
        let mut all =
            headers(&[("portico-scopes", "a"), ("portico-scopes", "b"), ("cookie", "a"), ("cookie", "b")]);
        strip_request(&mut all, true);
        assert!(all.is_empty());
    }

    #[test]
    fn a_trusted_proxy_says_where_a_call_came_from() {
        let lines =
            [("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "1.2.3.4"), ("x_forwarded_for", "5.6.7.8")];
        let mut all = headers(&lines);
        strip_request(&mut all, true);
        assert_eq!(names(&all), ["forwarded", "x-forwarded-for"]);
        strip_request(&mut all, false);
        assert!(all.is_empty());
    }

    #[test]
    fn what_connection_names_goes_too() {
        for strip in [strip_answer, |headers: &mut HeaderMap| strip_request(headers, true)] {
            let mut all = headers(&[
                ("connection", "close, X-Secret"),
                ("connection", " x-other ,,\u{fc}, not a name,close"),
                ("x-secret", "1"),
                ("x-other", "1"),
                ("x-stays", "1"),
            ]);
            strip(&mut all);
            assert_eq!(names(&all), ["x-stays"]);
        }
    }

    #[test]
    fn an_answer_loses_what_ends_at_the_gateway() {
        let ending =
            ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "portico-units"];
        let ending =
            [&ending[..], &["portico-kind", "proxy-authenticate", "proxy-connection", "portico_x"]].concat();
        let mut all = headers(&ending.iter().map(|name| (*name, "1")).collect::<Vec<_>>());
        let staying =
            ["cache-control", "content-length", "content-type", "etag", "retry-after", "set-cookie"];
        for name in staying {
            all.append(name, HeaderValue::from_static("2"));
        }
        strip_answer(&mut all);
        assert_eq!(names(&all), staying);
    }

    #[test]
    fn trailers_lose_what_belongs_into_a_head() {
        let ending =
            ["content-length", "content-type", "transfer-encoding", "host", "set-cookie", "portico-units"];
        let ending =
            [&ending[..], &["authorization", "x-request-id", "if-match", "access-control-allow-origin"]];
        let mut all = headers(&ending.concat().iter().map(|name| (*name, "1")).collect::<Vec<_>>());
        let staying = ["etag", "grpc-status", "repr-digest", "server-timing", "x-checksum"];
        for name in staying {
            all.append(name, HeaderValue::from_static("2"));
        }
        strip_trailers(&mut all);
        assert_eq!(names(&all), staying);
    }

    #[test]
    fn units_are_one_number_up_to_a_million() {
        let of = |value: &str| units(&headers(&[("portico-units", value)]));
        for (value, expected) in [("0", 0), ("7", 7), ("0000007", 7), ("1000000", 1_000_000)] {
            assert_eq!(of(value), Some(expected), "{value}");
        }
        for value in
            ["", "-1", "+1", "1.5", "1000001", "9999999", "00000007", "1,2", "seven", " 1 2", "1e3", "٣"]
        {
            assert_eq!(of(value), None, "{value}");
        }
        assert_eq!(units(&headers(&[("portico-units", "1"), ("portico-units", "1")])), None);
        assert_eq!(units(&HeaderMap::new()), None);
    }
}
