//! An address, taken apart.

use http::HeaderValue;
use http::uri::PathAndQuery;
use rustls::pki_types::ServerName;
use url::{Host, Position, Url};

use crate::EgressError;

/// Last labels of names that are not the public's. A name of one label is none of the public's either.
const LOCAL_ENDINGS: [&str; 3] = ["localhost", "internal", "local"];

/// Where a call goes, before anybody has asked where that is.
#[derive(Debug)]
pub(crate) struct Target {
    /// Is it https?
    pub(crate) secure: bool,
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    /// What the `Host` header says.
    pub(crate) authority: HeaderValue,
    /// Path and query.
    pub(crate) path: PathAndQuery,
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Self, EgressError> {
        // The parser drops line breaks and turns backslashes round. What must be mended first may be read in two ways.
        if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '\\') {
            return Err(EgressError::BadAddress);
        }
        // It also takes an address without slashes, or with too many, for one with two.
        if text.split_once("://").is_none_or(|(_, rest)| rest.starts_with('/')) {
            return Err(EgressError::BadAddress);
        }
        let url = Url::parse(text).map_err(|_| EgressError::BadAddress)?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(EgressError::BadAddress),
        };
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(EgressError::BadAddress);
        }
        let host = match url.host().ok_or(EgressError::BadAddress)? {
            Host::Domain(name) => Host::Domain(plain_name(name)?),
            other => other.to_owned(),
        };
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(EgressError::BadAddress)?;
        // The parser drops a port that the scheme implies, and so does the header.
        let authority = url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        let authority = HeaderValue::from_str(&authority).map_err(|_| EgressError::BadAddress)?;
        let path = url[Position::BeforePath..Position::AfterQuery].parse();
        let path = path.map_err(|_| EgressError::BadAddress)?;
        Ok(Self { secure, host, port, authority, path })
    }

    /// May it lead to nothing but what the operator allows? So it is without encryption, and for names of the inside.
    pub(crate) fn only_if_allowed(&self) -> bool {
        let is_local = matches!(&self.host, Host::Domain(name) if is_local(name));
        !self.secure || is_local
    }

    /// Who the other side must prove to be.
    pub(crate) fn server_name(&self) -> Result<ServerName<'static>, EgressError> {
        Ok(match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| EgressError::BadAddress)?,
            Host::Ipv4(address) => ServerName::IpAddress((*address).into()),
            Host::Ipv6(address) => ServerName::IpAddress((*address).into()),
        })
    }
}

/// The name without the dot that may end it. A certificate and a `Host` header have none.
fn plain_name(name: &str) -> Result<String, EgressError> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.split('.').any(str::is_empty) { Err(EgressError::BadAddress) } else { Ok(name.to_owned()) }
}

fn is_local(name: &str) -> bool {
    name.rsplit_once('.').is_none_or(|(_, last)| LOCAL_ENDINGS.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (text, authority, port, path) in [
            ("https://example.com", "example.com", 443, "/"),
            ("https://Example.COM:443/a?b=c", "example.com", 443, "/a?b=c"),
            ("https://example.com:8443//x", "example.com:8443", 8443, "//x"),
            ("https://example.com./", "example.com", 443, "/"),
            ("https://example.com.:444/", "example.com:444", 444, "/"),
            ("http://[::1]:8080/?q", "[::1]:8080", 8080, "/?q"),
            ("https://bücher.example/ü", "xn--bcher-kva.example", 443, "/%C3%BC"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(
                (target.authority.to_str().unwrap(), target.port, target.path.as_str()),
                (authority, port, path)
            );
        }
    }

    #[test]
    fn what_cannot_be_called_is_no_address() {
        for bad in [
            "",
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://example.com/",
            "https://",
            "https://user@example.com/",
            "https://user:word@example.com/",
            "https://:word@example.com/",
            "https://example.com@127.0.0.1/",
            "https://example.com/#part",
            "https://example.com/#",
            "https://example.com\\@127.0.0.1/",
            "https://exam\nple.com/",
            "https://exam\tple.com/",
            " https://example.com/",
            "https://example.com../",
            "https://example..com/",
            "https://.example.com/",
            "https://example.com:99999/",
            "https://example.com:0/",
            "https:///example.com/",
            "https:example.com/",
            "https:/example.com/",
            "https://[fe80::1%25eth0]/",
            "https://[fe80::1%eth0]/",
            "https://[::1/",
            "https://1.2.3.4.5/",
            "https://127.0.0.256/",
        ] {
            assert_eq!(Target::parse(bad).unwrap_err(), EgressError::BadAddress, "{bad:?}");
        }
    }

    #[test]
    fn names_of_the_inside_are_known() {
        for local in [
            "https://intranet/",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://metadata.google.internal/",
            "https://metadata.google.internal./",
            "https://printer.local/",
            "http://example.com/",
        ] {
            assert!(Target::parse(local).unwrap().only_if_allowed(), "{local}");
        }
        for public in ["https://example.com/", "https://local.example.com/", "https://internal.example/"] {
            assert!(!Target::parse(public).unwrap().only_if_allowed(), "{public}");
        }
    }

    /// An IPv4 address has many spellings; the parser knows them all, so that no lookup sees one as a name.
    #[test]
    fn an_address_in_disguise_is_an_address() {
        for loopback in [
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0x7f.1/",
            "https://017700000001/",
            "https://0177.0.0.1/",
            "https://127.0.0.1./",
            "https://%31%32%37.0.0.1/",
            "https://127。0。0。1/",
            "https://①②⑦.0.0.1/",
        ] {
            assert_eq!(
                Target::parse(loopback).unwrap().host,
                Host::<String>::Ipv4([127, 0, 0, 1].into()),
                "{loopback}"
            );
        }
    }
}
