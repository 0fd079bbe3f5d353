//! When a domain is looked at.

use std::time::Duration;

use portico_kernel::Timestamp;

use super::{State, Status};
use crate::limits;

/// The first look at a domain whose token was made at `created_at`.
pub(crate) fn first_look(created_at: Timestamp) -> Timestamp {
    created_at + limits::FIRST_LOOKS[0]
}

/// The first look after `now` at a domain that is not verified. What was missed while no server ran is one look.
pub(super) fn next_unproven(created_at: Timestamp, expires_at: Timestamp, now: Timestamp) -> Timestamp {
    let age = now.since(created_at);
    let next = limits::FIRST_LOOKS.into_iter().find(|at| *at > age).unwrap_or_else(|| {
        match age.checked_sub(limits::HOURLY_UNTIL) {
            None => next_multiple(age, limits::HOURLY),
            Some(late) => limits::HOURLY_UNTIL + next_multiple(late, limits::LATE_GAP),
        }
    });
    (created_at + next).min(expires_at)
}

/// The first multiple of `gap` after `age`.
fn next_multiple(age: Duration, gap: Duration) -> Duration {
    let whole = u32::try_from(age.as_micros() / gap.as_micros()).unwrap_or(u32::MAX - 1);
    gap * (whole + 1)
}

/// How long after a look a verified domain is looked at again, by chance.
pub(crate) fn verified_gap(chance: u32) -> Duration {
    limits::VERIFIED_GAP + limits::VERIFIED_GAP_SPREAD.mul_f64(f64::from(chance) / f64::from(u32::MAX))
}

/// How long after its `misses`-th look in a row that missed the record a verified domain is looked at again.
pub(super) fn missed_gap(misses: i64) -> Duration {
    let last = limits::MISSED_GAPS.len() - 1;
    let at = usize::try_from(misses.saturating_sub(1)).unwrap_or(0).min(last);
    limits::MISSED_GAPS[at]
}

impl State {
    /// Sets when a domain that is not verified is looked at next.
    pub(super) fn schedule_unproven(&mut self, now: Timestamp) {
        self.next_look_at = match self.status {
            Status::Pending | Status::Seen => Some(next_unproven(self.created_at, self.expires_at, now)),
            Status::Verified | Status::Unverified => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_domain_is_looked_at_often_and_then_seldom() {
        let created = Timestamp::from_seconds(1_000_000);
        let expires = created + limits::TOKEN_LIFE;
        let mut looks = vec![];
        let mut at = created;
        while at < expires {
            at = next_unproven(created, expires, at);
            looks.push(at.since(created).as_secs() / 60);
        }
        assert_eq!(first_look(created), created + Duration::from_mins(1));
        assert_eq!(looks[..7], [1, 2, 5, 10, 30, 60, 120]);
        assert_eq!(looks[5..29], (1..=24).map(|hour| hour * 60).collect::<Vec<u64>>());
        assert_eq!(looks[29..31], [30 * 60, 36 * 60]);
        assert_eq!(looks.last(), Some(&(7 * 24 * 60)), "at the end of the token");
        assert_eq!(looks.len(), 5 + 24 + 24);
        let odd = created + Duration::from_secs(61);
        assert_eq!(next_unproven(created, expires, odd), created + Duration::from_mins(2));
        assert_eq!(next_unproven(created, expires, expires + Duration::from_hours(1)), expires);
        assert_eq!(next_unproven(created, expires, created - Duration::from_hours(1)), first_look(created));
    }

    #[test]
    fn a_verified_domain_is_looked_at_within_its_day() {
        assert_eq!(verified_gap(0), Duration::from_hours(20));
        assert_eq!(verified_gap(u32::MAX), Duration::from_hours(24));
        let gaps: Vec<_> = (1..=6).map(|misses| missed_gap(misses).as_secs() / 60).collect();
        assert_eq!(gaps, [15, 60, 360, 720, 720, 720]);
        assert_eq!(missed_gap(0), missed_gap(1));
    }
}
