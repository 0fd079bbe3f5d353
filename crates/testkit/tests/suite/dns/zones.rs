//! Who serves a zone, and which of its servers are asked.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use portico_dns::{Authority, Outcome, ServerKind, Verdict, Zone};
use portico_engine::clock::Stopwatch;
use portico_testkit::{DnsFault, TestDns};

use super::{HOSTS, NAME, VALUE, answers, authoritative, client, example, record};

#[tokio::test]
async fn a_zone_is_found_above_a_domain() {
    let test = TestDns::start(3).await;
    test.change(|world| {
        world.set_zone("example.com", &["ada.ns.cloudflare.com", "bob.ns.cloudflare.com"]);
        world.set_zone("eu.example.com", &["ns1.gandi.net", "ada.ns.cloudflare.com", "ns2.gandi.net"]);
        world.set_cname("alias.example.com", "eu.example.com");
        world.set_cname("away.example.com", "nobody.example.net");
        world.set_zone("example.co.uk", &["ns1.provider.co.uk"]);
        world.set_zone("uk", &["ns1.registry.uk"]);
        world.set_zone("github.io", &["dns1.p01.nsone.net"]);
    });
    let dns = client(&test);
    for (domain, registrable, apex, provider) in [
        ("example.com", "example.com", "example.com", "Cloudflare"),
        ("shop.example.com", "example.com", "example.com", "Cloudflare"),
        ("a.b.c.d.e.f.example.com", "example.com", "example.com", "Cloudflare"),
        ("alias.example.com", "example.com", "example.com", "Cloudflare"),
        ("away.example.com", "example.com", "example.com", "Cloudflare"),
        ("eu.example.com", "example.com", "eu.example.com", "Gandi, Cloudflare"),
        ("shop.eu.example.com", "example.com", "eu.example.com", "Gandi, Cloudflare"),
        ("shop.example.co.uk", "example.co.uk", "example.co.uk", "provider.co.uk"),
        // A suffix of somebody's own, and not the zone of a registry.
        ("someone.github.io", "someone.github.io", "github.io", "NS1"),
        ("nobody.uk", "nobody.uk", "nobody.uk", ""),
        ("example.org", "example.org", "example.org", ""),
    ] {
        let zone = dns.zone(domain, registrable).await;
        assert_eq!((zone.apex.as_str(), zone.provider.as_str()), (apex, provider), "{domain}");
    }
    let zone = dns.zone("eu.example.com", "example.com").await;
    assert_eq!(zone.name_servers, ["ada.ns.cloudflare.com", "ns1.gandi.net", "ns2.gandi.net"]);
    assert_eq!(dns.zone("", "").await, Zone::default());
}

/// One that is slow or silent is not waited for, and one that lies is not believed.
#[tokio::test]
async fn a_zone_is_found_by_most_resolvers() {
    let (test, dns) = example(4).await;
    test.resolver(0).keep(|world| world.set_zone("example.com", &["ns1.liar.net"]));
    test.resolver(1).fail(DnsFault::Silence);
    let watch = Stopwatch::start();
    assert_eq!(dns.zone("example.com", "example.com").await.name_servers, HOSTS);
    assert!(watch.elapsed() < Duration::from_secs(1), "{:?}", watch.elapsed());
    test.resolver(2).fail(DnsFault::ServFail);
    assert_eq!(dns.zone("example.com", "example.com").await.provider, "", "one alone is not enough");
    let test = TestDns::start(1).await;
    test.serve("example.com", &HOSTS);
    assert_eq!(client(&test).zone("example.com", "example.com").await.name_servers, HOSTS);
}

#[tokio::test]
async fn four_servers_of_a_zone_are_asked() {
    let (test, dns) = example(3).await;
    let hosts =
        ["ns1.example.net", "ns2.example.net", "ns3.example.net", "ns4.example.net", "ns5.example.net"];
    test.serve("example.com", &hosts);
    test.set_txt(NAME, &[VALUE]);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!(authoritative(&look), [Outcome::Found; 4]);
    assert_eq!(look.zone.name_servers, hosts, "all of them are told");
    assert_eq!(test.host(hosts[4]).asked(), []);
}

/// Tenants choose where the servers of their zones are.
#[tokio::test]
async fn servers_at_addresses_of_the_inside_are_not_asked() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    let open = test.host(HOSTS[0]).address().ip();
    let inside = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    for addresses in [vec![inside], vec![open, inside], vec![open, mapped], vec!["::1".parse().unwrap()]] {
        test.change(|world| world.set_addresses(HOSTS[0], &addresses));
        test.host(HOSTS[0]).forget();
        let look = dns.look(&record()).await.unwrap();
        assert_eq!(authoritative(&look), [Outcome::Blocked, Outcome::Found], "{addresses:?}");
        assert_eq!(look.verdict, Verdict::Seen);
        assert_eq!(test.host(HOSTS[0]).asked(), [], "one that is not allowed shows what the name is for");
        let blocked = answers(&look, ServerKind::Authoritative).next().unwrap();
        assert!(!blocked.message.contains("10.0.0.1") && blocked.latency_ms == 0, "{blocked:?}");
    }
    let figures = dns.figures();
    let blocked = figures[3].questions.iter().find(|(outcome, _)| *outcome == Outcome::Blocked);
    assert_eq!(blocked.unwrap().1, 4);
    // All of them, and the step counts as not reached.
    for host in HOSTS {
        test.change(|world| world.set_addresses(host, &[inside]));
    }
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::NotReached));
}

#[tokio::test]
async fn a_server_without_an_address_is_not_reached() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    test.change(|world| world.set_addresses(HOSTS[1], &[]));
    let look = dns.look(&record()).await.unwrap();
    assert_eq!(authoritative(&look), [Outcome::Found, Outcome::Timeout]);
    assert_eq!(look.verdict, Verdict::Seen);
}

/// The first of two addresses is silent, and the second try goes to the other.
#[tokio::test]
async fn another_address_is_tried_as_well() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    let (silent, open) = (test.host(HOSTS[0]).address().ip(), test.host(HOSTS[1]).address().ip());
    test.host(HOSTS[0]).fail(DnsFault::Silence);
    test.host(HOSTS[1]).keep(|world| world.set_zone("example.com", &[HOSTS[1]]));
    test.change(|world| {
        world.set_zone("example.com", &["ns.example.net"]);
        world.set_addresses("ns.example.net", &[silent, open]);
    });
    let look = dns.look(&record()).await.unwrap();
    assert_eq!(authoritative(&look), [Outcome::Found]);
    assert_eq!(test.host(HOSTS[0]).asked().len(), 1);
}
