//! A domain, and what resolvers see of its record, as the API has them.

use portico_dns::{Answer, Look, Outcome, ServerKind};
use portico_kernel::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::Status;
use crate::names::Scope;
use crate::sql::DomainRow;

/// What stands before the `=` of the value of every record.
pub(crate) const VALUE_KEY: &str = "portico-verification";

/// A domain of an account. Every field is always there, and empty where it has no value.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the API names the field so")]
pub(crate) struct Domain {
    /// The name, as A-labels.
    domain: String,
    /// What it covers beside its own name is every name under it.
    scope: Scope,
    /// How it stands.
    status: Status,
    /// The name of the TXT record to publish.
    record_name: String,
    /// Its value. The record must stay.
    record_value: String,
    /// Who serves its DNS; empty where that was not found out.
    dns_provider: String,
    /// When the record was given out.
    created_at: Timestamp,
    /// When it was verified; empty for never.
    verified_at: String,
    /// When the record was last looked for; empty for never.
    last_checked_at: String,
    /// Until when a new proof with it is accepted.
    expires_at: Timestamp,
    /// Why it is not verified any more, or soon will not be: empty, `token_expired`, `record_missing`, `record_changed`,
    /// `unresolvable` or `transferred`.
    unverified_reason: String,
}

/// The name of the record of a domain.
pub(crate) fn record_name(scope: Scope, name: &str) -> String {
    format!("{}.{name}", scope.record_label())
}

/// A time as the API has it: empty when there is none.
fn optional(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

impl From<DomainRow> for Domain {
    fn from(row: DomainRow) -> Self {
        Self {
            record_name: record_name(row.scope, &row.name),
            record_value: format!("{VALUE_KEY}={}", row.token),
            domain: row.name,
            scope: row.scope,
            status: row.status,
            dns_provider: row.dns_provider,
            created_at: row.created_at,
            verified_at: optional(row.verified_at),
            last_checked_at: optional(row.last_checked_at),
            expires_at: row.expires_at,
            unverified_reason: row.unverified_reason.name().to_owned(),
        }
    }
}

/// An answer that is one domain.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OneDomain {
    /// The domain.
    domain: Domain,
}

impl From<DomainRow> for OneDomain {
    fn from(row: DomainRow) -> Self {
        Self { domain: row.into() }
    }
}

/// What one server says of the record.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ResolverView {
    /// A resolver as `host:port`, or the name of one of the zone's own servers.
    resolver: String,
    /// `public` for a resolver, `authoritative` for a server of the zone.
    kind: &'static str,
    /// `found`, `other_value`, `no_record`, `nxdomain`, `servfail`, `timeout`, `error`, `blocked` (its address may not be
    /// asked) or `not_asked`.
    outcome: String,
    /// TXT values at the record's name, at most 5.
    values: Vec<String>,
    /// Were the answer's signatures checked?
    authenticated: bool,
    /// Seconds that the answer may be kept.
    ttl: i32,
    /// Milliseconds that it took.
    latency_ms: i32,
    /// The mistake: `doubled_name`, `at_apex`, `wrong_label`, `cname_in_the_way`, `stale_value`, `not_propagated`,
    /// `dnssec_broken`, `no_zone` or empty.
    hint: String,
    /// What it means, for a person.
    message: String,
    /// When it was asked.
    checked_at: Timestamp,
}

fn int32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The hint of a look, as the API has it.
pub(crate) fn hint(look: &Look) -> String {
    look.hint.map_or("", portico_dns::Hint::name).to_owned()
}

/// What each server says.
pub(crate) fn views(look: Look, checked_at: Timestamp) -> Vec<ResolverView> {
    let hint = hint(&look);
    let view = |answer: Answer| ResolverView {
        resolver: answer.server,
        kind: match answer.kind {
            ServerKind::Public => "public",
            ServerKind::Authoritative => "authoritative",
        },
        outcome: answer.outcome.name().to_owned(),
        values: answer.values,
        authenticated: answer.authenticated,
        ttl: int32(answer.ttl),
        latency_ms: int32(answer.latency_ms),
        hint: if answer.outcome == Outcome::Found { String::new() } else { hint.clone() },
        message: answer.message,
        checked_at,
    };
    look.answers.into_iter().map(view).collect()
}
