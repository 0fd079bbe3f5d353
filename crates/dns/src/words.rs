//! What answers and mistakes mean, in sentences for a person.

use crate::hints::{Evidence, Mistake};
use crate::names::{in_panel, record_name, write};
use crate::txt::{Said, Sighting};
use crate::{Outcome, ServerKind};

/// Of a record for whose name DNS has no room.
pub(crate) const NO_NAME: &str = "It was not asked, because the record's name is longer than DNS allows.";

/// What a resolver's answer to the question for the root means.
pub(crate) const fn root(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Found | Outcome::OtherValue => "It answers.",
        Outcome::Timeout | Outcome::Blocked | Outcome::NotAsked => {
            "It did not answer in time, or was not reached."
        }
        Outcome::ServFail => "It answers that it failed (SERVFAIL).",
        Outcome::NoRecord | Outcome::NxDomain | Outcome::Error => {
            "It answers, but it does not know the root."
        }
    }
}

/// What an answer means.
pub(crate) fn outcome(
    outcome: Outcome,
    kind: ServerKind,
    sighting: Option<&Sighting>,
    evidence: &Evidence<'_>,
) -> String {
    let name = record_name(evidence.record);
    let alias = sighting.and_then(|sighting| sighting.alias.as_ref()).map(write);
    // Where the answer stands: at the name itself, or where it leads.
    let at = match &alias {
        Some(target) => format!("{name}, which is an alias (CNAME) of {target},"),
        None => name,
    };
    match outcome {
        Outcome::Found if sighting.is_some_and(|sighting| sighting.authenticated) => {
            "It has the record, and the signatures of the zone are right.".to_owned()
        }
        Outcome::Found => "It has the record.".to_owned(),
        Outcome::OtherValue => format!("At {at} it has other TXT records, but not this value."),
        Outcome::NoRecord => format!("It says that {at} has no TXT record."),
        Outcome::NxDomain if alias.is_some() => format!("It says that {at} leads to a name that does not exist."),
        Outcome::NxDomain => format!("It says that {at} does not exist."),
        Outcome::ServFail if kind == ServerKind::Public => {
            "It could not find out (SERVFAIL): it does not reach the zone's servers, or their answers are wrong.".to_owned()
        }
        Outcome::ServFail => "It failed (SERVFAIL), though it is a server of the zone.".to_owned(),
        Outcome::Timeout => "It did not answer in time, or was not reached.".to_owned(),
        Outcome::Blocked => "It was not asked, because its address does not belong to the public internet.".to_owned(),
        Outcome::NotAsked => "It was not asked, because the zone's own servers do not have the record: it would remember that \
             there is none."
            .to_owned(),
        Outcome::Error => error(sighting.map(|sighting| sighting.said), &at),
    }
}

fn error(said: Option<Said>, at: &str) -> String {
    match said {
        Some(Said::Elsewhere) => format!("It leaves the answer to others, since {at} leads out of the zone."),
        Some(Said::NotAuthoritative) => {
            "It is named as a server of the zone, but does not speak for it.".to_owned()
        }
        Some(Said::TooManyLinks) => {
            "The record's name is an alias (CNAME) of an alias, and so on, too often.".to_owned()
        }
        Some(Said::Code(code)) => format!("It refused the question ({code})."),
        _ => "What it sent is no answer to the question.".to_owned(),
    }
}

/// What is wrong, and what to do.
pub(crate) fn mistake(mistake: &Mistake, evidence: &Evidence<'_>) -> String {
    let record = evidence.record;
    let (name, domain) = (record_name(record), &record.domain);
    let value = format!("{}={}", record.key, record.token);
    let host = in_panel(&name, &evidence.zone.apex);
    let provider = &evidence.zone.provider;
    let (panel, at_provider) = if provider.is_empty() {
        ("The panel of your DNS provider".to_owned(), "at your DNS provider".to_owned())
    } else {
        (format!("The panel of {provider}"), format!("at {provider}"))
    };
    match mistake {
        Mistake::DoubledName(wrong) => format!(
            "The record is at {wrong}. {panel} adds the domain by itself: enter only {host} as the name there, so that the \
             record is at {name}."
        ),
        Mistake::AtApex => format!(
            "The record is at {domain} itself. Move it to {name}: {at_provider}, enter {host} as its name instead of {domain} or @."
        ),
        Mistake::WrongLabel(wrong) => {
            format!("The record is at {wrong}. Move it to {name}: {at_provider}, enter {host} as its name.")
        }
        Mistake::CnameInTheWay(end) => format!(
            "At {name} is a CNAME that leads to {end}. A CNAME leaves room for nothing else: \
             remove it {at_provider}, and add the TXT record with the value {value}.",
            end = match end {
                Some(target) => format!("{target}, where there is no TXT record"),
                None => "another one, and so on, in a circle or too often".to_owned(),
            },
        ),
        Mistake::StaleValue(wrong) => format!(
            "At {name} is {wrong}, which is an earlier token, or another account's. Add {value} {at_provider}."
        ),
        Mistake::NotPropagated(ttl) => format!(
            "The zone's own servers have the record{by}, and {found} of the {needed} resolvers that must have it. Nothing is wrong: \
             {wait}.",
            by = if provider.is_empty() { String::new() } else { format!(" {at_provider}") },
            found = evidence.found,
            needed = evidence.needed,
            wait = wait(*ttl),
        ),
        Mistake::DnssecBroken => format!(
            "The record is at {name}, but the signatures of the zone (DNSSEC) are broken, so that resolvers refuse it. Renew the \
             signatures {at_provider}, or correct the DS record at the registrar."
        ),
        Mistake::NoZone => format!(
            "{domain} does not exist in DNS: it is not registered, or misspelt{}.",
            if provider.is_empty() {
                String::new()
            } else {
                format!(" (the zone above it is {at_provider})")
            }
        ),
    }
}

/// How long to wait.
fn wait(seconds: u32) -> String {
    match seconds {
        0 => "wait a few minutes".to_owned(),
        1 => "wait up to 1 second".to_owned(),
        2..=119 => format!("wait up to {seconds} seconds"),
        120..=7199 => format!("wait up to {} minutes", seconds.div_ceil(60)),
        _ => format!("wait up to {} hours", seconds.div_ceil(3600)),
    }
}
