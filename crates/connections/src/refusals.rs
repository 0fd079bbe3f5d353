//! Refusals of the area, each of which is said in one place.

use portico_connectors::Fault;
use portico_kernel::{Code, ConnectionId, Problem, seconds};

use crate::limits;

/// Who owns the reasons.
pub(crate) const DOMAIN: &str = "connections";

/// Faults of an input, each naming its field.
pub(crate) fn faults(faults: Vec<Fault>) -> Problem {
    let described = |text: String| text.trim_end_matches('.').to_owned();
    let fields = faults.into_iter().map(|Fault { path, message }| (path, described(message)));
    Problem::fields(fields).unwrap_or_else(|| Problem::internal("an input was refused without a fault"))
}

/// One fault of an input.
pub(crate) fn fault(fault: Fault) -> Problem {
    faults(vec![fault])
}

pub(crate) fn no_connection(id: impl std::fmt::Display) -> Problem {
    Problem::not_found("connection", id)
}

pub(crate) fn no_action(name: &str) -> Problem {
    Problem::not_found("action", name)
}

fn precondition<const N: usize>(
    reason: &'static str,
    words: &'static str,
    metadata: [(&str, String); N],
) -> Problem {
    Problem::failed_precondition(reason, DOMAIN, words, metadata)
}

pub(crate) fn not_granted() -> Problem {
    Problem::new(Code::Forbidden, "No grant lets this caller call the action.").with_info(
        "NOT_GRANTED",
        DOMAIN,
        [],
    )
}

pub(crate) fn paused() -> Problem {
    precondition("PAUSED", "The connection is paused.", [])
}

pub(crate) fn needs_reconnect() -> Problem {
    let words = "The provider does not take the credential of the connection any more; it needs another.";
    precondition("NEEDS_RECONNECT", words, [])
}

pub(crate) fn domain_not_verified(host: &str) -> Problem {
    let words = "The host is in no verified domain of the account.";
    precondition("DOMAIN_NOT_VERIFIED", words, [("host", host.to_owned())])
}

pub(crate) fn sign_in_required() -> Problem {
    let words = "Connections of this mode are made by a sign-in at the provider.";
    precondition("SIGN_IN_REQUIRED", words, [])
}

pub(crate) fn no_client() -> Problem {
    let words =
        "There is no OAuth client for the connector: neither the account nor the operator brought one.";
    precondition("NO_CLIENT", words, [])
}

pub(crate) fn state_invalid() -> Problem {
    let words = "The state belongs to no sign-in of this person in this account that waits to be completed.";
    precondition("STATE_INVALID", words, [])
}

pub(crate) fn sign_in_failed(reason: &str) -> Problem {
    precondition("SIGN_IN_FAILED", "The sign-in did not succeed.", [("reason", reason.to_owned())])
}

pub(crate) fn other_workspace() -> Problem {
    let words = "The credential is for another account at the provider than the connection.";
    precondition("OTHER_WORKSPACE", words, [])
}

pub(crate) fn workspace_connected(existing: ConnectionId) -> Problem {
    let words = "The account has a connection to this account at the provider already.";
    let metadata = [("connection_id", existing.to_string())];
    Problem::new(Code::AlreadyExists, words).with_info("WORKSPACE_CONNECTED", DOMAIN, metadata)
}

pub(crate) fn changed_meanwhile() -> Problem {
    Problem::new(Code::Conflict, "The connection was changed by somebody else meanwhile; try again.")
}

/// Too many calls of one connection at once.
pub(crate) fn busy() -> Problem {
    let words = format!(
        "The connection has {} calls under way and {} waiting, or this one has waited too long.",
        limits::CALLS_AT_ONCE,
        limits::CALLS_WAITING_MAX
    );
    Problem::new(Code::RateLimited, words).with_info("CONNECTION_BUSY", DOMAIN, []).retry_after(seconds(1))
}

/// 403 for whoever is no person, and does not act for one.
pub(crate) fn person_required() -> Problem {
    let words = "Only a person may do this: it is done in their name at the provider.";
    Problem::new(Code::Forbidden, words).with_info("PERSON_REQUIRED", "gateway", [])
}
