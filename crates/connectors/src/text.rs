//! What names, hosts and headers may look like.

use http::HeaderName;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Host;

/// Headers that say how a message is sent, or that belong to browsers.
const FORBIDDEN_HEADERS: [HeaderName; 9] =
    [HOST, COOKIE, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER, UPGRADE, EXPECT];
/// The same, without a name in the library.
const FORBIDDEN_NAMES: [&str; 3] = ["keep-alive", "proxy-authorization", "proxy-connection"];
/// Everything but what RFC 3986 leaves unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// As much of a text as a message repeats.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(64) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first characters of a text.
pub(crate) fn first(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

/// The name of a field, a parameter or a part of a credential: `[a-z][a-z0-9_]{0,31}`.
pub(crate) fn is_name(text: &str) -> bool {
    is_word(text, 1, b"_")
}

/// The name of an action: `[a-z][a-z0-9_-]{0,31}`.
pub(crate) fn is_action_name(text: &str) -> bool {
    is_word(text, 1, b"_-")
}

/// The id of a connector: `[a-z][a-z0-9-]{1,31}`.
pub(crate) fn is_connector_id(text: &str) -> bool {
    is_word(text, 2, b"-")
}

fn is_word(text: &str, least: usize, marks: &[u8]) -> bool {
    let may_stand = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || marks.contains(&b);
    (least..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(may_stand)
}

/// Text as one segment of a path, or as a part of a query.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Does the text have characters that could end a line or a message?
pub(crate) fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// The name of a host in ASCII, or why it is none. An IP address is none.
pub(crate) fn host_name(text: &str) -> Result<String, String> {
    const FAULT: &str = "must be the name of a host, such as gitlab.example.com";
    // The parser would also decode what is percent-encoded, and cut at a slash.
    if !text.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '.') {
        return Err(FAULT.to_owned());
    }
    let Ok(Host::Domain(name)) = Host::parse(text) else {
        return Err(FAULT.to_owned());
    };
    let is_host = name.len() <= 253 && name.contains('.') && name.split('.').all(is_label);
    if is_host { Ok(name) } else { Err(FAULT.to_owned()) }
}

/// Is it one label of a host's name?
pub(crate) fn is_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The name of a header that a manifest may set.
pub(crate) fn header_name(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName = text.parse().map_err(|_| "is not the name of a header".to_owned())?;
    if FORBIDDEN_HEADERS.contains(&name) || FORBIDDEN_NAMES.contains(&name.as_str()) {
        return Err(format!("may not set the header {name}"));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_they_must_be() {
        for (text, name, action, id) in [
            ("a", true, true, false),
            ("get_issue", true, true, false),
            ("get-issue", false, true, true),
            ("A", false, false, false),
            ("1a", false, false, false),
            ("", false, false, false),
            ("aä", false, false, false),
        ] {
            assert_eq!(
                (is_name(text), is_action_name(text), is_connector_id(text)),
                (name, action, id),
                "{text}"
            );
        }
        let (long, longer) = ("a".repeat(32), "a".repeat(33));
        assert!(is_name(&long) && is_action_name(&long) && is_connector_id(&long));
        assert!(!is_name(&longer) && !is_action_name(&longer) && !is_connector_id(&longer));
    }

    #[test]
    fn a_host_is_a_name_and_no_disguised_address() {
        assert_eq!(host_name("GitLab.Example.com").as_deref(), Ok("gitlab.example.com"));
        assert_eq!(host_name("bücher.example").as_deref(), Ok("xn--bcher-kva.example"));
        for bad in [
            "",
            "localhost",
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "1.2.3.4.",
            "[::1]",
            "::1",
            "a..b",
            ".a.b",
            "a.b.",
            "a b.c",
            "a.b/c",
            "a.b:80",
            "a.b@c.d",
            "a.b#c",
            "a.b?c",
            "a.b\\c",
            "-a.b",
            "a-.b",
            "a_b.c",
            "%61.b",
            "a.b\n",
            "a.0x7f",
            "ⓛocalhost",
        ] {
            assert!(host_name(bad).is_err(), "{bad}");
        }
        // A full stop of another script, and full-width digits.
        assert!(host_name("127。0。0。1").is_err() && host_name("127.0.0.1").is_err());
        assert!(host_name(&format!("{}.b", "a".repeat(64))).is_err());
        assert!(host_name(&["abc"; 80].join(".")).is_err());
    }

    #[test]
    fn what_frames_a_message_cannot_be_set() {
        for bad in [
            "Host",
            "cookie",
            "Connection",
            "content-length",
            "Transfer-Encoding",
            "TE",
            "proxy-connection",
            "a b",
            "",
            "a:b",
            "ä",
        ] {
            assert!(header_name(bad).is_err(), "{bad}");
        }
        assert_eq!(header_name("X-Api-Key").unwrap(), "x-api-key");
    }
}
