//! Networks that an operator names.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::address::is_public;

/// Networks that an operator names, such as `10.0.0.0/8, ::1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Is the address in one of them? An IPv4 address written as IPv6 counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// May a server at this address be called, that somebody else chose? It is public, or in one of them.
    pub fn permits(&self, address: IpAddr) -> bool {
        self.contains(address) || is_public(address)
    }

    /// Is there none at all?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A text that names no network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworksError(String);

impl fmt::Display for NetworksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is neither an address nor a network such as 10.0.0.0/8", self.0)
    }
}

impl std::error::Error for NetworksError {}

fn network(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical().into());
    }
    let network = text.parse::<IpNet>().ok()?.trunc();
    // Addresses are compared in their short form, so such a network would hold none: better said than ignored.
    let is_mapped = |v6: std::net::Ipv6Addr| v6.to_ipv4_mapped().is_some();
    let never_matches = matches!(network, IpNet::V6(v6) if is_mapped(v6.addr()));
    (!never_matches).then_some(network)
}

impl FromStr for Networks {
    type Err = NetworksError;

    fn from_str(text: &str) -> Result<Self, NetworksError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let pieces = text.split(',').map(str::trim);
        pieces
            .map(|piece| network(piece).ok_or_else(|| NetworksError(piece.to_owned())))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, network) in self.0.iter().enumerate() {
            write!(f, "{}{network}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(text: &str) -> Networks {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_and_written() {
        let all = networks(" 10.0.0.0/8, ::1/128,127.0.0.1 ,fd00::7, 192.168.7.9/16, ::ffff:10.1.2.3");
        assert_eq!(
            all.to_string(),
            "10.0.0.0/8, ::1/128, 127.0.0.1/32, fd00::7/128, 192.168.0.0/16, 10.1.2.3/32"
        );
        assert_eq!(networks(&all.to_string()), all);
        for none in ["", "  "] {
            assert!(networks(none).is_empty());
            assert_eq!(networks(none).to_string(), "");
        }
        for bad in [
            "10.0.0.0/33",
            "10.0.0",
            "example.com",
            "10.0.0.1,",
            ",",
            "::1/129",
            "::ffff:10.0.0.0/104",
            "0x7f.1",
        ] {
            let error = bad.parse::<Networks>().unwrap_err();
            assert!(error.to_string().contains("neither an address nor a network"), "{bad}: {error}");
        }
    }

    #[test]
    fn an_address_counts_as_what_it_is() {
        let some = networks("10.0.0.0/8, ::1, 127.0.0.1");
        for inside in ["10.0.0.0", "10.255.255.255", "::ffff:10.1.1.1", "::1", "127.0.0.1", "::ffff:7f00:1"] {
            assert!(some.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.0", "9.255.255.255", "127.0.0.2", "::2", "::", "::10.0.0.1"] {
            assert!(!some.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(!Networks::default().contains("10.0.0.1".parse().unwrap()), "none holds nothing");
    }

    #[test]
    fn what_is_public_is_permitted_beside_them() {
        let some = networks("10.0.0.0/8");
        for permitted in ["1.1.1.1", "10.0.0.1", "::ffff:10.0.0.1", "2606:4700::1"] {
            assert!(some.permits(permitted.parse().unwrap()), "{permitted}");
        }
        for refused in ["127.0.0.1", "::ffff:1.1.1.1", "169.254.169.254", "::1"] {
            assert!(!some.permits(refused.parse().unwrap()), "{refused}");
        }
    }
}
