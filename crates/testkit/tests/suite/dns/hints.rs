//! The mistakes that people make, each made and named.

use portico_dns::{Authority, Hint, Look, Outcome, Record, Verdict};
use portico_testkit::DnsFault;

use super::{GONE, HOSTS, NAME, OLD_VALUE, VALUE, client, client_at, example, record, record_of_shop};

/// The hint is this one, and its sentence, which names these, stands wherever the record is not found.
fn assert_hint(look: &Look, hint: Hint, names: &[&str]) {
    assert_eq!(look.hint, Some(hint), "{look:?}");
    assert_ne!(look.verdict, Verdict::Seen);
    let mut sentences: Vec<_> = look
        .answers
        .iter()
        .filter(|answer| answer.outcome != Outcome::Found)
        .map(|answer| &answer.message)
        .collect();
    sentences.dedup();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    for name in names {
        assert!(sentences[0].contains(name), "{name}: {}", sentences[0]);
    }
    let found = look.answers.iter().filter(|answer| answer.outcome == Outcome::Found);
    assert!(found.into_iter().all(|answer| answer.message.starts_with("It has the record")));
}

/// The value stands at `wrong` alone: once told by the zone's servers, once by a resolver.
async fn misplaced(record: &Record, wrong: &str, hint: Hint, names: &[&str]) {
    let (test, dns) = example(3).await;
    test.set_txt(wrong, &["v=spf1 -all", VALUE]);
    for dns in [dns, client_at(&test, 0)] {
        let look = dns.look(record).await.unwrap();
        assert_hint(&look, hint, names);
        assert_eq!(look.verdict, GONE);
        test.set_txt(wrong, &["v=spf1 -all"]);
        assert_ne!(dns.look(record).await.unwrap().hint, Some(hint), "what is not the value is no mistake");
        test.set_txt(wrong, &[VALUE]);
    }
}

#[tokio::test]
async fn the_panel_added_the_domain() {
    let wrong = format!("{NAME}.example.com");
    let names = [wrong.as_str(), "only _portico-challenge as the name", "example.net", NAME];
    misplaced(&record(), &wrong, Hint::DoubledName, &names).await;
    let wrong = "_portico-host-challenge.shop.example.com.example.com";
    let names = [wrong, "only _portico-host-challenge.shop as the name"];
    misplaced(&record_of_shop(), wrong, Hint::DoubledName, &names).await;
}

#[tokio::test]
async fn the_value_is_at_the_domain_itself() {
    misplaced(&record(), "example.com", Hint::AtApex, &["at example.com itself", NAME, "example.net"]).await;
    let right = "_portico-host-challenge.shop.example.com";
    misplaced(&record_of_shop(), "shop.example.com", Hint::AtApex, &["at shop.example.com itself", right])
        .await;
}

#[tokio::test]
async fn the_label_is_wrong() {
    for wrong in ["portico-challenge", "_portico-host-challenge", "portico-host-challenge"] {
        let wrong = format!("{wrong}.example.com");
        misplaced(&record(), &wrong, Hint::WrongLabel, &[&wrong, NAME, "example.net"]).await;
    }
    for wrong in ["portico-host-challenge", "_portico-challenge", "portico-challenge"] {
        let wrong = format!("{wrong}.shop.example.com");
        let right = "_portico-host-challenge.shop.example.com";
        misplaced(&record_of_shop(), &wrong, Hint::WrongLabel, &[&wrong, right]).await;
    }
}

#[tokio::test]
async fn a_cname_is_in_the_way() {
    let (test, dns) = example(3).await;
    test.set_txt("below.pages.example.com", &["something"]);
    for target in ["pages.example.com", "nobody.example.org"] {
        for name in [NAME, "*.example.com"] {
            test.change(|world| {
                world.clear(NAME);
                world.set_cname(name, target);
            });
            let look = dns.look(&record()).await.unwrap();
            assert_hint(&look, Hint::CnameInTheWay, &[NAME, target, VALUE, "example.net"]);
            assert_eq!(look.verdict, GONE, "{name} {target}");
        }
    }
}

/// In a circle, or by one more than are followed, though the value stands at the end.
#[tokio::test]
async fn aliases_without_an_end_are_in_the_way() {
    let (test, dns) = example(3).await;
    let sentence = [NAME, "in a circle or too often", VALUE, "example.net"];
    for circle in [&[NAME][..], &[NAME, "a.example.com"]] {
        test.change(|world| {
            for (at, name) in circle.iter().enumerate() {
                world.set_cname(name, circle[(at + 1) % circle.len()]);
            }
        });
        for dns in [&dns, &client_at(&test, 0)] {
            let look = dns.look(&record()).await.unwrap();
            assert_hint(&look, Hint::CnameInTheWay, &sentence);
            assert_eq!(look.verdict, Verdict::Unclear, "{circle:?}");
        }
    }
    test.change(|world| {
        world.set_cname(NAME, "a1.example.com");
        for link in 1..9 {
            world.set_cname(&format!("a{link}.example.com"), &format!("a{}.example.com", link + 1));
        }
        world.set_txt("a9.example.com", &[VALUE]);
    });
    assert_hint(&dns.look(&record()).await.unwrap(), Hint::CnameInTheWay, &sentence);
    // The first of the table is told, here as everywhere.
    test.set_txt("example.com", &[VALUE]);
    assert_hint(&dns.look(&record()).await.unwrap(), Hint::AtApex, &[NAME]);
}

#[tokio::test]
async fn the_value_is_an_old_one() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &["v=spf1 -all", OLD_VALUE]);
    for dns in [dns, client_at(&test, 0)] {
        let look = dns.look(&record()).await.unwrap();
        assert_hint(&look, Hint::StaleValue, &[NAME, OLD_VALUE, VALUE]);
        assert_eq!(look.verdict, Verdict::Gone { other_value: true });
    }
    // Both may stand side by side.
    test.set_txt(NAME, &[VALUE, OLD_VALUE]);
    assert_eq!(client(&test).look(&record()).await.unwrap().verdict, Verdict::Seen);
}

#[tokio::test]
async fn the_resolvers_have_not_heard_of_it() {
    let (test, dns) = example(3).await;
    test.resolver(0).keep(|_| {});
    test.change(|world| world.set_ttl(3600));
    test.set_txt(NAME, &[OLD_VALUE]);
    test.resolver(1).keep(|_| {});
    test.set_txt(NAME, &[VALUE]);
    let look = dns.look(&record()).await.unwrap();
    assert_hint(&look, Hint::NotPropagated, &["Nothing is wrong", "wait up to 60 minutes", "1 of the 2"]);
    assert_eq!((look.verdict, look.found), (Verdict::Unclear, 1));
}

#[tokio::test]
async fn the_signatures_are_broken() {
    // Those that check them say nothing of the zone at all, not even who serves it.
    let (test, dns) = example(4).await;
    test.set_txt(NAME, &[VALUE]);
    for at in 0..4 {
        test.resolver(at).fail(DnsFault::BadSignatures);
    }
    let look = dns.look(&record()).await.unwrap();
    assert_hint(&look, Hint::DnssecBroken, &[NAME, "DNSSEC"]);
    assert_eq!(look.verdict, Verdict::Unclear);
    assert!(test.resolver(0).asked().iter().any(|asked| asked.checking_disabled));
    // Two do not check them, so that the zone's servers are known.
    for at in 0..2 {
        test.resolver(at).fail(DnsFault::None);
    }
    let look = dns.look(&record()).await.unwrap();
    assert_hint(&look, Hint::DnssecBroken, &[NAME, "DNSSEC", "example.net"]);
    // One that fails for another reason is no sign of it.
    for at in 2..4 {
        test.resolver(at).fail(DnsFault::ServFail);
    }
    assert_hint(&dns.look(&record()).await.unwrap(), Hint::NotPropagated, &["2 of the 3"]);
}

/// The zone's servers have the record, and no resolver ever will, however long one waits.
#[tokio::test]
async fn broken_signatures_of_the_record_alone_are_told_before_the_advice_to_wait() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    for at in 0..3 {
        test.resolver(at).fail(DnsFault::BadSignaturesOfTexts);
    }
    let look = dns.look(&record()).await.unwrap();
    assert_hint(&look, Hint::DnssecBroken, &[NAME, "DNSSEC", "example.net"]);
    assert_eq!((look.verdict, look.authority), (Verdict::Unclear, Authority::Found));
    // One resolver is enough to tell it: what it refuses now, others refuse once they forget what they have.
    for at in 0..2 {
        test.resolver(at).keep(|world| world.set_txt(NAME, &[]));
        test.resolver(at).fail(DnsFault::None);
    }
    assert_hint(&dns.look(&record()).await.unwrap(), Hint::DnssecBroken, &["DNSSEC"]);
}

#[tokio::test]
async fn the_domain_does_not_exist() {
    let (test, dns) = example(3).await;
    let look = dns.look(&record_of_shop()).await.unwrap();
    assert_hint(&look, Hint::NoZone, &["shop.example.com does not exist", "example.net"]);
    assert_eq!(look.verdict, GONE);
    test.change(|world| world.remove_zone("example.com"));
    let look = dns.look(&record()).await.unwrap();
    assert_hint(&look, Hint::NoZone, &["example.com does not exist"]);
    assert_eq!((look.verdict, look.zone.provider.as_str()), (GONE, ""));
    assert_eq!(look.asked, 3, "nobody else can say so");
}

/// What a look asks beside the record's own name is little, whatever is wrong.
#[tokio::test]
async fn at_most_six_more_names_are_asked() {
    let (test, _) = example(3).await;
    for port in [test.authoritative_port(), 0] {
        let dns = client_at(&test, port);
        dns.look(&record()).await.unwrap();
        let servers = HOSTS.iter().map(|host| test.host(host)).chain((0..3).map(|at| test.resolver(at)));
        let asked = servers.flat_map(|server| {
            let asked = server.asked_txt();
            server.forget();
            asked
        });
        let others: Vec<_> =
            asked.map(|question| question.name).filter(|name| *name != format!("{NAME}.")).collect();
        assert!((1..=6).contains(&others.len()), "{others:?}");
    }
}
