//! Who serves a zone, as far as resolvers agree.
//!
//! What leads to the zone's own servers is believed only when two resolvers say so, since those servers have the last word of
//! a record's absence: one resolver that lies could otherwise send us to a server of its own.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, Record as DnsRecord, RecordType};
use portico_egress::Networks;

use crate::dns::{Dns, Server};
use crate::question::Failure;
use crate::time::{Instant, now};
use crate::verdict::{agreed, agreement, quorum};
use crate::{Zone, names, providers};

/// How long the way to a zone may take.
pub(crate) const TIME: Duration = Duration::from_millis(2500);
/// How long a quorum is waited for after there is agreement.
const GRACE: Duration = Duration::from_millis(400);
/// How many names are tried for the zone's start, before its likely one.
const STEPS_MAX: usize = 4;
/// How many name servers are taken note of; more are nobody's.
const HOSTS_MAX: usize = 32;
/// How many of them are asked.
const ASKED_MAX: usize = 4;

/// Who serves a zone.
pub(crate) struct Survey {
    /// In words.
    pub(crate) zone: Zone,
    /// Where it begins.
    pub(crate) apex: Name,
    /// Those of its servers that are asked.
    pub(crate) asked: Vec<Name>,
    /// Did any resolver answer, whatever it said?
    pub(crate) heard: bool,
}

/// What resolvers say together.
struct Said<T> {
    /// What enough of them say.
    agreed: Vec<T>,
    /// Did any of them answer, whatever it said?
    heard: bool,
}

/// Where a server of a zone can be reached.
pub(crate) enum Way<'a> {
    /// Here.
    Open(Server<'a>),
    /// It may not be called.
    Blocked,
    /// Nobody knows.
    Unknown,
}

impl Dns {
    /// The zone of `domain`, as far as it is found by `until`.
    pub(crate) async fn survey(&self, domain: &Name, registrable: &Name, until: Instant) -> Survey {
        let (apex, heard) = self.apex(domain, registrable, until).await;
        let said = self.ask_all(&apex, RecordType::NS, until, |reply| hosts(reply, &apex)).await;
        let (mut hosts, heard) = (said.agreed, heard || said.heard);
        hosts.truncate(HOSTS_MAX);
        let name_servers: Vec<_> = hosts.iter().map(names::write).collect();
        let provider = providers::provider(&name_servers);
        hosts.truncate(ASKED_MAX);
        let zone = Zone { apex: names::write(&apex), name_servers, provider };
        Survey { zone, apex, asked: hosts, heard }
    }

    /// Where the zone begins: at the domain or above, below the registry. And did any resolver answer?
    async fn apex(&self, domain: &Name, registrable: &Name, until: Instant) -> (Name, bool) {
        let highest = names::highest(registrable);
        let (mut at, mut heard) = (domain.clone(), false);
        for _ in 0..STEPS_MAX {
            let read = |reply: &Message| start(reply, &at, &highest);
            let mut said = self.ask_all(&at, RecordType::SOA, until, read).await;
            heard |= said.heard;
            if let Some(apex) = said.agreed.pop() {
                return (apex, heard);
            }
            if at == highest || at.is_root() {
                break;
            }
            at = at.base_name();
        }
        (registrable.clone(), heard)
    }

    /// The way to a server of a zone.
    pub(crate) async fn way(&self, host: &Name, until: Instant) -> Way<'_> {
        let addresses = |kind| self.ask_all(host, kind, until, addresses);
        let (v4, v6) = join(addresses(RecordType::A), addresses(RecordType::AAAA)).await;
        // The older family first, since not every machine has the other.
        let found: Vec<IpAddr> = v4.agreed.into_iter().chain(v6.agreed).collect();
        if found.is_empty() {
            return Way::Unknown;
        }
        if !may_be_asked(&found, &self.allow) {
            self.count_blocked();
            return Way::Blocked;
        }
        let address = |ip: IpAddr| SocketAddr::new(ip.to_canonical(), self.authoritative_port);
        let addresses = found.into_iter().map(address).collect();
        Way::Open(Server { addresses, recursion: false, counters: &self.authoritative })
    }

    /// Asks all resolvers at once, and returns what enough of them say. Once they agree, be it that there is nothing, those who are
    /// slow are waited for a little, and for none beyond a quorum.
    async fn ask_all<T: Ord + Clone>(
        &self,
        name: &Name,
        kind: RecordType,
        mut until: Instant,
        read: impl Fn(&Message) -> Vec<T>,
    ) -> Said<T> {
        let servers = self.servers();
        let (quorum, agreement) = (quorum(servers.len()), agreement(servers.len()));
        let mut pending: FuturesUnordered<_> =
            servers.iter().map(|server| server.ask(name, kind, false)).collect();
        let (mut heard, mut replied, mut ballots) = (false, 0, Vec::new());
        while let Ok(Some(reply)) = tokio::time::timeout_at(until, pending.next()).await {
            heard |= !matches!(reply, Err(Failure::Timeout));
            let Ok(reply) = reply else { continue };
            replied += 1;
            if matches!(reply.metadata.response_code, ResponseCode::NoError | ResponseCode::NXDomain) {
                ballots.push(read(&reply));
            }
            let nothing = ballots.iter().filter(|ballot| ballot.is_empty()).count();
            if nothing >= agreement || !agreed(ballots.clone(), agreement).is_empty() {
                if replied >= quorum {
                    break;
                }
                until = until.min(now() + GRACE);
            }
        }
        Said { agreed: agreed(ballots, agreement), heard }
    }
}

/// All addresses must be public or allowed: one that is not shows what the name is for.
fn may_be_asked(found: &[IpAddr], allow: &Networks) -> bool {
    found.iter().all(|address| allow.permits(*address))
}

/// The start of the zone that `at` is in. It comes with a no, too.
fn start(reply: &Message, at: &Name, highest: &Name) -> Vec<Name> {
    let is_start = |record: &&DnsRecord| {
        record.record_type() == RecordType::SOA && record.name.zone_of(at) && highest.zone_of(&record.name)
    };
    let found = reply.answers.iter().chain(&reply.authorities).find(is_start);
    found.map(|record| record.name.to_lowercase()).into_iter().collect()
}

/// The name servers of the zone at `apex`.
fn hosts(reply: &Message, apex: &Name) -> Vec<Name> {
    let of_apex = reply.answers.iter().filter(|record| record.name == *apex);
    of_apex
        .filter_map(|record| match &record.data {
            RData::NS(host) => Some(host.0.to_lowercase()),
            _ => None,
        })
        .collect()
}

fn addresses(reply: &Message) -> Vec<IpAddr> {
    reply.answers.iter().filter_map(|record| record.data.ip_addr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_of_the_inside_blocks_a_server() {
        let allowed = |found: &[&str], allow: &str| {
            let found: Vec<IpAddr> = found.iter().map(|address| address.parse().unwrap()).collect();
            may_be_asked(&found, &allow.parse().unwrap())
        };
        assert!(allowed(&["1.1.1.1", "2606:4700::1"], ""));
        assert!(allowed(&["1.1.1.1", "10.0.0.1"], "10.0.0.0/8"));
        for inside in ["127.0.0.1", "::1", "169.254.169.254", "::ffff:10.0.0.1", "0.0.0.0"] {
            assert!(!allowed(&["1.1.1.1", inside], "192.168.0.0/16"), "{inside}");
        }
    }
}
