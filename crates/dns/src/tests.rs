//! Which mistake is found, and how it and every answer are put into words. What needs servers is tested in the testkit.

use std::time::Duration;

use hickory_proto::op::ResponseCode;
use portico_egress::Networks;

use crate::hints::{Evidence, Mistake, Probes, first};
use crate::time::now;
use crate::txt::{Said, Sighting};
use crate::{
    Authority, Busy, Dns, Hint, LOOKS_AT_ONCE, Outcome, Record, ServerKind, Settings, Verdict, WAIT_MAX,
    Zone, names, words,
};

/// The record of a domain, with a short token.
pub(crate) fn record(domain: &str) -> Record {
    Record {
        domain: domain.to_owned(),
        registrable: "example.com".to_owned(),
        label: "_portico-challenge".to_owned(),
        other_label: "_portico-host-challenge".to_owned(),
        key: "portico-verification".to_owned(),
        token: "abc234".to_owned(),
    }
}

fn zone(provider: &str) -> Zone {
    Zone {
        apex: "example.com".to_owned(),
        name_servers: vec!["ns1.example.net".to_owned()],
        provider: provider.to_owned(),
    }
}

fn evidence<'a>(
    record: &'a Record,
    zone: &'a Zone,
    authority: Authority,
    resolvers: &'a [Sighting],
) -> Evidence<'a> {
    let found = resolvers.iter().filter(|sighting| sighting.proves(record)).count();
    Evidence { record, zone, authority, servers: &[], resolvers, found, needed: 3 }
}

fn said(said: Said) -> Sighting {
    Sighting { latency: Some(Duration::from_millis(3)), ..Sighting::unanswered(said) }
}

fn values(values: &[&str], ttl: u32) -> Sighting {
    Sighting { values: values.iter().map(|value| (*value).to_owned()).collect(), ttl, ..said(Said::Values) }
}

fn alias(end: Said) -> Sighting {
    Sighting { alias: names::read("pages.example.net"), ..said(end) }
}

fn without_resolvers() -> Dns {
    Dns::new(Settings { resolvers: Vec::new(), authoritative_port: 0 }, Networks::default())
}

/// The platform looks in tasks, which go from thread to thread.
#[test]
fn looks_are_for_tasks() {
    fn is_for_tasks(_: impl Future<Output: Send> + Send) {}
    let dns = without_resolvers();
    is_for_tasks(dns.look(&record("example.com")));
    is_for_tasks(dns.zone("example.com", "example.com"));
    is_for_tasks(dns.roots());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_for_a_turn_is_told() {
    let (dns, record) = (without_resolvers(), record("example.com"));
    let look = async || dns.look(&record).await.map(|look| look.verdict);
    let all = dns.turns.acquire_many(LOOKS_AT_ONCE.try_into().unwrap()).await.unwrap();
    let begun = now();
    assert_eq!(look().await, Err(Busy));
    assert_eq!(dns.zone("example.com", "example.com").await, Zone::default());
    let waited = now() - begun;
    assert!(waited >= 2 * WAIT_MAX && waited < 2 * WAIT_MAX + Duration::from_millis(10), "{waited:?}");
    let others = async {
        // They look for a while.
        let _ = tokio::time::timeout(WAIT_MAX / 2, std::future::pending::<()>()).await;
        drop(all);
    };
    let (look, zone, ()) =
        futures_util::future::join3(look(), dns.zone("example.com", "example.com"), others).await;
    assert_eq!((look, zone.apex.as_str()), (Ok(Verdict::Unreachable), "example.com"));
    assert_eq!(dns.turns.available_permits(), LOOKS_AT_ONCE, "they go back, whatever came of it");
}

/// Each mistake of the table, in its order, as it is found when all of them are.
#[test]
fn the_first_mistake_of_the_table_counts() {
    let (record, zone) = (record("example.com"), zone(""));
    let mut probes = Probes {
        doubled: Some("wrong.example.com".to_owned()),
        at_apex: true,
        other_label: Some("portico-challenge.example.com".to_owned()),
        no_domain: true,
        unchecked: true,
    };
    let resolvers = [alias(Said::NoRecord), values(&["portico-verification=old"], 60)];
    let first = |resolvers: &[Sighting], probes: &Probes| {
        first(&evidence(&record, &zone, Authority::NotReached, resolvers), probes).map(|found| found.hint())
    };
    assert_eq!(first(&resolvers, &probes), Some(Hint::DoubledName));
    probes.doubled = None;
    assert_eq!(first(&resolvers, &probes), Some(Hint::AtApex));
    probes.at_apex = false;
    assert_eq!(first(&resolvers, &probes), Some(Hint::WrongLabel));
    probes.other_label = None;
    assert_eq!(first(&resolvers, &probes), Some(Hint::CnameInTheWay));
    assert_eq!(first(&resolvers[1..], &probes), Some(Hint::StaleValue));
    assert_eq!(first(&[], &probes), Some(Hint::DnssecBroken));
    probes.unchecked = false;
    assert_eq!(first(&[], &probes), Some(Hint::NoZone));
    probes.no_domain = false;
    assert_eq!(first(&[said(Said::NoRecord), values(&["v=spf1"], 60)], &probes), None);
}

#[test]
fn where_the_zone_has_the_record_nothing_is_misplaced() {
    let (record, zone) = (record("example.com"), zone(""));
    let resolvers = [
        values(&["portico-verification=old"], 900),
        said(Said::NoRecord),
        alias(Said::NxDomain),
        values(&["abc234"], 3600),
    ];
    let evidence = evidence(&record, &zone, Authority::Found, &resolvers);
    let waits = Mistake::NotPropagated(900);
    assert_eq!(first(&evidence, &Probes::default()), Some(waits), "as long as the oldest no");
    let broken = Probes { unchecked: true, ..Probes::default() };
    assert_eq!(first(&evidence, &broken), Some(Mistake::DnssecBroken), "no waiting helps");
}

#[test]
fn a_cname_that_leads_to_other_texts_is_not_in_the_way() {
    let (record, zone) = (record("example.com"), zone(""));
    let resolvers = [Sighting { alias: names::read("pages.example.net"), ..values(&["v=spf1"], 60) }];
    let evidence = evidence(&record, &zone, Authority::NotReached, &resolvers);
    assert_eq!(first(&evidence, &Probes::default()), None);
}

#[test]
fn a_cname_without_an_end_is_in_the_way() {
    let (record, zone) = (record("example.com"), zone(""));
    let resolvers = [alias(Said::TooManyLinks)];
    let evidence = evidence(&record, &zone, Authority::NotReached, &resolvers);
    assert_eq!(first(&evidence, &Probes::default()), Some(Mistake::CnameInTheWay(None)));
}

/// The name that is wrong, the one that is right, what to enter, and who has to be asked.
#[test]
fn sentences_of_mistakes_name_what_is_wrong_and_what_is_right() {
    let right = "_portico-challenge.shop.example.com";
    let value = "portico-verification=abc234";
    let doubled = "_portico-challenge.shop.example.com.example.com";
    for (mistake, names) in [
        (Mistake::DoubledName(doubled.to_owned()), &[doubled, right, "only _portico-challenge.shop as"][..]),
        (Mistake::AtApex, &["at shop.example.com itself", right, "enter _portico-challenge.shop as"]),
        (
            Mistake::WrongLabel("portico-challenge.shop.example.com".to_owned()),
            &["at portico-challenge.shop.example.com", right, "enter _portico-challenge.shop as"],
        ),
        (Mistake::CnameInTheWay(Some("pages.example.net".to_owned())), &["pages.example.net", right, value]),
        (Mistake::CnameInTheWay(None), &["in a circle or too often", right, value]),
        (
            Mistake::StaleValue("portico-verification=old".to_owned()),
            &["portico-verification=old", right, value],
        ),
        (Mistake::NotPropagated(3600), &["wait up to 60 minutes", "1 of the 3"]),
        (Mistake::DnssecBroken, &[right, "DNSSEC"]),
        (Mistake::NoZone, &["shop.example.com does not exist", "registered", "misspelt"]),
    ] {
        for provider in ["", "GoDaddy"] {
            let (record, zone) = (record("shop.example.com"), zone(provider));
            let resolvers = [values(&["abc234"], 60)];
            let evidence = evidence(&record, &zone, Authority::Found, &resolvers);
            let sentence = words::mistake(&mistake, &evidence);
            for name in names {
                assert!(sentence.contains(name), "{name}: {sentence}");
            }
            assert_eq!(sentence.contains("GoDaddy"), !provider.is_empty(), "{sentence}");
            assert!(sentence.ends_with('.') && !sentence.contains("  "), "{sentence}");
        }
    }
}

#[test]
fn every_answer_has_a_sentence() {
    let (record, zone) = (record("example.com"), zone(""));
    let evidence = evidence(&record, &zone, Authority::NotReached, &[]);
    let all = [
        Said::Values,
        Said::NoRecord,
        Said::NxDomain,
        Said::ServFail,
        Said::Timeout,
        Said::Blocked,
        Said::Elsewhere,
        Said::NotAuthoritative,
        Said::TooManyLinks,
        Said::Garbled,
        Said::Code(ResponseCode::Refused),
    ];
    let mut sentences = Vec::new();
    for kind in [ServerKind::Public, ServerKind::Authoritative] {
        for sighting in all.map(said).into_iter().chain(all.map(alias)).chain([values(&["abc234"], 1)]) {
            let outcome = sighting.outcome(&record);
            sentences.push(words::outcome(outcome, kind, Some(&sighting), &evidence));
        }
        sentences.push(words::outcome(Outcome::NotAsked, kind, None, &evidence));
    }
    sentences.push(words::NO_NAME.to_owned());
    let outcomes = [
        Outcome::Found,
        Outcome::NoRecord,
        Outcome::ServFail,
        Outcome::Timeout,
        Outcome::Error,
        Outcome::Blocked,
    ];
    sentences.extend(outcomes.map(|outcome| words::root(outcome).to_owned()));
    for sentence in sentences {
        assert!(sentence.len() > 10 && sentence.ends_with('.') && !sentence.contains("  "), "{sentence:?}");
    }
}

#[test]
fn the_wait_is_told_in_a_fitting_unit() {
    let (record, zone) = (record("example.com"), zone("Gandi"));
    let evidence = evidence(&record, &zone, Authority::Found, &[]);
    for (ttl, expected) in [
        (0, "a few minutes"),
        (1, "1 second."),
        (90, "90 seconds"),
        (300, "5 minutes"),
        (7200, "2 hours"),
        (86_400, "24 hours"),
    ] {
        let sentence = words::mistake(&Mistake::NotPropagated(ttl), &evidence);
        assert!(sentence.contains(expected), "{sentence}");
    }
}
