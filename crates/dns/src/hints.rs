//! Common mistakes, by which a record is not where it should be.

use futures_util::future::{join, join_all};
use hickory_proto::rr::Name;

use crate::dns::{Dns, Server};
use crate::look::ZoneServer;
use crate::time::Instant;
use crate::txt::{Said, Sighting};
use crate::verdict::is_no;
use crate::{Authority, Hint, Outcome, Record, Zone, names, value};

/// What a look has found so far.
pub(crate) struct Evidence<'a> {
    pub(crate) record: &'a Record,
    pub(crate) zone: &'a Zone,
    pub(crate) authority: Authority,
    /// Those of the zone.
    pub(crate) servers: &'a [ZoneServer<'a>],
    /// In their order; empty when they were not asked.
    pub(crate) resolvers: &'a [Sighting],
    /// How many of them have the record.
    pub(crate) found: usize,
    /// How many must.
    pub(crate) needed: usize,
}

/// What was found at other names, and without the check of signatures.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// The value stands below the zone's name once more, at this name.
    pub(crate) doubled: Option<String>,
    /// The value stands at the domain itself.
    pub(crate) at_apex: bool,
    /// The value stands at this name.
    pub(crate) other_label: Option<String>,
    /// The domain does not exist.
    pub(crate) no_domain: bool,
    /// A resolver that fails has the record as soon as it need not check signatures.
    pub(crate) unchecked: bool,
}

/// A mistake, with what its sentence says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// At this name.
    DoubledName(String),
    AtApex,
    /// At this name.
    WrongLabel(String),
    /// It leads there; without an end, where aliases lead in a circle, or on and on.
    CnameInTheWay(Option<String>),
    /// This one.
    StaleValue(String),
    /// For at most so many seconds more.
    NotPropagated(u32),
    DnssecBroken,
    NoZone,
}

impl Mistake {
    pub(crate) const fn hint(&self) -> Hint {
        match self {
            Self::DoubledName(_) => Hint::DoubledName,
            Self::AtApex => Hint::AtApex,
            Self::WrongLabel(_) => Hint::WrongLabel,
            Self::CnameInTheWay(_) => Hint::CnameInTheWay,
            Self::StaleValue(_) => Hint::StaleValue,
            Self::NotPropagated(_) => Hint::NotPropagated,
            Self::DnssecBroken => Hint::DnssecBroken,
            Self::NoZone => Hint::NoZone,
        }
    }
}

impl Evidence<'_> {
    fn sightings(&self) -> impl Iterator<Item = &Sighting> {
        self.servers.iter().map(|server| &server.sighting).chain(self.resolvers)
    }
}

/// Asks for the record at the names where mistakes put it. Where the zone has it at the right one, there is nothing to find.
pub(crate) async fn probe(dns: &Dns, evidence: &Evidence<'_>, apex: &Name, until: Instant) -> Probes {
    let servers = dns.servers();
    let of_zone = evidence.servers.iter().find_map(ZoneServer::speaks).map(|server| (server, Some(apex)));
    let of_resolvers = || {
        let answers = |sighting: &Sighting| is_no(sighting.outcome(evidence.record));
        let at = evidence.resolvers.iter().position(answers)?;
        Some((&servers[at], None))
    };
    let unchecked = unchecked(dns, evidence, until);
    match of_zone.or_else(of_resolvers).filter(|_| evidence.authority != Authority::Found) {
        Some((server, zone)) => {
            let (probes, unchecked) = join(elsewhere(server, zone, evidence, until), unchecked).await;
            Probes { unchecked, ..probes }
        }
        None => Probes { unchecked: unchecked.await, ..Probes::default() },
    }
}

/// Looks at the other names, all at one server.
async fn elsewhere(
    server: &Server<'_>,
    zone: Option<&Name>,
    evidence: &Evidence<'_>,
    until: Instant,
) -> Probes {
    let record = evidence.record;
    let doubled = format!("{}.{}", names::record_name(record), evidence.zone.apex);
    let labels = wrong_labels(record);
    let texts = [&doubled, &record.domain].into_iter().chain(&labels);
    let sightings = texts.map(async |text| match names::read(text) {
        Some(name) => server.txt(&name, zone, false, until).await,
        // Nothing can be there.
        None => Sighting::unanswered(Said::NoRecord),
    });
    let sightings = join_all(sightings).await;
    let proves = |at: usize| sightings[at].proves(record);
    Probes {
        doubled: proves(0).then_some(doubled),
        at_apex: proves(1),
        other_label: labels.into_iter().enumerate().find(|(at, _)| proves(at + 2)).map(|(_, name)| name),
        no_domain: sightings[1].said == Said::NxDomain && sightings[1].alias.is_none(),
        unchecked: false,
    }
}

/// The label without its underscore, and that of the other scope with and without.
fn wrong_labels(record: &Record) -> Vec<String> {
    let plain = |label: &str| label.trim_start_matches('_').to_owned();
    let mut labels = vec![plain(&record.label), record.other_label.clone(), plain(&record.other_label)];
    labels.retain(|label| *label != record.label && !label.is_empty());
    labels.into_iter().map(|label| names::under(&label, record)).collect()
}

/// Has a resolver that fails the record, if it need not check signatures? One that fails for another reason fails again.
async fn unchecked(dns: &Dns, evidence: &Evidence<'_>, until: Instant) -> bool {
    let Some(name) = names::read(&names::record_name(evidence.record)) else { return false };
    let servers = dns.servers();
    let failing =
        servers.iter().zip(evidence.resolvers).filter(|(_, checked)| checked.said == Said::ServFail);
    let sightings = join_all(failing.map(|(server, _)| server.txt(&name, None, true, until))).await;
    sightings.iter().any(|sighting| sighting.proves(evidence.record))
}

/// The first mistake of the table that was found.
pub(crate) fn first(evidence: &Evidence<'_>, probes: &Probes) -> Option<Mistake> {
    // Where the zone has the record at its name, what else stands there or elsewhere is no mistake.
    let misplaced = if evidence.authority == Authority::Found {
        None
    } else {
        let doubled = probes.doubled.clone().map(Mistake::DoubledName);
        let at_apex = || probes.at_apex.then_some(Mistake::AtApex);
        let wrong_label = || probes.other_label.clone().map(Mistake::WrongLabel);
        let at_name = || cname_in_the_way(evidence).or_else(|| stale_value(evidence));
        doubled.or_else(at_apex).or_else(wrong_label).or_else(at_name)
    };
    // To wait does not help against broken signatures, so that they are told before the advice to wait.
    let broken = || probes.unchecked.then_some(Mistake::DnssecBroken);
    let no_zone = || probes.no_domain.then_some(Mistake::NoZone);
    misplaced.or_else(broken).or_else(|| not_propagated(evidence)).or_else(no_zone)
}

fn cname_in_the_way(evidence: &Evidence<'_>) -> Option<Mistake> {
    evidence.sightings().find_map(|sighting| {
        let end = sighting.alias.as_ref()?;
        match sighting.said {
            Said::NoRecord | Said::NxDomain => Some(Mistake::CnameInTheWay(Some(names::write(end)))),
            Said::TooManyLinks => Some(Mistake::CnameInTheWay(None)),
            _ => None,
        }
    })
}

fn stale_value(evidence: &Evidence<'_>) -> Option<Mistake> {
    let record = evidence.record;
    let others = evidence.sightings().filter(|sighting| sighting.outcome(record) == Outcome::OtherValue);
    let mut values = others.flat_map(|sighting| value::shown(record, &sighting.values));
    values.find(|text| value::is_of_kind(record, text)).map(Mistake::StaleValue)
}

fn not_propagated(evidence: &Evidence<'_>) -> Option<Mistake> {
    let waits = evidence.authority == Authority::Found && evidence.found < evidence.needed;
    let others = evidence.resolvers.iter().filter(|sighting| is_no(sighting.outcome(evidence.record)));
    waits.then(|| Mistake::NotPropagated(others.map(|sighting| sighting.ttl).max().unwrap_or_default()))
}
