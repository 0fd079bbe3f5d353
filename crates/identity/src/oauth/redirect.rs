//! Where an app is sent back to. Compared letter by letter: every cleverness here was a hole somewhere else.

use url::Url;

use crate::limits;

/// Hosts that mean the machine itself. Each is a name of its own: one does not stand for another.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];
/// Schemes of apps that have no dot in them, though they should (RFC 8252, section 7.1). Any other scheme without one
/// may be anything: a script, a setting of the system, a telephone.
const KNOWN_SCHEMES: [&str; 8] =
    ["claude", "cursor", "goose", "kiro", "vscode", "vscode-insiders", "windsurf", "zed"];

/// Why an address cannot be registered.
pub(crate) fn check(address: &str) -> Result<(), &'static str> {
    if address.len() > limits::REDIRECT_URI_BYTES_MAX {
        return Err("is too long");
    }
    if !address.bytes().all(|byte| byte.is_ascii_graphic())
        || address.contains(['\\', '*', '<', '>', '"', '#'])
    {
        return Err("must have no fragment, wildcard, backslash, bracket, quote or space");
    }
    let url = Url::parse(address).map_err(|_| "is not an address")?;
    // What the parser made of it must be what was written: no dots to resolve, no other spelling of a host.
    if url.as_str() != address && url.as_str() != format!("{address}/") {
        return Err("must be written in its plain form");
    }
    if url.scheme() == "http" || url.scheme() == "https" {
        let authority = address.split('/').nth(2).unwrap_or_default();
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        let plain = |host: &str| !host.is_empty() && (host.bytes().all(name) || host.starts_with('['));
        if authority.contains('@') || !url.host_str().is_some_and(plain) {
            return Err("must name a host, and no user");
        }
        let is_loopback = url.host_str().is_some_and(|host| LOOPBACK.contains(&host));
        return if url.scheme() == "https" || is_loopback {
            Ok(())
        } else {
            Err("must be https, or on this machine")
        };
    }
    if url.scheme().contains('.') || KNOWN_SCHEMES.contains(&url.scheme()) {
        return Ok(());
    }
    Err("must be https, or of a scheme of its own with a dot in it")
}

/// A loopback address in two parts: up to its host, and after its port.
fn loopback(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix("http://")?;
    let host = LOOPBACK.iter().find(|host| rest.starts_with(*host))?;
    let (start, rest) = address.split_at("http://".len() + host.len());
    let rest = match rest.strip_prefix(':') {
        None => rest,
        Some(port) => {
            let end = port.find(|c: char| !c.is_ascii_digit()).unwrap_or(port.len());
            let number: u32 = port[..end].parse().ok()?;
            (number <= 65_535).then_some(&port[end..])?
        }
    };
    (rest.is_empty() || rest.starts_with(['/', '?'])).then_some((start, rest))
}

/// Is `asked` the registered address? Letter by letter; on this machine any port will do (RFC 8252, section 7.3).
pub(crate) fn matches(registered: &str, asked: &str) -> bool {
    registered == asked || loopback(registered).is_some_and(|parts| loopback(asked) == Some(parts))
}

/// Does the address lead to this machine?
pub(crate) fn is_loopback(address: &str) -> bool {
    loopback(address).is_some()
}

/// The host for a person, or the scheme where there is none.
pub(crate) fn shown_host(address: &str) -> String {
    let url = Url::parse(address).ok();
    let web = url.as_ref().filter(|url| matches!(url.scheme(), "http" | "https"));
    match (web.and_then(Url::host_str), url.as_ref()) {
        (Some(host), _) => host.to_owned(),
        (None, Some(url)) => format!("{}:", url.scheme()),
        (None, None) => String::new(),
    }
}

/// The source of a content security policy that allows forms to lead there.
pub(crate) fn form_action(address: &str) -> String {
    let Ok(url) = Url::parse(address) else { return String::new() };
    match (url.scheme(), url.host_str(), url.port()) {
        ("http" | "https", Some(host), Some(port)) => format!("{}://{host}:{port}", url.scheme()),
        ("http" | "https", Some(host), None) => format!("{}://{host}", url.scheme()),
        (scheme, ..) => format!("{scheme}:"),
    }
}

/// The address with these parameters added to its query.
pub(crate) fn with_query(address: &str, pairs: &[(&str, &str)]) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let join = match address.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{address}{join}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_registered() {
        for good in [
            "https://app.example/callback",
            "https://app.example",
            "https://app.example:8443/a?b=c",
            "http://127.0.0.1/cb",
            "http://127.0.0.1:3118/callback",
            "http://[::1]:8000/cb",
            "http://localhost:8787/callback",
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "com.example.app:/callback",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in [
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vbscript:x",
            "ms-settings:x",
            "chrome://settings",
            "tel:+900123",
            "search-ms:query=x",
            "x:y",
            "https://x.example;sandbox/cb",
            "https://x.example,default-src/cb",
            "http://app.example/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://localhost.evil.example/cb",
            "https://app.example/cb#x",
            "https://user@app.example/cb",
            "https://a@b@app.example/cb",
            "https://app.example\\@evil.example/",
            "https://*.example/cb",
            "https://app.example/a/../b",
            "https://app.example/a/%2e%2e/b",
            "https://APP.example/cb",
            "https://app.example:443/cb",
            "http://2130706433/cb",
            "https:///cb",
            "/cb",
            "",
            "https://app.example/ cb",
            "https://app.example/\u{e9}",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_port_of_a_loopback_address_may_differ() {
        assert!(matches("https://a.example/cb", "https://a.example/cb"));
        for other in [
            "https://a.example/cb/",
            "https://a.example/cb?x=1",
            "https://a.example:443/cb",
            "https://a.example/cb/..;/evil",
            "https://a.example/cb%2f..",
            "https://a.example.evil/cb",
            "https://a.example@evil/cb",
            "HTTPS://a.example/cb",
        ] {
            assert!(!matches("https://a.example/cb", other), "{other}");
        }
        assert!(matches("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb"));
        assert!(matches("http://localhost:1/cb", "http://localhost:2/cb"));
        assert!(matches("http://[::1]/cb", "http://[::1]:65535/cb"));
        for other in [
            "http://localhost:5000/cb",
            "http://127.0.0.1:5000/other",
            "http://127.0.0.1:5000@evil.example/cb",
            "http://127.0.0.1:5000.evil.example/cb",
            "http://127.0.0.1.evil.example/cb",
            "http://127.0.0.1:99999/cb",
            "http://127.0.0.1:/cb",
            "https://127.0.0.1:5000/cb",
            "http://127.0.0.1:5000/cb#x",
        ] {
            assert!(!matches("http://127.0.0.1/cb", other), "{other}");
        }
        assert!(!matches("http://localhost", "http://localhost.evil.example/"));
    }

    #[test]
    fn parameters_are_added_to_what_is_there() {
        assert_eq!(with_query("https://a/cb", &[("a", "1 2")]), "https://a/cb?a=1+2");
        assert_eq!(with_query("https://a/cb?x=y", &[("a", "&")]), "https://a/cb?x=y&a=%26");
        assert_eq!(with_query("https://a/cb?", &[("a", "b")]), "https://a/cb?a=b");
    }
}
