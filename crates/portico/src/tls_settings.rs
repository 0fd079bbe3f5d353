//! The certificates of the listeners.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use portico_gateway::{Certificate, Certificates};

use crate::config::{ConfigError, named};

/// A certificate and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The file with the certificate and those above it.
    pub certificate: PathBuf,
    /// The file with its key.
    pub key: PathBuf,
}

/// What each listener shows; `None` for one without TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The API.
    pub api: Option<TlsFiles>,
    /// The identity provider.
    pub auth: Option<TlsFiles>,
    /// The console.
    pub console: Option<TlsFiles>,
    /// MQTT with TLS.
    pub mqtt: Option<TlsFiles>,
}

impl TlsFiles {
    /// Reads them; the error says why they cannot be used.
    pub fn open(&self, certificates: &Certificates) -> Result<Arc<Certificate>, String> {
        certificates.open(&self.certificate, &self.key)
    }
}

impl fmt::Display for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with the key {}", self.certificate.display(), self.key.display())
    }
}

/// The keys of the configuration for a certificate and its key.
type Pair = (Option<PathBuf>, Option<PathBuf>);

impl TlsSettings {
    /// The first pair is for every listener that has none of its own.
    pub(crate) fn read(all: Pair, auth: Pair, console: Pair, mqtt: Pair) -> Result<Self, ConfigError> {
        let api = files("", all)?;
        let auth = files("auth_", auth)?.or_else(|| api.clone());
        let console = files("console_", console)?.or_else(|| api.clone());
        let mqtt = files("mqtt_", mqtt)?.or_else(|| api.clone());
        Ok(Self { api, auth, console, mqtt })
    }
}

/// The two keys of that prefix, which go together.
fn files(prefix: &str, (certificate, key): Pair) -> Result<Option<TlsFiles>, ConfigError> {
    match (named(certificate), named(key)) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        _ => Err(ConfigError(format!("{prefix}tls_certificate and {prefix}tls_key go together"))),
    }
}

/// Should browsers that have come to this address come with TLS alone from now on? They remember it for the host, whatever
/// the port: so only where the host has a name, and the port is the usual one.
pub(crate) fn is_strict(address: &str) -> bool {
    let host = address.strip_prefix("https://").unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    !host.is_empty() && host != "localhost" && !host.contains(':') && host.parse::<IpAddr>().is_err()
}

/// The host of an address, as certificates name it.
pub(crate) fn host(address: &str) -> String {
    let url = url::Url::parse(address).ok();
    let host = url.as_ref().and_then(url::Url::host_str).unwrap_or_default();
    host.trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_bound_to_hosts_of_our_own() {
        for strict in ["https://auth.example.com", "https://example.com/v1"] {
            assert!(is_strict(strict), "{strict}");
        }
        for other in [
            "http://auth.example.com",
            "https://auth.example.com:8443",
            "https://localhost",
            "https://127.0.0.1",
            "https://[::1]",
        ] {
            assert!(!is_strict(other), "{other}");
        }
        assert_eq!(host("https://[::1]:8080"), "::1");
        assert_eq!(host("https://api.example.com:8443/x"), "api.example.com");
    }
}
