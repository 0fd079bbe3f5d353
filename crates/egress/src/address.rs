//! Which addresses belong to the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What of IPv4 is not the public internet, as first address and length of the prefix.
const NOT_PUBLIC_V4: [(Ipv4Addr, u32); 16] = [
    // "This network"; 0.0.0.0 reaches the machine itself.
    (Ipv4Addr::UNSPECIFIED, 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local; 169.254.169.254 tells a cloud machine its secrets.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    // The host below an Azure machine, at an address that looks public.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation, here and twice below.
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // The way to 6to4 relays.
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarks.
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast.
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // Reserved, up to the broadcast address.
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// The only part of IPv6 that is given out to the public. It leaves out what has IPv4 inside (mapped, compatible,
/// NAT64), loopback, unique local, link-local, site-local and multicast without naming each.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// What of it is not the public internet after all.
const NOT_PUBLIC_V6: [(Ipv6Addr, u32); 4] = [
    // Protocol assignments: Teredo, benchmarks, ORCHID.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation, here and below.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4: any IPv4 address inside.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Is it a global unicast address? Decided by its number, never by how it is written. An IPv4 address that is written
/// as IPv6 is not, whichever it is: nobody publishes a server so.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !NOT_PUBLIC_V4.iter().any(|range| is_in_v4(address, *range)),
        IpAddr::V6(address) => {
            is_in_v6(address, GLOBAL_V6)
                && !NOT_PUBLIC_V6.iter().any(|range| is_in_v6(address, *range))
                && !is_isatap(address)
        }
    }
}

/// Does its last half say that an IPv4 address follows? A tunnel of the inside may lead there, below any prefix.
fn is_isatap(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [_, _, _, _, 0 | 0x200, 0x5efe, _, _])
}

fn is_in_v4(address: Ipv4Addr, (first, prefix): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()).leading_zeros() >= prefix
}

fn is_in_v6(address: Ipv6Addr, (first, prefix): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()).leading_zeros() >= prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last address of what is refused, and the neighbours outside where they are public.
    const REFUSED: [(&str, &str, &str, &str); 26] = [
        ("", "0.0.0.0", "0.255.255.255", "1.0.0.0"),
        ("9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"),
        ("100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"),
        ("126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"),
        ("168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"),
        ("169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"),
        ("172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"),
        ("191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"),
        ("192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"),
        ("192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"),
        ("192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"),
        ("198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"),
        ("198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"),
        ("203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"),
        ("223.255.255.255", "224.0.0.0", "239.255.255.255", ""),
        ("", "240.0.0.0", "255.255.255.255", ""),
        ("", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        (
            "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001::",
            "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:200::",
        ),
        ("2001:db7:ffff::", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"),
        ("2001:ffff:ffff::", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"),
        ("3ffe:ffff:ffff::", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"),
        ("3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""),
        ("", "ff00::", "ff02::1", ""),
    ];

    #[test]
    fn every_range_ends_where_it_should() {
        for (before, first, last, after) in REFUSED {
            for inside in [first, last] {
                assert!(!is_public(inside.parse().unwrap()), "{inside}");
            }
            for outside in [before, after].into_iter().filter(|outside| !outside.is_empty()) {
                assert!(is_public(outside.parse().unwrap()), "{outside}");
            }
        }
    }

    #[test]
    fn the_public_internet_is_public() {
        for public in
            ["1.1.1.1", "8.8.8.8", "223.255.255.255", "2000::", "2606:4700:4700::1111", "2a00:1450::1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    /// What stdlib helpers and lists of others let through.
    #[test]
    fn an_inner_address_does_not_hide_in_an_outer_one() {
        for hidden in [
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::10.0.0.1",
            "2001:0:7f00:1::",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "100::1",
            "5f00::1",
            "fe80::5efe:127.0.0.1",
            "fd00:ec2::254",
            "fd20:ce::254",
        ] {
            assert!(!is_public(hidden.parse().unwrap()), "{hidden}");
        }
    }
}
