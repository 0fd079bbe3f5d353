//! Whom to ask for the records of domains.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use portico_dns::{Resolver, Settings};

use crate::config::ConfigError;

/// The operators of these resolvers have nothing to do with each other.
const DEFAULT_RESOLVERS: &str = "1.1.1.1:53,8.8.8.8:53,9.9.9.9:53,208.67.222.222:53";
/// With one more there would be more to wait for, and nothing more to learn.
const RESOLVERS_MAX: usize = 8;
/// The port of name servers.
const PORT: u16 = 53;

/// Whom to ask for the records of domains; nobody, by default.
#[derive(Debug, Clone)]
pub struct DnsSettings(pub Settings);

impl Default for DnsSettings {
    fn default() -> Self {
        Self(Settings { resolvers: Vec::new(), authoritative_port: 0 })
    }
}

/// `host:port`; a name is resolved by the system, now.
fn resolver(name: &str) -> Result<Resolver, ConfigError> {
    let malformed =
        || ConfigError(format!("dns_resolvers must be host:port with commas between them, not {name:?}"));
    let (host, port) = name.rsplit_once(':').ok_or_else(malformed)?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    // Of an address of IPv6 without brackets nobody knows where the port begins.
    let is_host = !host.is_empty() && (host.starts_with('[') || !host.contains(':'));
    if !is_port || !is_host || host.contains(char::is_whitespace) {
        return Err(malformed());
    }
    let address: Option<SocketAddr> = match name.to_socket_addrs() {
        Ok(mut addresses) => addresses.next(),
        Err(error) => return Err(ConfigError(format!("dns_resolvers: {name} cannot be resolved: {error}"))),
    };
    let address = address.ok_or_else(|| ConfigError(format!("dns_resolvers: {name} has no address")))?;
    Ok(Resolver { name: name.to_owned(), address })
}

impl DnsSettings {
    /// Checks the list of resolvers, and resolves their names.
    pub(crate) fn read(resolvers: Option<String>, port: Option<u16>) -> Result<Self, ConfigError> {
        let text = resolvers.unwrap_or_else(|| DEFAULT_RESOLVERS.to_owned());
        if text.trim().is_empty() {
            return Err(ConfigError("dns_resolvers must name a resolver at least".to_owned()));
        }
        let resolvers = text.split(',').map(|name| resolver(name.trim())).collect::<Result<Vec<_>, _>>()?;
        if resolvers.len() > RESOLVERS_MAX {
            let message = format!("dns_resolvers must name at most {RESOLVERS_MAX}, not {}", resolvers.len());
            return Err(ConfigError(message));
        }
        for (at, Resolver { name, address }) in resolvers.iter().enumerate() {
            // One that is asked twice would agree with itself.
            if resolvers[..at].iter().any(|other| other.name == *name || other.address == *address) {
                return Err(ConfigError(format!("dns_resolvers names {name} twice")));
            }
        }
        Ok(Self(Settings { resolvers, authoritative_port: port.unwrap_or(PORT) }))
    }
}

impl fmt::Display for DnsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.resolvers.iter().map(|resolver| resolver.name.as_str()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DnsSettings, ConfigError> {
        DnsSettings::read(Some(text.to_owned()), None)
    }

    #[test]
    fn resolvers_are_read_and_their_names_resolved() {
        let default = DnsSettings::read(None, None).unwrap();
        assert_eq!(default.to_string(), DEFAULT_RESOLVERS);
        assert_eq!((default.0.resolvers.len(), default.0.authoritative_port), (4, 53));
        let some = read(" 127.0.0.1:5353, localhost:5354 ,[::1]:53").unwrap();
        assert_eq!(some.to_string(), "127.0.0.1:5353,localhost:5354,[::1]:53");
        assert!(some.0.resolvers[1].address.ip().is_loopback());
        assert_eq!(DnsSettings::read(None, Some(0)).unwrap().0.authoritative_port, 0);
        assert!(DnsSettings::default().0.resolvers.is_empty());
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        for (text, fault) in [
            ("", "a resolver at least"),
            ("  ", "a resolver at least"),
            (",", "host:port"),
            ("1.1.1.1:53,", "host:port"),
            ("1.1.1.1", "host:port"),
            ("1.1.1.1:", "host:port"),
            ("1.1.1.1:0", "host:port"),
            ("1.1.1.1:65536", "host:port"),
            (":53", "host:port"),
            ("::1:53", "host:port"),
            ("a b:53", "host:port"),
            ("udp://1.1.1.1:53", "host:port"),
            ("[::1:53", "cannot be resolved"),
            ("1.1.1.1:53,1.1.1.1:53", "names 1.1.1.1:53 twice"),
            ("127.0.0.1:53,localhost:54,127.0.0.1:54", "twice"),
            (
                "1.0.0.1:1,1.0.0.1:2,1.0.0.1:3,1.0.0.1:4,1.0.0.1:5,1.0.0.1:6,1.0.0.1:7,1.0.0.1:8,1.0.0.1:9",
                "at most 8",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(fault), "{text:?}: {error}");
        }
    }
}
