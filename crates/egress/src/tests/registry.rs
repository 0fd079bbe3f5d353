//! Our rule for addresses against the registries of those who give them out: the IPv4 and IPv6 Special-Purpose Address
//! Registries of IANA (RFC 6890, RFC 8190, as of October 2025), and the multicast blocks beside them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::prelude::*;

use crate::address::is_public;

/// What a registry says of a block, and what follows for us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reachable {
    No,
    /// And so we call it.
    Yes,
    /// "N/A": it depends on what is inside. We never call it.
    Depends,
    /// We do not call it all the same, for this reason.
    Refused(&'static str),
}

use Reachable::{Depends, No, Refused, Yes};

const PROTOCOL: &str = "an anycast service for protocols of the network itself; no server of a customer";
const IDENTIFIER: &str = "names a thing, and is no place";
const TRANSLATED: &str = "any IPv4 address is inside";

const REGISTRY_V4: [(&str, &str, Reachable); 30] = [
    ("This network", "0.0.0.0/8", No),
    ("This host on this network", "0.0.0.0/32", No),
    ("Private-Use", "10.0.0.0/8", No),
    ("Shared Address Space", "100.64.0.0/10", No),
    ("Loopback", "127.0.0.0/8", No),
    ("Link Local", "169.254.0.0/16", No),
    ("Private-Use", "172.16.0.0/12", No),
    ("IETF Protocol Assignments", "192.0.0.0/24", No),
    ("IPv4 Service Continuity Prefix", "192.0.0.0/29", No),
    ("IPv4 dummy address", "192.0.0.8/32", No),
    ("Port Control Protocol Anycast", "192.0.0.9/32", Refused(PROTOCOL)),
    ("Traversal Using Relays around NAT Anycast", "192.0.0.10/32", Refused(PROTOCOL)),
    ("NAT64/DNS64 Discovery", "192.0.0.170/32", No),
    ("NAT64/DNS64 Discovery", "192.0.0.171/32", No),
    ("Documentation (TEST-NET-1)", "192.0.2.0/24", No),
    ("AS112-v4", "192.31.196.0/24", Yes),
    ("AMT", "192.52.193.0/24", Yes),
    ("Deprecated (6to4 Relay Anycast)", "192.88.99.0/24", Refused("leads to a relay, where there is one")),
    ("6a44-relay anycast address", "192.88.99.2/32", No),
    ("Private-Use", "192.168.0.0/16", No),
    ("Direct Delegation AS112 Service", "192.175.48.0/24", Yes),
    ("Benchmarking", "198.18.0.0/15", No),
    ("Documentation (TEST-NET-2)", "198.51.100.0/24", No),
    ("Documentation (TEST-NET-3)", "203.0.113.0/24", No),
    ("Multicast", "224.0.0.0/4", No),
    ("Multicast, administratively scoped", "239.0.0.0/8", No),
    ("Multicast, globally scoped", "233.252.0.0/24", No),
    ("Reserved", "240.0.0.0/4", No),
    ("Limited Broadcast", "255.255.255.255/32", No),
    // In no registry: a public address that a cloud gave to the host below its machines.
    ("Azure's host", "168.63.129.16/32", Refused("answers for the machine that asks")),
];

const REGISTRY_V6: [(&str, &str, Reachable); 30] = [
    ("Loopback Address", "::1/128", No),
    ("Unspecified Address", "::/128", No),
    ("IPv4-compatible, deprecated", "::/96", No),
    ("IPv4-mapped Address", "::ffff:0:0/96", No),
    ("IPv4-translated", "::ffff:0:0:0/96", No),
    ("IPv4-IPv6 Translation", "64:ff9b::/96", Refused(TRANSLATED)),
    ("IPv4-IPv6 Translation", "64:ff9b:1::/48", No),
    ("Discard-Only Address Block", "100::/64", No),
    ("Dummy IPv6 Prefix", "100:0:0:1::/64", No),
    ("IETF Protocol Assignments", "2001::/23", No),
    ("TEREDO", "2001::/32", Depends),
    ("Port Control Protocol Anycast", "2001:1::1/128", Refused(PROTOCOL)),
    ("Traversal Using Relays around NAT Anycast", "2001:1::2/128", Refused(PROTOCOL)),
    ("DNS-SD Service Registration Protocol Anycast", "2001:1::3/128", Refused(PROTOCOL)),
    ("Benchmarking", "2001:2::/48", No),
    ("AMT", "2001:3::/32", Refused(PROTOCOL)),
    ("AS112-v6", "2001:4:112::/48", Refused(PROTOCOL)),
    ("Deprecated (previously ORCHID)", "2001:10::/28", No),
    ("ORCHIDv2", "2001:20::/28", Refused(IDENTIFIER)),
    ("Drone Remote ID Protocol Entity Tags (DETs) Prefix", "2001:30::/28", Refused(IDENTIFIER)),
    ("Documentation", "2001:db8::/32", No),
    ("6to4", "2002::/16", Depends),
    ("Direct Delegation AS112 Service", "2620:4f:8000::/48", Yes),
    ("Documentation", "3fff::/20", No),
    ("Segment Routing (SRv6) SIDs", "5f00::/16", No),
    ("Unique-Local", "fc00::/7", No),
    ("Link-Local Unicast", "fe80::/10", No),
    ("Site-local, deprecated", "fec0::/10", No),
    ("Multicast", "ff00::/8", No),
    ("Multicast, global scope", "ff0e::/16", No),
];

/// First, last and three from the middle.
fn samples(block: IpNet) -> Vec<IpAddr> {
    let pick = |first: u128, last: u128| {
        let middle = first + (last - first) / 2;
        [first, last, middle, first + (last - first) / 3, middle + (last - middle) / 3]
    };
    match block {
        IpNet::V4(block) => pick(block.network().to_bits().into(), block.broadcast().to_bits().into())
            .map(|bits| Ipv4Addr::from_bits(u32::try_from(bits).unwrap()).into())
            .into(),
        IpNet::V6(block) => pick(block.network().to_bits(), block.broadcast().to_bits())
            .map(|bits| Ipv6Addr::from_bits(bits).into())
            .into(),
    }
}

#[test]
fn the_registries_agree() {
    for (name, block, reachable) in REGISTRY_V4.into_iter().chain(REGISTRY_V6) {
        for address in samples(block.parse().unwrap()) {
            assert_eq!(is_public(address), reachable == Yes, "{address} of {block}, {name}");
        }
    }
}

/// The other way round: whatever is refused stands in a registry, or is no global unicast address at all.
#[test]
fn nothing_else_is_refused() {
    let listed: Vec<IpNet> = REGISTRY_V4
        .into_iter()
        .filter(|(_, _, reachable)| *reachable != Yes)
        .map(|(_, block, _)| block.parse().unwrap())
        .collect();
    let neighbours = listed.iter().flat_map(|block| match block {
        IpNet::V4(block) => {
            [block.network().to_bits().wrapping_sub(1), block.broadcast().to_bits().wrapping_add(1)]
        }
        IpNet::V6(_) => unreachable!("all are of the old family"),
    });
    for bits in (0..=u32::MAX).step_by(9973).chain(neighbours) {
        let address = IpAddr::from(Ipv4Addr::from_bits(bits));
        let is_listed = listed.iter().any(|block| block.contains(&address));
        assert_eq!(is_public(address), !is_listed, "{address}");
    }
}

/// Every way to write an IPv4 address inside of an IPv6 one, below the prefix that it needs.
fn embeddings(inner: Ipv4Addr, prefix: u64) -> Vec<(&'static str, Ipv6Addr)> {
    let bits = u128::from(inner.to_bits());
    let [a, b] = [(inner.to_bits() >> 16) as u16, (inner.to_bits() & 0xffff) as u16];
    let below = |first: Ipv6Addr| Ipv6Addr::from_bits(first.to_bits() | bits);
    let isatap = |id: u128| Ipv6Addr::from_bits((u128::from(prefix) << 64) | (id << 32) | bits);
    vec![
        ("mapped", inner.to_ipv6_mapped()),
        ("compatible", inner.to_ipv6_compatible()),
        ("translated", below("::ffff:0:0:0".parse().unwrap())),
        ("NAT64", below("64:ff9b::".parse().unwrap())),
        ("NAT64, local use", below("64:ff9b:1::".parse().unwrap())),
        // RFC 6052 sets the IPv4 address around bits 64 to 71 where the prefix is of 48 bits.
        ("NAT64, local use, /48", Ipv6Addr::new(0x64, 0xff9b, 1, a, b >> 8, (b & 0xff) << 8, 0, 0)),
        ("6to4", Ipv6Addr::new(0x2002, a, b, 0, 0, 0, 0, 1)),
        ("Teredo's server", Ipv6Addr::new(0x2001, 0, a, b, 0, 0, 0, 0)),
        ("Teredo's client", Ipv6Addr::new(0x2001, 0, 0x4136, 0xe378, 0x8000, 0x63bf, !a, !b)),
        ("ISATAP", isatap(0x5efe)),
        ("ISATAP, global", isatap(0x0200_5efe)),
    ]
}

#[test]
fn an_embedded_address_is_refused() {
    for inner in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0", "8.8.8.8"] {
        for prefix in ["2606:4700::", "2001:4860::", "fe80::"] {
            let prefix: Ipv6Addr = prefix.parse().unwrap();
            let prefix = u64::try_from(prefix.to_bits() >> 64).unwrap();
            for (form, address) in embeddings(inner.parse().unwrap(), prefix) {
                assert!(!is_public(address.into()), "{inner} in {address}, {form}");
            }
        }
    }
}

/// Private by what the standard library says, which shares no line with ours.
fn is_private(address: Ipv4Addr) -> bool {
    address.is_private() || address.is_loopback() || address.is_link_local() || address.is_unspecified()
}

fn private_v4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        (Just(10_u32 << 24), 0..1_u32 << 24),
        (Just(127_u32 << 24), 0..1_u32 << 24),
        (Just(0xac10_0000_u32), 0..1_u32 << 20),
        (Just(0xc0a8_0000_u32), 0..1_u32 << 16),
        (Just(0xa9fe_0000_u32), 0..1_u32 << 16),
        (Just(0_u32), 0..1_u32),
    ]
    .prop_map(|(first, offset)| Ipv4Addr::from_bits(first | offset))
}

proptest! {
    #[test]
    fn no_private_address_passes_in_any_form(inner in private_v4(), prefix in any::<u64>()) {
        prop_assert!(is_private(inner));
        prop_assert!(!is_public(inner.into()));
        for (form, address) in embeddings(inner, prefix) {
            prop_assert!(!is_public(address.into()), "{} in {}, {}", inner, address, form);
        }
    }

    /// Whatever passes is of the two kinds that may: nothing that the standard library has a name for.
    #[test]
    fn what_passes_has_no_special_name(v4 in any::<u32>(), v6 in any::<u128>(), low in any::<u128>()) {
        let v4 = Ipv4Addr::from_bits(v4);
        if is_public(v4.into()) {
            prop_assert!(!is_private(v4) && !v4.is_multicast() && !v4.is_broadcast() && !v4.is_documentation());
        }
        // Half of them below 2000::/3, where some do pass.
        for bits in [v6, (low >> 3) | (1 << 125)] {
            let v6 = Ipv6Addr::from_bits(bits);
            if is_public(v6.into()) {
                prop_assert_eq!(v6.segments()[0] >> 13, 1);
                prop_assert!(v6.to_ipv4().is_none() && !v6.is_multicast() && !v6.is_loopback());
                prop_assert!(!v6.is_unique_local() && !v6.is_unicast_link_local());
            }
        }
    }
}
