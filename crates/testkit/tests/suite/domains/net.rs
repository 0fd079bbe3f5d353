//! Names and records, as the resolvers of a story see them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use portico::DnsSettings;
use portico_dns::{Resolver, Settings};
use portico_testkit::{DnsFault, NameServer, Provider, TestAppOptions, TestDns, until};
use serde_json::Value;

use super::text;
use crate::connections;

/// How a resolver sees a name otherwise than it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum View {
    /// As if it had no record.
    Without,
    /// Not at all, like every other name.
    ServFail,
}

/// Shorter than a resolver is waited for, and longer than a few calls take.
const HOLD: Duration = Duration::from_millis(900);

/// Resolvers, the servers of zones, and what was published.
pub(crate) struct Net {
    dns: TestDns,
    count: usize,
    published: Mutex<BTreeMap<String, Vec<String>>>,
    /// What connections lead to.
    pub(crate) provider: Provider,
}

impl Net {
    /// So many resolvers, which know of no zone.
    pub(crate) async fn start(count: usize) -> Self {
        let (dns, provider) = (TestDns::start(count).await, Provider::start().await);
        Self { dns, count, published: Mutex::default(), provider }
    }

    /// The resolvers as the configuration names them.
    pub(crate) fn resolvers(&self) -> String {
        self.dns.resolvers().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The port of the servers of zones.
    pub(crate) fn authoritative_port(&self) -> u16 {
        self.dns.authoritative_port()
    }

    /// A platform that asks them.
    pub(crate) fn options(&self) -> TestAppOptions {
        let named = |address: std::net::SocketAddr| Resolver { name: address.to_string(), address };
        let resolvers = self.dns.resolvers().into_iter().map(named).collect();
        let settings = Settings { resolvers, authoritative_port: self.dns.authoritative_port() };
        let mut options = connections::options(&self.provider);
        options.environment.dns = DnsSettings(settings);
        options
    }

    fn each(&self) -> impl Iterator<Item = &NameServer> {
        (0..self.count).map(|at| self.dns.resolver(at))
    }

    /// A zone of these name servers, whose addresses are known or not.
    pub(crate) fn zone(&self, apex: &str, hosts: &[&str], reached: bool) {
        if reached {
            self.dns.serve(apex, hosts);
        } else {
            self.dns.change(|world| world.set_zone(apex, hosts));
        }
    }

    /// Lets these be all TXT records of the name.
    pub(crate) fn txt(&self, name: &str, values: &[&str]) {
        let kept = values.iter().map(|value| (*value).to_owned()).collect();
        self.published.lock().unwrap().insert(name.to_owned(), kept);
        self.dns.set_txt(name, values);
    }

    /// Adds the record that a domain asks for to those at its name.
    pub(crate) fn publish(&self, domain: &Value) {
        let (name, value) = (text(&domain["record_name"]), text(&domain["record_value"]));
        let mut values = self.published.lock().unwrap().get(&name).cloned().unwrap_or_default();
        values.push(value);
        values.dedup();
        let values: Vec<_> = values.iter().map(String::as_str).collect();
        self.txt(&name, &values);
    }

    /// Takes all records of the name away.
    pub(crate) fn lose(&self, name: &str) {
        self.txt(name, &[]);
    }

    /// Lets one resolver see it otherwise than it is at this moment.
    pub(crate) fn see(&self, at: usize, name: &str, view: View) {
        match view {
            View::Without => self.dns.resolver(at).keep(|world| world.set_txt(name, &[])),
            View::ServFail => self.dns.resolver(at).fail(DnsFault::ServFail),
        }
    }

    /// Lets something be wrong with every resolver.
    pub(crate) fn fail(&self, fault: DnsFault) {
        self.each().for_each(|resolver| resolver.fail(fault));
    }

    /// Lets every resolver see what there is.
    pub(crate) fn clear(&self) {
        for resolver in self.each() {
            resolver.fail(DnsFault::None);
            resolver.follow();
        }
    }

    /// Forgets what resolvers were asked.
    pub(crate) fn forget(&self) {
        self.each().for_each(NameServer::forget);
    }

    /// Of how many of these names, or of what is under them, a resolver was asked for anything.
    pub(crate) fn asked_of(&self, names: &[String]) -> usize {
        let asked: Vec<_> = self.dns.resolver(0).asked().into_iter().map(|each| each.name).collect();
        let is_asked = |name: &&String| asked.iter().any(|each| each.trim_end_matches('.').ends_with(*name));
        names.iter().filter(is_asked).count()
    }

    /// Lets all answers wait as long as [`Net::hold`] does, or none.
    pub(crate) fn slow(&self, is_slow: bool) {
        self.each().for_each(|resolver| resolver.delay(if is_slow { HOLD } else { Duration::ZERO }));
    }

    /// How often resolvers were asked for the records of the name.
    pub(crate) fn asked_resolvers(&self, name: &str) -> usize {
        let is_for = |asked: &str| asked.trim_end_matches('.').eq_ignore_ascii_case(name);
        let asked =
            |resolver: &NameServer| resolver.asked_txt().iter().filter(|each| is_for(&each.name)).count();
        self.each().map(asked).sum()
    }

    /// Lets the questions that come next wait for their answers, and those after [`Net::held`] not.
    pub(crate) fn hold(&self) {
        for resolver in self.each() {
            resolver.forget();
            resolver.delay(HOLD);
        }
    }

    /// Waits until every resolver was asked for the records of the name, and has not answered yet.
    pub(crate) async fn held(&self, name: &str) {
        until("the resolvers are asked", async || self.asked_resolvers(name) >= self.count).await;
        self.each().for_each(|resolver| resolver.delay(Duration::ZERO));
    }
}

impl Net {
    /// How many questions resolvers are asked meanwhile.
    pub(crate) async fn asked_while<T>(&self, work: impl Future<Output = T>) -> usize {
        self.each().for_each(NameServer::forget);
        work.await;
        self.each().map(|resolver| resolver.asked().len()).sum()
    }
}
