//! How a question is asked, and what is counted of it.

use std::collections::BTreeSet;

use portico_dns::{BOUNDS, Outcome, Verdict};
use portico_testkit::DnsFault;

use super::{HOSTS, NAME, VALUE, example, public, record};

#[tokio::test]
async fn every_question_is_asked_as_it_should() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    for _ in 0..20 {
        assert_eq!(dns.look(&record()).await.unwrap().verdict, Verdict::Seen);
    }
    let of_resolvers: Vec<_> = (0..3).flat_map(|at| test.resolver(at).asked()).collect();
    let of_hosts: Vec<_> = HOSTS.iter().flat_map(|host| test.host(host).asked()).collect();
    assert_eq!(of_hosts.len(), 40, "once for each look and host");
    assert!(of_hosts.iter().all(|question| question.name == format!("{NAME}.") && question.kind == "TXT"));
    // Nothing is kept from one look to the next.
    assert_eq!(of_resolvers.iter().filter(|question| question.kind == "TXT").count(), 60);
    for question in of_resolvers.iter().chain(&of_hosts) {
        assert!(question.authentic_data && question.dnssec_ok && !question.checking_disabled, "{question:?}");
        assert_eq!((question.payload, question.tcp), (1232, false), "{question:?}");
    }
    assert!(of_resolvers.iter().all(|question| question.recursion_desired));
    assert!(of_hosts.iter().all(|question| !question.recursion_desired));
    // Whoever forges an answer has both to guess.
    let questions = of_resolvers.len() + of_hosts.len();
    let ids: BTreeSet<_> = of_resolvers.iter().chain(&of_hosts).map(|question| question.id).collect();
    let ports: BTreeSet<_> = of_resolvers.iter().chain(&of_hosts).map(|question| question.port).collect();
    assert!(ids.len() > questions * 9 / 10, "{} ids of {questions}", ids.len());
    assert!(ports.len() > questions * 9 / 10, "{} ports of {questions}", ports.len());
    let (low, high) = (ports.first().unwrap(), ports.last().unwrap());
    assert!(high - low > 20_000, "from {low} to {high}");
}

#[tokio::test]
async fn what_is_cut_is_asked_for_again_over_tcp() {
    let (test, dns) = example(3).await;
    test.set_txt(NAME, &[VALUE]);
    test.resolver(0).fail(DnsFault::Truncation);
    test.host(HOSTS[0]).fail(DnsFault::Truncation);
    let look = dns.look(&record()).await.unwrap();
    assert!(look.answers.iter().all(|answer| answer.outcome == Outcome::Found), "{look:?}");
    for server in [test.resolver(0), test.host(HOSTS[0])] {
        let [first, second] = server.asked_txt().try_into().unwrap();
        assert_eq!((first.tcp, second.tcp), (false, true));
        assert_ne!(first.id, second.id);
        assert_eq!(
            (second.recursion_desired, second.authentic_data, second.dnssec_ok, second.payload),
            (first.recursion_desired, true, true, 1232)
        );
    }
    // Long answers are cut by whoever sends them.
    test.resolver(0).fail(DnsFault::None);
    let values: Vec<_> = (0..30).map(|number| format!("{number:0>100}")).collect();
    let mut values: Vec<_> = values.iter().map(String::as_str).collect();
    values.push(VALUE);
    test.set_txt(NAME, &values);
    let look = dns.look(&record()).await.unwrap();
    assert_eq!((look.verdict, public(&look)), (Verdict::Seen, vec![Outcome::Found; 3]));
    assert!(look.answers.iter().all(|answer| answer.values.len() == 5 && answer.values[0] == VALUE));
    assert!(test.resolver(1).asked_txt().last().unwrap().tcp);
}

/// Pieces are one value, however a panel cut it, and with whatever it put around it.
#[tokio::test]
async fn values_are_read_as_panels_write_them() {
    let (test, dns) = example(1).await;
    for pieces in [
        vec!["portico-veri", "fication=", "", "abc234"],
        vec!["\"portico-verification=abc234\""],
        vec![" abc234 "],
        vec!["PORTICO-VERIFICATION=ABC234"],
    ] {
        test.change(|world| world.set_txt_pieces(NAME, &[vec!["x"], pieces.clone()]));
        assert_eq!(dns.look(&record()).await.unwrap().verdict, Verdict::Seen, "{pieces:?}");
    }
    test.change(|world| world.set_txt_pieces(NAME, &[vec!["portico-verification=", " abc234"]]));
    assert_ne!(dns.look(&record()).await.unwrap().verdict, Verdict::Seen);
}

#[tokio::test]
async fn roots_tell_which_resolvers_answer() {
    let (test, dns) = example(4).await;
    test.resolver(1).fail(DnsFault::Silence);
    test.resolver(2).fail(DnsFault::ServFail);
    test.resolver(3).fail(DnsFault::Refusal);
    test.resolver(0).authenticate(true);
    test.change(|world| world.set_zone(".", &["ns.root.net"]));
    let roots = dns.roots().await;
    let outcomes: Vec<_> = roots.iter().map(|answer| answer.outcome).collect();
    assert_eq!(outcomes, [Outcome::Found, Outcome::Timeout, Outcome::ServFail, Outcome::Error]);
    assert_eq!(roots[0].server, "resolver-0:53");
    assert!(roots[0].authenticated && roots[0].latency_ms > 0 && roots[1].latency_ms == 0);
    assert!(roots.iter().all(|answer| !answer.message.is_empty() && answer.values.is_empty()));
    let asked = test.resolver(0).asked();
    assert_eq!((asked[0].name.as_str(), asked[0].kind.as_str(), asked.len()), (".", "SOA", 1));
}

#[tokio::test]
async fn questions_are_counted_by_server_and_outcome() {
    let (test, dns) = example(2).await;
    test.set_txt(NAME, &[VALUE]);
    dns.look(&record()).await.unwrap();
    test.resolver(1).fail(DnsFault::ServFail);
    dns.look(&record()).await.unwrap();
    let figures = dns.figures();
    let servers: Vec<_> = figures.iter().map(|figures| &*figures.server).collect();
    assert_eq!(servers, ["resolver-0:53", "resolver-1:53", "authoritative"]);
    let asked = [test.resolver(0).asked().len(), test.resolver(1).asked().len(), 2];
    for (figures, asked) in figures.iter().zip(asked) {
        let counted: u64 = figures.questions.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, asked as u64, "{figures:?}");
        assert_eq!(figures.seconds.buckets.iter().sum::<u64>(), counted, "all of them were answered");
        assert!(figures.seconds.sum > 0.0 && figures.seconds.sum < BOUNDS[14] * 100.0);
    }
    let of = |at: usize, outcome| {
        figures[at].questions.iter().find(|(other, _)| *other == outcome).map_or(0, |(_, count)| *count)
    };
    assert_eq!((of(0, Outcome::ServFail), of(2, Outcome::Found)), (0, 2));
    assert!(of(1, Outcome::ServFail) > 0);
    // A host that answers for no family but one.
    assert!(of(0, Outcome::NoRecord) > 0);
}
