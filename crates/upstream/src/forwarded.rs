//! Who asked the gateway, told as RFC 7239 says.

use std::net::IpAddr;

use http::header::FORWARDED;
use http::{HeaderMap, HeaderValue};

/// One element of `Forwarded`: where the call came from, which host it asked for, and by which scheme. What cannot be said
/// in a header is left out.
pub fn forwarded_element(peer: Option<IpAddr>, host: Option<&str>, scheme: &str) -> String {
    let mut element = match peer {
        Some(IpAddr::V4(address)) => format!("for={address}"),
        Some(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(address) => format!("for={address}"),
            None => format!("for=\"[{address}]\""),
        },
        None => "for=unknown".to_owned(),
    };
    if let Some(host) =
        host.filter(|host| !host.is_empty() && host.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
    {
        element.push_str(";host=");
        push_value(&mut element, host);
    }
    element.push_str(";proto=");
    push_value(&mut element, scheme);
    element
}

/// Puts our element behind those that are there already. A list in several lines becomes one.
pub fn append_forwarded(headers: &mut HeaderMap, element: &str) {
    let mut list = Vec::new();
    for before in headers.get_all(FORWARDED) {
        if !before.as_bytes().trim_ascii().is_empty() {
            list.extend_from_slice(before.as_bytes());
            list.extend_from_slice(b", ");
        }
    }
    list.extend_from_slice(element.as_bytes());
    // Both were values of headers before, or made of what may be in one.
    if let Ok(value) = HeaderValue::from_bytes(&list) {
        headers.insert(FORWARDED, value);
    }
}

/// A token as it is, anything else in quotes.
fn push_value(element: &mut String, value: &str) {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_token_byte) {
        element.push_str(value);
        return;
    }
    element.push('"');
    for letter in value.chars() {
        if matches!(letter, '"' | '\\') {
            element.push('\\');
        }
        element.push(letter);
    }
    element.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_says_who_asked_for_what() {
        let element = |peer: &str, host| forwarded_element(Some(peer.parse().unwrap()), host, "https");
        assert_eq!(element("192.0.2.60", Some("api.example")), "for=192.0.2.60;host=api.example;proto=https");
        assert_eq!(element("2001:db8::1", None), "for=\"[2001:db8::1]\";proto=https");
        assert_eq!(element("::ffff:192.0.2.60", None), "for=192.0.2.60;proto=https");
        assert_eq!(element("::1", Some("a:8080")), "for=\"[::1]\";host=\"a:8080\";proto=https");
        assert_eq!(element("::1", Some("[::1]:80")), "for=\"[::1]\";host=\"[::1]:80\";proto=https");
        assert_eq!(forwarded_element(None, None, "http"), "for=unknown;proto=http");
    }

    #[test]
    fn a_host_cannot_leave_its_quotes() {
        let element = |host| forwarded_element(None, Some(host), "http");
        assert_eq!(element("a\";for=1.2.3.4"), "for=unknown;host=\"a\\\";for=1.2.3.4\";proto=http");
        assert_eq!(element("a\\"), "for=unknown;host=\"a\\\\\";proto=http");
        assert_eq!(element("a, for=b"), "for=unknown;host=\"a, for=b\";proto=http");
        for unsayable in ["", "a\r\nb", "a\0", "\u{fc}"] {
            assert_eq!(element(unsayable), "for=unknown;proto=http", "{unsayable:?}");
        }
    }

    #[test]
    fn ours_is_the_last_element() {
        let mut headers = HeaderMap::new();
        append_forwarded(&mut headers, "for=a");
        assert_eq!(headers[FORWARDED], "for=a");
        headers.append(FORWARDED, HeaderValue::from_static("for=b, for=c"));
        headers.append(FORWARDED, HeaderValue::from_static(" "));
        append_forwarded(&mut headers, "for=d");
        assert_eq!(headers.get_all(FORWARDED).iter().collect::<Vec<_>>(), ["for=a, for=b, for=c, for=d"]);
    }
}
