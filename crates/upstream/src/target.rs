//! The address of a target, taken apart.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use http::uri::Authority;
use rustls::pki_types::ServerName;
use url::{Host, Url};

/// A place where a service is reached.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) place: Place,
    /// What HTTP/1 says in `Host`.
    pub(crate) host: HeaderValue,
    /// The same, as HTTP/2 wants it.
    pub(crate) authority: Authority,
    name: Arc<str>,
}

/// What is spoken to a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// HTTP/1.1 in the clear.
    Http1,
    /// HTTP/2 in the clear.
    H2c,
    /// TLS; the target chooses between both. Its certificate must name it so.
    Tls(ServerName<'static>),
}

/// What a socket connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp(Host<String>, u16),
    Unix(PathBuf),
}

/// Why a text is not the address of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    /// It has another scheme, or none.
    Scheme,
    /// It cannot be read.
    Address,
    /// It has a user or a password.
    User,
    /// It has a path, a query or a fragment.
    Path,
    /// The path of a socket is not absolute.
    SocketPath,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scheme => "a target begins with http://, https://, h2c:// or unix:",
            Self::Address => "the host or the port of the target cannot be read",
            Self::User => "a target has no user and no password",
            Self::Path => "a target has no path, query or fragment: calls keep their own",
            Self::SocketPath => "the path of a socket begins with a slash",
        })
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Reads `http://host:port`, `https://host:port`, `h2c://host:port` or `unix:/path`. A port may be left out where
    /// the scheme has one of its own.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        // The parser drops line breaks and turns backslashes round.
        if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '\\') {
            return Err(TargetError::Address);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::socket(path);
        }
        let (scheme, rest) = text.split_once("://").ok_or(TargetError::Scheme)?;
        // The parser knows the hosts of these two alone.
        let as_url = match scheme {
            "http" | "h2c" => "http",
            "https" => "https",
            _ => return Err(TargetError::Scheme),
        };
        // It also takes an address with too many slashes for one with two.
        if rest.starts_with('/') {
            return Err(TargetError::Address);
        }
        let url = Url::parse(&format!("{as_url}://{rest}")).map_err(|_| TargetError::Address)?;
        if rest.contains('@') {
            return Err(TargetError::User);
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(TargetError::Path);
        }
        let host = url.host().ok_or(TargetError::Address)?.to_owned();
        let port = url.port_or_known_default().filter(|port| *port > 0).ok_or(TargetError::Address)?;
        let authority = url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"));
        let scheme_name = scheme;
        let scheme = match scheme {
            "h2c" => Scheme::H2c,
            "https" => Scheme::Tls(server_name(&host)?),
            _ => Scheme::Http1,
        };
        let name = format!("{scheme_name}://{authority}").into();
        Self::new(scheme, Place::Tcp(host, port), &authority, name)
    }

    fn socket(path: &str) -> Result<Self, TargetError> {
        if !path.starts_with('/') || path.ends_with('/') {
            return Err(TargetError::SocketPath);
        }
        // Nobody looks at the host behind a socket, but HTTP/1.1 wants one.
        Self::new(Scheme::Http1, Place::Unix(path.into()), "localhost", format!("unix:{path}").into())
    }

    fn new(scheme: Scheme, place: Place, authority: &str, name: Arc<str>) -> Result<Self, TargetError> {
        let host = HeaderValue::from_str(authority).map_err(|_| TargetError::Address)?;
        let authority = authority.parse().map_err(|_| TargetError::Address)?;
        Ok(Self { scheme, place, host, authority, name })
    }

    /// The address as it is logged and counted, the same for every spelling.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn server_name(host: &Host<String>) -> Result<ServerName<'static>, TargetError> {
    Ok(match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            ServerName::try_from(name.to_owned()).map_err(|_| TargetError::Address)?
        }
        Host::Ipv4(address) => ServerName::IpAddress((*address).into()),
        Host::Ipv6(address) => ServerName::IpAddress((*address).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (text, name, host) in [
            ("http://10.0.0.5:9000", "http://10.0.0.5:9000", "10.0.0.5:9000"),
            ("http://10.0.0.5:9000/", "http://10.0.0.5:9000", "10.0.0.5:9000"),
            ("http://invoices", "http://invoices", "invoices"),
            ("http://INVOICES:80", "http://invoices", "invoices"),
            ("https://invoices.internal:443", "https://invoices.internal", "invoices.internal"),
            ("https://[::1]:8443", "https://[::1]:8443", "[::1]:8443"),
            ("h2c://localhost:9000", "h2c://localhost:9000", "localhost:9000"),
            ("h2c://127.1", "h2c://127.0.0.1", "127.0.0.1"),
            ("unix:/run/invoices.sock", "unix:/run/invoices.sock", "localhost"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((&**target.name(), target.host.to_str().unwrap()), (name, host), "{text}");
            assert_eq!(target.to_string(), name);
        }
        assert_eq!(Target::parse("h2c://a").unwrap().place, Place::Tcp(Host::Domain("a".to_owned()), 80));
        assert_eq!(Target::parse("https://a").unwrap().place, Place::Tcp(Host::Domain("a".to_owned()), 443));
    }

    #[test]
    fn what_is_no_target_is_refused_with_the_reason() {
        for (text, error) in [
            ("", TargetError::Scheme),
            ("10.0.0.5:9000", TargetError::Scheme),
            ("ftp://a", TargetError::Scheme),
            ("HTTP://a", TargetError::Scheme),
            ("http:a", TargetError::Scheme),
            ("http://", TargetError::Address),
            ("http:///a", TargetError::Address),
            ("http://a:0", TargetError::Address),
            ("http://a:70000", TargetError::Address),
            ("http://a b", TargetError::Address),
            ("http://a\\@b", TargetError::Address),
            ("http://a\r\n", TargetError::Address),
            ("http://1.2.3.4.5", TargetError::Address),
            ("http://user@a", TargetError::User),
            ("http://user:word@a", TargetError::User),
            ("http://@a", TargetError::User),
            ("http://a/base", TargetError::Path),
            ("http://a?b", TargetError::Path),
            ("http://a#b", TargetError::Path),
            ("unix:socket", TargetError::SocketPath),
            ("unix:/run/", TargetError::SocketPath),
            ("unix:", TargetError::SocketPath),
        ] {
            assert_eq!(Target::parse(text).unwrap_err(), error, "{text:?}");
        }
    }
}
