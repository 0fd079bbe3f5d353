//! How a domain stands, and what moves it. Without I/O.

mod checks;
mod schedule;
mod transition;

use portico_kernel::{Timestamp, text_enum};
use portico_store::text_value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use checks::Checks;
pub(crate) use schedule::{first_look, verified_gap};
pub(crate) use transition::{Cause, Finding, Move, expire, looked, transfer};

text_enum! {
    /// How a domain stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(inline)]
    pub(crate) enum Status {
        /// It waits for its record.
        Pending = "pending",
        /// The last look saw the record; it is to be confirmed.
        Seen = "seen",
        /// The account has proven it.
        Verified = "verified",
        /// It is no longer verified, or the record was not confirmed in time.
        Unverified = "unverified",
    }
}

text_enum! {
    /// Why a domain is not verified any more, or soon will not be.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    pub(crate) enum Reason {
        /// There is nothing to say.
        #[serde(rename = "")]
        None = "",
        /// The seven days of the token went by.
        #[serde(rename = "token_expired")]
        TokenExpired = "token_expired",
        /// The record is gone.
        #[serde(rename = "record_missing")]
        RecordMissing = "record_missing",
        /// Only other values stand at its name.
        #[serde(rename = "record_changed")]
        RecordChanged = "record_changed",
        /// Nobody could say whether it is there.
        #[serde(rename = "unresolvable")]
        Unresolvable = "unresolvable",
        /// Another account proved the domain.
        #[serde(rename = "transferred")]
        Transferred = "transferred",
    }
}

text_value!(Status, Reason);

/// What of a domain moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) status: Status,
    pub(crate) reason: Reason,
    pub(crate) created_at: Timestamp,
    pub(crate) verified_at: Option<Timestamp>,
    pub(crate) last_checked_at: Option<Timestamp>,
    pub(crate) expires_at: Timestamp,
    /// Of a verified domain: how many looks in a row missed the record.
    pub(crate) misses: i64,
    /// Since when it has not been seen.
    pub(crate) missed_since: Option<Timestamp>,
    /// Since when every look said that it is gone.
    pub(crate) gone_since: Option<Timestamp>,
    /// Since when no resolver answered.
    pub(crate) unreachable_since: Option<Timestamp>,
    /// When it is due to be looked at.
    pub(crate) next_look_at: Option<Timestamp>,
}

impl State {
    /// A domain whose token is made now.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            status: Status::Pending,
            reason: Reason::None,
            created_at: now,
            verified_at: None,
            last_checked_at: None,
            expires_at: now + crate::limits::TOKEN_LIFE,
            misses: 0,
            missed_since: None,
            gone_since: None,
            unreachable_since: None,
            next_look_at: Some(first_look(now)),
        }
    }

    /// Is no new proof accepted any more?
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at
    }

    /// Does adding the domain again make it a new one?
    pub(crate) fn is_renewed_by_adding(&self, now: Timestamp) -> bool {
        match self.status {
            Status::Verified => false,
            Status::Unverified => true,
            Status::Pending | Status::Seen => self.is_expired(now),
        }
    }
}
