//! Who runs a zone, by the names of its name servers.

/// Suffixes of names of name servers, and whose they are. A label that ends with `*` matches all that begin so.
const PROVIDERS: [(&str, &[&str]); 28] = [
    ("Cloudflare", &["ns.cloudflare.com"]),
    ("Amazon Route 53", &["awsdns-*.com", "awsdns-*.net", "awsdns-*.org", "awsdns-*.co.uk"]),
    ("GoDaddy", &["domaincontrol.com"]),
    ("Namecheap", &["registrar-servers.com"]),
    ("Google Cloud DNS / Squarespace", &["googledomains.com"]),
    ("Azure DNS", &["azure-dns.com", "azure-dns.net", "azure-dns.org", "azure-dns.info"]),
    ("Vercel", &["vercel-dns.com"]),
    ("DigitalOcean", &["digitalocean.com"]),
    // Netlify's customers are at its servers, too.
    ("NS1", &["nsone.net"]),
    ("DNSimple", &["dnsimple.com", "dnsimple-edge.net", "dnsimple-edge.org"]),
    ("Hetzner", &["hetzner.com", "hetzner.de", "first-ns.de", "second-ns.com", "second-ns.de"]),
    ("OVHcloud", &["ovh.net", "anycast.me"]),
    ("IONOS", &["ui-dns.com", "ui-dns.de", "ui-dns.org", "ui-dns.biz", "1and1.com"]),
    ("Gandi", &["gandi.net"]),
    ("Porkbun", &["porkbun.com"]),
    ("Wix", &["wixdns.net"]),
    ("Squarespace", &["squarespacedns.com"]),
    ("Hostinger", &["dns-parking.com"]),
    ("Akamai Edge DNS", &["akam.net"]),
    (
        "UltraDNS",
        &["ultradns.com", "ultradns.net", "ultradns.org", "ultradns.biz", "ultradns.info", "ultradns.co.uk"],
    ),
    ("Akamai/Linode", &["linode.com"]),
    ("Hurricane Electric", &["he.net"]),
    ("Network Solutions", &["worldnic.com"]),
    ("Alibaba", &["alidns.com", "hichina.com"]),
    ("DNSPod", &["dnspod.net"]),
    ("One.com", &["one.com"]),
    ("Loopia", &["loopia.se"]),
    ("TransIP", &["transip.net", "transip.nl"]),
];
/// How many of them are named.
const NAMED_MAX: usize = 2;

/// Who runs these name servers, given in lower case; who has more of them comes first. Empty when there are none.
pub(crate) fn provider(name_servers: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for host in name_servers {
        let name = of_host(host);
        match counts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.iter().take(NAMED_MAX).map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Whoever is unknown is called by the domain of their server.
fn of_host(host: &str) -> &str {
    let known = PROVIDERS.iter().find(|(_, suffixes)| suffixes.iter().any(|suffix| is_under(host, suffix)));
    known.map_or_else(|| psl::domain_str(host).unwrap_or(host), |(name, _)| *name)
}

/// Does the name end with these labels?
fn is_under(host: &str, suffix: &str) -> bool {
    let mut labels = host.rsplit('.');
    suffix.rsplit('.').all(|wanted| {
        labels.next().is_some_and(|label| match wanted.strip_suffix('*') {
            Some(beginning) => label.starts_with(beginning),
            None => label == wanted,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hosts: &[&str]) -> String {
        provider(&hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn providers_are_known_by_whole_labels() {
        for (host, name) in [
            ("ada.ns.cloudflare.com", "Cloudflare"),
            ("ns-1234.awsdns-56.co.uk", "Amazon Route 53"),
            ("ns-7.awsdns-00.org", "Amazon Route 53"),
            ("ns01.domaincontrol.com", "GoDaddy"),
            ("dns1.registrar-servers.com", "Namecheap"),
            ("ns1-04.azure-dns.com", "Azure DNS"),
            ("helium.ns.hetzner.de", "Hetzner"),
            ("ns1.transip.nl", "TransIP"),
            ("dns1.p01.nsone.net", "NS1"),
            // No other domain of the same company, and no name that only ends alike.
            ("ns1.cloudflare.com", "cloudflare.com"),
            ("ns1.notovh.net", "notovh.net"),
            ("ns1.awsdns-00.evil.com", "evil.com"),
            ("ns1.google.example.co.uk", "example.co.uk"),
            ("domaincontrol.com", "GoDaddy"),
            ("com", "com"),
            ("ns1.example.test", "example.test"),
        ] {
            assert_eq!(of(&[host]), name, "{host}");
        }
    }

    #[test]
    fn two_are_named_and_who_has_more_comes_first() {
        assert_eq!(of(&[]), "");
        assert_eq!(of(&["a.ns.cloudflare.com", "b.ns.cloudflare.com"]), "Cloudflare");
        let mixed = ["a.ns.cloudflare.com", "ns1.example.net", "ns2.example.net"];
        assert_eq!(of(&mixed), "example.net, Cloudflare");
        assert_eq!(of(&["ns1.gandi.net", "ns1.porkbun.com", "ns1.he.net"]), "Gandi, Porkbun");
    }
}
