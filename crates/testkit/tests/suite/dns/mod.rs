//! Looks for records, at name servers that run here.

mod hints;
mod looks;
mod questions;
mod zones;

use std::time::Duration;

use portico_dns::{Answer, Dns, Look, Outcome, Record, Resolver, ServerKind, Settings};
use portico_testkit::TestDns;

const VALUE: &str = "portico-verification=abc234";
const OLD_VALUE: &str = "portico-verification=old";
const NAME: &str = "_portico-challenge.example.com";
const HOSTS: [&str; 2] = ["ns1.example.net", "ns2.example.net"];
const GONE: portico_dns::Verdict = portico_dns::Verdict::Gone { other_value: false };

/// Asks the resolvers of `test`, and servers of zones in the network of this machine alone.
fn client(test: &TestDns) -> Dns {
    client_at(test, test.authoritative_port())
}

/// The same, with servers of zones at another port.
fn client_at(test: &TestDns, authoritative_port: u16) -> Dns {
    let resolver = |(number, address)| Resolver { name: format!("resolver-{number}:53"), address };
    let resolvers = test.resolvers().into_iter().enumerate().map(resolver).collect();
    Dns::new(Settings { resolvers, authoritative_port }, "127.0.0.0/8".parse().unwrap())
}

/// So many resolvers, and `example.com` at two hosts, without a record.
async fn example(resolvers: usize) -> (TestDns, Dns) {
    let test = TestDns::start(resolvers).await;
    test.serve("example.com", &HOSTS);
    let dns = client(&test);
    (test, dns)
}

fn record() -> Record {
    Record {
        domain: "example.com".to_owned(),
        registrable: "example.com".to_owned(),
        label: "_portico-challenge".to_owned(),
        other_label: "_portico-host-challenge".to_owned(),
        key: "portico-verification".to_owned(),
        token: "abc234".to_owned(),
    }
}

/// The record of `shop.example.com`, for that host alone.
fn record_of_shop() -> Record {
    Record {
        domain: "shop.example.com".to_owned(),
        label: "_portico-host-challenge".to_owned(),
        other_label: "_portico-challenge".to_owned(),
        ..record()
    }
}

/// What came of the questions to servers of this kind.
fn outcomes(look: &Look, kind: ServerKind) -> Vec<Outcome> {
    answers(look, kind).map(|answer| answer.outcome).collect()
}

fn answers(look: &Look, kind: ServerKind) -> impl Iterator<Item = &Answer> {
    look.answers.iter().filter(move |answer| answer.kind == kind)
}

fn public(look: &Look) -> Vec<Outcome> {
    outcomes(look, ServerKind::Public)
}

fn authoritative(look: &Look) -> Vec<Outcome> {
    outcomes(look, ServerKind::Authoritative)
}

/// What a look may take, and a little for a machine that is busy.
const LOOK_TIME: Duration = Duration::from_secs(11);
