//! One look: the zone's own servers, then all resolvers, then what could be wrong.
//!
//! The resolvers are not asked where the zone's servers say that the record is not there. They would remember its absence, and
//! go on saying so after it was added.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;
use hickory_proto::rr::Name;

use crate::dns::{Dns, Server};
use crate::hints::{Evidence, Mistake};
use crate::names::Names;
use crate::time::{Instant, now};
use crate::txt::{Said, Sighting};
use crate::verdict::{authority, quorum, verdict};
use crate::zone::{self, Survey, Way};
use crate::{
    Answer, Authority, Look, Outcome, Record, ServerKind, Verdict, Zone, hints, names, value, words,
};

/// Until when after its beginning each part of a look may take. The resolvers have time for all their tries, whatever was before.
const WAYS: Duration = Duration::from_millis(3500);
const SERVERS: Duration = Duration::from_millis(5500);
const RESOLVERS: Duration = Duration::from_millis(9500);
const ALL: Duration = Duration::from_secs(10);

/// A server of the zone, and what it shows.
pub(crate) struct ZoneServer<'a> {
    /// Its name.
    host: String,
    /// `None` when it could not be asked.
    server: Option<Server<'a>>,
    pub(crate) sighting: Sighting,
}

pub(crate) async fn look(dns: &Dns, record: &Record) -> Look {
    let Some(names) = Names::of(record) else { return without_names(dns) };
    let begun = now();
    let survey = dns.survey(&names.domain, &names.registrable, begun + zone::TIME).await;
    let (servers, resolvers) = ask(dns, record, &names, &survey, begun).await;
    let said: Vec<_> = servers.iter().map(|server| server.sighting.outcome(record)).collect();
    let leads_elsewhere = servers.iter().any(|server| server.sighting.said == Said::Elsewhere);
    let authority = authority(&said, leads_elsewhere);
    let outcomes: Vec<_> = match &resolvers {
        Some(sightings) => sightings.iter().map(|sighting| sighting.outcome(record)).collect(),
        None => vec![Outcome::NotAsked; dns.resolvers.len()],
    };
    let verdict = verdict(authority, &said, &outcomes, survey.heard);
    let evidence = Evidence {
        record,
        zone: &survey.zone,
        authority,
        servers: &servers,
        resolvers: resolvers.as_deref().unwrap_or_default(),
        found: outcomes.iter().filter(|outcome| **outcome == Outcome::Found).count(),
        needed: quorum(outcomes.len()),
    };
    let mistake = match verdict {
        Verdict::Seen | Verdict::Unreachable => None,
        Verdict::Gone { .. } | Verdict::Unclear => {
            let probes = hints::probe(dns, &evidence, &survey.apex, begun + ALL).await;
            hints::first(&evidence, &probes)
        }
    };
    let answers = answers(dns, &evidence, mistake.as_ref());
    Look {
        verdict,
        authority,
        answers,
        hint: mistake.as_ref().map(Mistake::hint),
        found: evidence.found,
        needed: evidence.needed,
        asked: if resolvers.is_some() { dns.resolvers.len() } else { 0 },
        zone: survey.zone.clone(),
    }
}

/// Asks the zone's servers, and the resolvers as soon as one of those has the record, or once none says that it is not there.
async fn ask<'a>(
    dns: &'a Dns,
    record: &Record,
    names: &Names,
    survey: &Survey,
    begun: Instant,
) -> (Vec<ZoneServer<'a>>, Option<Vec<Sighting>>) {
    let mut pending = FuturesUnordered::new();
    if dns.authoritative_port != 0 {
        pending.extend(survey.asked.iter().map(|host| ask_server(dns, names, &survey.apex, host, begun)));
    }
    let mut servers = Vec::new();
    while let Some(server) = pending.next().await {
        let found = server.sighting.outcome(record) == Outcome::Found;
        servers.push(server);
        if found {
            break;
        }
    }
    let said: Vec<_> = servers.iter().map(|server| server.sighting.outcome(record)).collect();
    let leads_elsewhere = servers.iter().any(|server| server.sighting.said == Said::Elsewhere);
    let resolvers = if authority(&said, leads_elsewhere) == Authority::Lacking {
        None
    } else {
        let rest = async {
            while let Some(server) = pending.next().await {
                servers.push(server);
            }
        };
        let ((), sightings) = join(rest, ask_resolvers(dns, &names.record, begun + RESOLVERS)).await;
        Some(sightings)
    };
    servers.sort_by(|one, other| one.host.cmp(&other.host));
    (servers, resolvers)
}

async fn ask_server<'a>(
    dns: &'a Dns,
    names: &Names,
    apex: &Name,
    host: &Name,
    begun: Instant,
) -> ZoneServer<'a> {
    let (server, sighting) = match dns.way(host, begun + WAYS).await {
        Way::Open(server) => {
            let sighting = server.txt(&names.record, Some(apex), false, begun + SERVERS).await;
            (Some(server), sighting)
        }
        Way::Blocked => (None, Sighting::unanswered(Said::Blocked)),
        Way::Unknown => (None, Sighting::unanswered(Said::Timeout)),
    };
    ZoneServer { host: names::write(host), server, sighting }
}

/// All resolvers at once, in their order.
async fn ask_resolvers(dns: &Dns, name: &Name, until: Instant) -> Vec<Sighting> {
    let servers = dns.servers();
    join_all(servers.iter().map(|server| server.txt(name, None, false, until))).await
}

impl<'a> ZoneServer<'a> {
    /// The way to it, if it speaks for the zone.
    pub(crate) fn speaks(&self) -> Option<&Server<'a>> {
        let speaks = matches!(
            self.sighting.said,
            Said::Values | Said::NoRecord | Said::NxDomain | Said::Elsewhere | Said::TooManyLinks
        );
        self.server.as_ref().filter(|_| speaks)
    }
}

/// The resolvers in their order, then the zone's servers. The sentence of a mistake stands where the record is not found.
fn answers(dns: &Dns, evidence: &Evidence<'_>, mistake: Option<&Mistake>) -> Vec<Answer> {
    let record = evidence.record;
    let hint = mistake.map(|mistake| words::mistake(mistake, evidence));
    let answer = |server: &str, kind, sighting: Option<&Sighting>| {
        let outcome = sighting.map_or(Outcome::NotAsked, |sighting| sighting.outcome(record));
        let message = match &hint {
            Some(hint) if outcome != Outcome::Found => hint.clone(),
            _ => words::outcome(outcome, kind, sighting, evidence),
        };
        Answer {
            server: server.to_owned(),
            kind,
            outcome,
            values: sighting.map(|sighting| value::shown(record, &sighting.values)).unwrap_or_default(),
            authenticated: sighting.is_some_and(|sighting| sighting.authenticated),
            ttl: sighting.map_or(0, |sighting| sighting.ttl),
            latency_ms: sighting.and_then(|sighting| sighting.latency).map_or(0, milliseconds),
            message,
        }
    };
    let public = dns
        .resolvers
        .iter()
        .enumerate()
        .map(|(at, resolver)| answer(&resolver.name, ServerKind::Public, evidence.resolvers.get(at)));
    let authoritative = evidence
        .servers
        .iter()
        .map(|server| answer(&server.host, ServerKind::Authoritative, Some(&server.sighting)));
    public.chain(authoritative).collect()
}

/// Rounded up, since 0 stands for no answer.
pub(crate) fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// A look for a record for whose name DNS has no room.
fn without_names(dns: &Dns) -> Look {
    let answer = |resolver: &crate::Resolver| Answer {
        server: resolver.name.clone(),
        kind: ServerKind::Public,
        outcome: Outcome::NotAsked,
        values: Vec::new(),
        authenticated: false,
        ttl: 0,
        latency_ms: 0,
        message: words::NO_NAME.to_owned(),
    };
    Look {
        verdict: Verdict::Unclear,
        authority: Authority::NotReached,
        zone: Zone::default(),
        answers: dns.resolvers.iter().map(answer).collect(),
        hint: None,
        found: 0,
        needed: quorum(dns.resolvers.len()),
        asked: 0,
    }
}
