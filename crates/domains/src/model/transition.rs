//! From how a domain stands, and what a look found, to how it stands then.

use std::time::Duration;

use portico_dns::Verdict;
use portico_kernel::Timestamp;

use super::{Reason, State, Status, schedule, verified_gap};
use crate::limits;

/// Who looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Somebody who asked how the record stands.
    Check,
    /// Somebody who asked for the domain; the look saw the record.
    Confirm,
    /// The platform, as it does from time to time.
    Job,
}

/// What a look found that moves a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What it says of the record.
    pub(crate) verdict: Verdict,
    /// Are all name servers others than when the domain was verified?
    pub(crate) moved: bool,
    /// A random number, which spreads looks over time.
    pub(crate) chance: u32,
}

/// What of a move is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// Nothing.
    Silent,
    /// It is verified.
    Verified,
    /// It was verified, and is no more.
    Unverified,
    /// It is verified still, and a look missed its record; it ends at this time, if all that come say the same.
    Missing(Timestamp),
}

/// The token ended before the domain was verified.
pub(crate) fn expire(state: &mut State) {
    state.status = Status::Unverified;
    state.reason = Reason::TokenExpired;
    state.next_look_at = None;
}

/// Another account proved the domain.
pub(crate) fn transfer(state: &mut State) {
    end(state, Reason::Transferred);
}

/// A verified domain is no more.
fn end(state: &mut State, reason: Reason) {
    state.status = Status::Unverified;
    state.reason = reason;
    state.next_look_at = None;
    forget_misses(state);
}

fn forget_misses(state: &mut State) {
    (state.misses, state.missed_since, state.gone_since, state.unreachable_since) = (0, None, None, None);
}

/// Moves the domain by what a look found. No resolver that answered is no look: then nothing may call this.
pub(crate) fn looked(state: &mut State, cause: Cause, finding: Finding, now: Timestamp) -> Move {
    state.last_checked_at = Some(now);
    match state.status {
        Status::Verified => looked_at_verified(state, cause, finding, now),
        Status::Pending | Status::Seen | Status::Unverified => looked_at_unproven(state, cause, finding, now),
    }
}

fn looked_at_unproven(state: &mut State, cause: Cause, finding: Finding, now: Timestamp) -> Move {
    let (seen, expired) = (finding.verdict == Verdict::Seen, state.is_expired(now));
    match (state.status, cause) {
        (_, Cause::Confirm) if seen && !expired => {
            state.status = Status::Verified;
            state.verified_at = Some(now);
            be_seen(state, finding, now);
            return Move::Verified;
        }
        (Status::Pending | Status::Seen, _) if expired => expire(state),
        (Status::Pending | Status::Unverified, _) if seen && !expired => {
            state.status = Status::Seen;
            state.reason = Reason::None;
        }
        (Status::Seen, _) if !seen => state.status = Status::Pending,
        _ => {}
    }
    state.schedule_unproven(now);
    Move::Silent
}

fn looked_at_verified(state: &mut State, cause: Cause, finding: Finding, now: Timestamp) -> Move {
    match (finding.verdict, cause) {
        (Verdict::Seen, _) => {
            be_seen(state, finding, now);
            Move::Silent
        }
        (Verdict::Gone { other_value }, Cause::Check) => {
            end(state, gone(other_value));
            Move::Unverified
        }
        (Verdict::Gone { .. } | Verdict::Unclear, Cause::Job) => miss(state, finding, now),
        // What is unclear to somebody who asks moves nothing, and a confirmation is of what was seen.
        (Verdict::Gone { .. } | Verdict::Unclear | Verdict::Unreachable, _) => Move::Silent,
    }
}

/// The record of a verified domain was seen.
fn be_seen(state: &mut State, finding: Finding, now: Timestamp) {
    state.reason = Reason::None;
    forget_misses(state);
    state.next_look_at = Some(now + verified_gap(finding.chance));
}

const fn gone(other_value: bool) -> Reason {
    if other_value { Reason::RecordChanged } else { Reason::RecordMissing }
}

/// The platform's own look missed the record of a verified domain.
fn miss(state: &mut State, finding: Finding, now: Timestamp) -> Move {
    let first = state.missed_since.is_none();
    // The time in which no resolver answered does not count.
    let unreachable = state.unreachable_since.take().map_or(Duration::ZERO, |since| now.since(since));
    let missed_since = state.missed_since.map_or(now, |since| since + unreachable);
    state.missed_since = Some(missed_since);
    state.misses = state.misses.saturating_add(1);
    let ends_at = if let Verdict::Gone { other_value } = finding.verdict {
        state.reason = gone(other_value);
        let grace = if finding.moved { limits::MOVED_GRACE } else { limits::GONE_GRACE };
        *state.gone_since.get_or_insert(now) + grace
    } else {
        state.reason = Reason::Unresolvable;
        state.gone_since = None;
        missed_since + limits::UNCLEAR_GRACE
    };
    if now >= ends_at {
        end(state, state.reason);
        return Move::Unverified;
    }
    // The last look is at the end itself.
    state.next_look_at = Some((now + schedule::missed_gap(state.misses)).min(ends_at));
    if first { Move::Missing(ends_at) } else { Move::Silent }
}

#[cfg(test)]
#[path = "transition_tests.rs"]
mod tests;
