//! What a look says, and whom it asks for it.

use std::collections::BTreeSet;

use futures_util::future::{join, join_all};
use portico_dns::{Authority, Hint, LOOKS_AT_ONCE, Outcome, ServerKind, Verdict};
use portico_engine::clock::Stopwatch;
use portico_testkit::{DnsFault, TestDns, until};

use super::{
    GONE, HOSTS, LOOK_TIME, NAME, OLD_VALUE, VALUE, answers, authoritative, client, client_at, example,
    public, record,
};

#[tokio::test]
async fn a_record_is_seen_by_the_zone_and_by_the_resolvers() {
    let (test, dns) = example(4).await;
    test.set_txt(NAME, &["v=spf1 -all", VALUE]);
    test.resolver(0).authenticate(true);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority, look.hint), (Verdict::Seen, Authority::Found, None));
    assert_eq!((look.found, look.needed, look.asked), (4, 3, 4));
    assert_eq!(look.zone.apex, "example.com");
    assert_eq!(look.zone.name_servers, HOSTS);
    assert_eq!(look.zone.provider, "example.net");
    let servers: Vec<_> = look.answers.iter().map(|answer| &*answer.server).collect();
    let expected = ["resolver-0:53", "resolver-1:53", "resolver-2:53", "resolver-3:53", HOSTS[0], HOSTS[1]];
    assert_eq!(servers, expected, "the resolvers in their order, then the zone's servers");
    for answer in &look.answers {
        assert_eq!(answer.outcome, Outcome::Found, "{answer:?}");
        assert_eq!(answer.values, [VALUE, "v=spf1 -all"], "what matters comes first");
        assert_eq!((answer.ttl, answer.authenticated), (300, answer.server == "resolver-0:53"), "{answer:?}");
        assert!(answer.latency_ms > 0 && answer.message.starts_with("It has the record"), "{answer:?}");
    }
}

/// They would remember that it is not there.
#[tokio::test]
async fn resolvers_are_not_asked_for_what_the_zone_lacks() {
    let (test, dns) = example(4).await;
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (GONE, Authority::Lacking));
    assert_eq!((look.found, look.needed, look.asked), (0, 3, 0));
    assert_eq!(public(&look), [Outcome::NotAsked; 4]);
    assert_eq!(authoritative(&look), [Outcome::NxDomain; 2]);
    for answer in &look.answers {
        assert_eq!(
            (answer.ttl, answer.latency_ms) == (0, 0),
            answer.outcome == Outcome::NotAsked,
            "{answer:?}"
        );
        assert!(!answer.message.is_empty());
    }
    for resolver in 0..4 {
        assert_eq!(test.resolver(resolver).asked_txt(), [], "not for any name");
    }
    // What is there, but is not the record, is told.
    test.set_txt(NAME, &["something else"]);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!(look.verdict, Verdict::Gone { other_value: true });
    assert_eq!(authoritative(&look), [Outcome::OtherValue; 2]);
    assert!(answers(&look, ServerKind::Authoritative).all(|answer| answer.values == ["something else"]));
    // The name is there, with nothing at it.
    test.set_txt(NAME, &[]);
    test.set_txt(&format!("below.{NAME}"), &["something"]);
    assert_eq!(authoritative(&dns.look(&record()).await.unwrap()), [Outcome::NoRecord; 2]);
}

#[tokio::test]
async fn one_server_of_the_zone_that_has_it_is_enough() {
    let (test, dns) = example(3).await;
    test.host(HOSTS[1]).keep(|_| {});
    test.set_txt(NAME, &[VALUE]);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::Found));
    assert_eq!(authoritative(&look), [Outcome::Found, Outcome::NxDomain]);
}

/// Just met and just missed, for every number of resolvers that there can be one for.
#[tokio::test]
async fn a_quorum_of_resolvers_must_have_it() {
    for (resolvers, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (6, 4), (8, 6)] {
        let (test, dns) = example(resolvers).await;
        // Those at the end have not heard of it yet.
        for late in needed..resolvers {
            test.resolver(late).keep(|_| {});
        }
        test.set_txt(NAME, &[VALUE]);
        let look = dns.look(&record()).await.unwrap();
        assert_eq!((look.verdict, look.found, look.needed), (Verdict::Seen, needed, needed), "{resolvers}");
        test.resolver(0).keep(|world| world.set_txt(NAME, &[]));
        let look = dns.look(&record()).await.unwrap();
        assert_eq!((look.verdict, look.found), (Verdict::Unclear, needed - 1), "{resolvers}");
        assert_eq!(look.authority, Authority::Found);
    }
}

/// Whether it is about the record, or about who serves the zone.
#[tokio::test]
async fn one_resolver_that_lies_decides_nothing() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    let liar = test.resolver(0);
    liar.keep(|world| world.set_txt(NAME, &[]));
    assert_eq!(dns.look(&record()).await.unwrap().verdict, Verdict::Seen, "it hides nothing");

    // It sends us to a server of its own, which says that there is nothing.
    let own = test.host("ns1.liar.net").address().ip();
    test.host("ns1.liar.net").keep(|world| {
        world.set_zone("example.com", &["ns1.liar.net"]);
        world.set_txt(NAME, &[]);
    });
    liar.keep(|world| {
        world.set_zone("example.com", &["ns1.liar.net"]);
        world.set_addresses("ns1.liar.net", &[own]);
    });
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::Found));
    assert_eq!(look.zone.name_servers, HOSTS);
    // The same under the right name.
    liar.keep(|world| {
        for host in HOSTS {
            world.set_addresses(host, &[own]);
        }
    });
    assert_eq!(dns.look(&record()).await.unwrap().verdict, Verdict::Seen);
    assert_eq!(test.host("ns1.liar.net").asked(), [], "nobody believed it");

    test.set_txt(NAME, &[]);
    liar.keep(|world| world.set_txt(NAME, &[VALUE]));
    assert_eq!(dns.look(&record()).await.unwrap().verdict, GONE, "it shows nothing");
    // Nor where the zone's own servers cannot be asked, whose word would be the last.
    let resolvers_only = client_at(&test, 0);
    let look = resolvers_only.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority, look.found), (Verdict::Unclear, Authority::NotReached, 1));
}

#[tokio::test]
async fn without_the_zones_servers_the_resolvers_decide() {
    let (test, _) = example(3).await;
    let dns = client_at(&test, 0);
    assert_eq!(dns.look(&record()).await.unwrap().verdict, GONE);
    test.set_txt(NAME, &[VALUE]);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::NotReached));
    assert_eq!(authoritative(&look), []);
    assert_eq!(look.zone.name_servers, HOSTS, "they are known all the same");
    assert!(HOSTS.iter().all(|host| test.host(host).asked().is_empty()));
}

/// Proof may be delegated to another zone.
#[tokio::test]
async fn aliases_are_followed() {
    let (test, dns) = example(3).await;
    test.serve("example.org", &["ns1.example.org"]);
    test.change(|world| {
        world.set_cname(NAME, "proof.example.org");
        world.set_txt("proof.example.org", &[VALUE]);
    });
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::NotReached));
    assert_eq!(authoritative(&look), [Outcome::Error; 2]);
    let message = &answers(&look, ServerKind::Authoritative).next().unwrap().message;
    assert!(message.contains("proof.example.org"), "{message}");

    // Even if one of its servers has the other zone as well.
    test.serve("example.org", &["ns1.example.org", HOSTS[0]]);
    assert_eq!(authoritative(&dns.look(&record()).await.unwrap()), [Outcome::Error; 2]);

    // Within the zone its servers answer for it, and have the last word again.
    test.change(|world| world.set_cname(NAME, "proof.example.com"));
    assert_eq!(dns.look(&record()).await.unwrap().verdict, GONE);
    test.set_txt("proof.example.com", &[VALUE]);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::Found));

    // Eight of them, and no ninth.
    for (links, expected) in [(8, Outcome::Found), (9, Outcome::Error)] {
        let at = |link: usize| if link == 0 { NAME.to_owned() } else { format!("a{link}.example.com") };
        test.change(|world| {
            for link in 0..links {
                world.set_cname(&at(link), &at(link + 1));
            }
            world.clear(&at(links));
            world.set_txt(&at(links), &[VALUE]);
        });
        let look = dns.look(&record()).await.unwrap();
        assert!(look.answers.iter().all(|answer| answer.outcome == expected), "{links}: {look:?}");
    }
    test.change(|world| world.set_cname(NAME, NAME));
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, public(&look)), (Verdict::Unclear, vec![Outcome::Error; 3]), "in a circle");
}

#[tokio::test]
async fn a_wildcard_proves_as_well() {
    let (test, dns) = example(3).await;
    test.set_txt("*.example.com", &[VALUE]);
    assert_eq!(dns.look(&record()).await.unwrap().verdict, Verdict::Seen);
}

/// The zone's servers served the other zone as well, once, and still have what it held then.
#[tokio::test]
async fn an_old_copy_of_another_zone_has_no_say() {
    let (test, dns) = example(3).await;
    test.serve("example.org", &["ns1.example.org"]);
    test.change(|world| {
        world.set_cname(NAME, "proof.example.org");
        world.set_txt("proof.example.org", &[VALUE]);
    });
    for values in [&[OLD_VALUE][..], &[]] {
        for host in HOSTS {
            test.host(host).keep(|world| {
                world.set_zone("example.org", &HOSTS);
                world.set_txt("proof.example.org", values);
            });
        }
        let look = dns.look(&record()).await.unwrap();
        assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::NotReached), "{values:?}");
        assert_eq!(authoritative(&look), [Outcome::Error; 2]);
    }
}

/// The name has a zone of its own, of which those of the domain say only who serves it.
#[tokio::test]
async fn servers_that_refer_to_others_have_no_say() {
    let (test, dns) = example(3).await;
    test.serve(NAME, &["ns1.example.org"]);
    test.set_txt(NAME, &[VALUE]);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::NotReached));
    assert_eq!(authoritative(&look), [Outcome::Error; 2]);
}

/// Every answer that is none, of either kind of server.
#[tokio::test]
async fn servers_that_fail_are_told_apart() {
    let (test, dns) = example(6).await;
    test.set_txt(NAME, &[VALUE]);
    let faults = [DnsFault::ServFail, DnsFault::Refusal, DnsFault::Garbage, DnsFault::Silence];
    let expected = [Outcome::ServFail, Outcome::Error, Outcome::Error, Outcome::Timeout];
    for (at, fault) in faults.into_iter().enumerate() {
        test.resolver(at).fail(fault);
    }
    let watch = Stopwatch::start();
    let look = dns.look(&record()).await.unwrap();
    assert!(watch.elapsed() < LOOK_TIME);
    assert_eq!(look.verdict, Verdict::Unclear, "two of six have it");
    assert_eq!(public(&look)[..4], expected);
    assert_eq!(public(&look)[4..], [Outcome::Found; 2]);

    for at in 0..6 {
        test.resolver(at).fail(DnsFault::None);
    }
    let hosts = ["ns1.example.net", "ns2.example.net", "ns3.example.net", "ns4.example.net"];
    test.serve("example.com", &hosts);
    for (faults, expected) in [
        (
            [DnsFault::ServFail, DnsFault::Refusal, DnsFault::Garbage, DnsFault::Silence],
            [Outcome::ServFail, Outcome::Error, Outcome::Error, Outcome::Timeout],
        ),
        (
            [DnsFault::Lame, DnsFault::TruncationWithoutTcp, DnsFault::Lame, DnsFault::Truncation],
            [Outcome::Error, Outcome::Timeout, Outcome::Error, Outcome::Found],
        ),
    ] {
        for (host, fault) in hosts.into_iter().zip(faults) {
            test.host(host).fail(fault);
        }
        let look = dns.look(&record()).await.unwrap();
        assert_eq!(look.verdict, Verdict::Seen, "{faults:?}");
        assert_eq!(authoritative(&look), expected);
        assert!(look.answers.iter().all(|answer| !answer.message.is_empty()));
    }
}

#[tokio::test]
async fn no_resolver_at_all_is_our_fault() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    for at in 0..3 {
        test.resolver(at).fail(DnsFault::Silence);
    }
    let watch = Stopwatch::start();
    let look = dns.look(&record()).await.unwrap();
    assert!(watch.elapsed() < LOOK_TIME);
    assert_eq!((look.verdict, look.hint), (Verdict::Unreachable, None));
    assert_eq!((look.found, look.asked, public(&look)), (0, 3, vec![Outcome::Timeout; 3]));
    test.resolver(0).fail(DnsFault::ServFail);
    assert_eq!(dns.look(&record()).await.unwrap().verdict, Verdict::Unclear, "SERVFAIL is an answer");
}

/// A zone whose servers drop this one question keeps every resolver waiting for its answer. That is the zone's fault.
#[tokio::test]
async fn resolvers_that_answer_other_questions_are_reached() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    let everybody = || (0..3).map(|at| test.resolver(at)).chain(HOSTS.map(|host| test.host(host)));
    everybody().for_each(|server| server.fail(DnsFault::SilenceOnTexts));
    let watch = Stopwatch::start();
    let look = dns.look(&record()).await.unwrap();
    assert!(watch.elapsed() < LOOK_TIME, "{:?}", watch.elapsed());
    assert_eq!((look.verdict, look.authority), (Verdict::Unclear, Authority::NotReached));
    assert_eq!((look.asked, public(&look)), (3, vec![Outcome::Timeout; 3]));
}

/// Whatever stands still, it ends in time, and those who answer are heard.
#[tokio::test]
async fn a_look_ends_in_time() {
    let (test, dns) = example(4).await;
    test.set_txt(NAME, &[VALUE]);
    test.resolver(0).fail(DnsFault::Silence);
    for host in HOSTS {
        test.host(host).fail(DnsFault::Silence);
    }
    let watch = Stopwatch::start();
    let look = dns.look(&record()).await.unwrap();
    assert!(watch.elapsed() < LOOK_TIME, "{:?}", watch.elapsed());
    assert_eq!((look.verdict, look.authority), (Verdict::Seen, Authority::NotReached));
    assert_eq!(authoritative(&look), [Outcome::Timeout; 2]);
    assert_eq!(public(&look)[0], Outcome::Timeout);

    // One more that is silent, which is waited for at every step, and the resolvers still have all of their time.
    test.resolver(1).fail(DnsFault::Silence);
    let watch = Stopwatch::start();
    let look = dns.look(&record()).await.unwrap();
    assert!(watch.elapsed() < LOOK_TIME, "{:?}", watch.elapsed());
    assert_eq!((look.verdict, look.found), (Verdict::Unclear, 2));
}

/// The names are longer than DNS allows, which the platform sees to before.
#[tokio::test]
async fn a_name_that_is_too_long_is_no_panic() {
    let (_test, dns) = example(1).await;
    let domain = format!("{}.example.com", ["a".repeat(60).as_str(); 4].join("."));
    let look = dns.look(&portico_dns::Record { domain, ..record() }).await.unwrap();
    assert_eq!((look.verdict, look.asked, look.hint), (Verdict::Unclear, 0, None));
    assert!(look.answers[0].message.contains("longer than DNS allows"));
}

/// One after the other as turns become free, each with all of its time.
#[tokio::test]
async fn no_more_looks_than_there_are_turns() {
    let test = TestDns::start(1).await;
    test.serve("example.com", &HOSTS);
    test.set_txt("*.example.com", &[VALUE]);
    let dns = client_at(&test, 0);
    // The resolver is asked everything by everybody, and is silent until there are all who may ask.
    let resolver = test.resolver(0);
    resolver.fail(DnsFault::Silence);
    let shop = |name: &str| name.split('.').find(|label| label.starts_with("shop-")).map(str::to_owned);
    let asked = || resolver.asked().iter().filter_map(|question| shop(&question.name)).collect::<Vec<_>>();
    let looks = (0..LOOKS_AT_ONCE + 8).map(async |number| {
        let record = portico_dns::Record { domain: format!("shop-{number}.example.com"), ..record() };
        dns.look(&record).await.map(|look| look.verdict)
    });
    let speaking = async {
        let everybody = async || asked().iter().collect::<BTreeSet<_>>().len() >= LOOKS_AT_ONCE;
        until("all who may look have begun", everybody).await;
        resolver.fail(DnsFault::None);
    };
    let (verdicts, ()) = join(join_all(looks), speaking).await;
    assert_eq!(verdicts, [Ok(Verdict::Seen); LOOKS_AT_ONCE + 8]);
    let asked = asked();
    let (mut looking, mut most) = (BTreeSet::new(), 0);
    for (at, name) in asked.iter().enumerate() {
        looking.insert(name);
        most = most.max(looking.len());
        if !asked[at + 1..].contains(name) {
            looking.remove(name);
        }
    }
    assert_eq!(most, LOOKS_AT_ONCE);
}

/// The same resolvers answer many at once, each with its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_looks_at_once_do_not_mix() {
    let test = TestDns::start(3).await;
    let domains: Vec<_> = (0..16).map(|number| format!("shop-{number}.example.com")).collect();
    test.serve("example.com", &HOSTS);
    for (number, domain) in domains.iter().enumerate() {
        let value = format!("portico-verification=token{number}");
        if number % 2 == 0 {
            test.set_txt(&format!("_portico-challenge.{domain}"), &[&value]);
        }
    }
    let dns = client(&test);
    let looks = domains.iter().enumerate().map(async |(number, domain)| {
        let record =
            portico_dns::Record { domain: domain.clone(), token: format!("token{number}"), ..record() };
        let look = dns.look(&record).await.unwrap();
        let expected = if number % 2 == 0 { Verdict::Seen } else { GONE };
        assert_eq!((look.verdict, look.zone.apex.as_str()), (expected, "example.com"), "{domain}");
        let hint = if number % 2 == 0 { None } else { Some(Hint::NoZone) };
        assert_eq!(look.hint, hint, "{domain}");
    });
    join_all(looks).await;
}
