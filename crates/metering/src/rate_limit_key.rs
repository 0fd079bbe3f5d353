//! The rate limit of a key, an API token or a person.

use std::sync::{Mutex, MutexGuard, PoisonError};

use portico_kernel::Timestamp;

use crate::journal::SubjectId;
use crate::limits;
use crate::refusals::RefusalSample;
use crate::sql::HeldShareRow;
use crate::window::{RateLimitStatus, Window, WindowSlot};

/// A caller whose calls share one rate limit, and the calls that they made in the last minute.
pub struct RateLimitKey {
    pub(crate) id: SubjectId,
    limiter: Mutex<RateLimiter>,
    /// Held while this server's share is changed.
    pub(crate) lease_lock: tokio::sync::Mutex<()>,
}

/// The window, and this server's share of the limit where there are other servers.
#[derive(Default)]
pub(crate) struct RateLimiter {
    pub(crate) window: Window,
    share: Share,
    pub(crate) refusals: RefusalSample,
}

/// The part of the limit that this server may admit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Calls in any 60 seconds.
    pub(crate) limit: u32,
    /// What other servers may admit.
    pub(crate) elsewhere: u32,
    /// When the first of the calls that those admitted leaves the window, as far as it is known.
    pub(crate) elsewhere_free_at: Option<Timestamp>,
    /// When it was last renewed; `None` before the first time.
    pub(crate) renewed_at: Option<Timestamp>,
    /// Until when the database is not asked for more.
    pub(crate) full_until: Option<Timestamp>,
}

/// Whether a call may go on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RateLimitDecision {
    /// It may.
    Allowed(WindowSlot, RateLimitStatus),
    /// The limit is used up.
    Limited(RateLimitStatus),
    /// This server must first get a larger share from the database.
    NeedsShare,
}

impl RateLimitKey {
    pub(crate) fn new(id: SubjectId) -> Self {
        Self { id, limiter: Mutex::default(), lease_lock: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn limiter(&self) -> MutexGuard<'_, RateLimiter> {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateLimiter {
    /// Counts a call, where this server alone decides.
    pub(crate) fn take(&mut self, now: Timestamp, limit: u32) -> RateLimitDecision {
        match self.window.take(now, limit) {
            Some(slot) => RateLimitDecision::Allowed(slot, self.window.status(now, limit, 0, None)),
            None => RateLimitDecision::Limited(self.window.status(now, limit, 0, None)),
        }
    }

    /// Counts a call, where other servers admit calls of the same key.
    pub(crate) fn take_shared(&mut self, now: Timestamp, limit: u32) -> RateLimitDecision {
        let share = self.share;
        // A time that is still to come is of a clock that was ahead.
        if share.renewed_at.is_none_or(|at| at > now || now.since(at) >= limits::SHARE_LIFE) {
            return RateLimitDecision::NeedsShare;
        }
        match self.window.take(now, share.limit.min(limit)) {
            Some(slot) => RateLimitDecision::Allowed(slot, self.status(now, limit)),
            None if share.limit >= limit || share.full_until.is_some_and(|until| now < until) => {
                RateLimitDecision::Limited(self.status(now, limit))
            }
            None => RateLimitDecision::NeedsShare,
        }
    }

    /// The caller's status.
    pub(crate) fn status(&mut self, now: Timestamp, limit: u32) -> RateLimitStatus {
        let Share { elsewhere, elsewhere_free_at, .. } = self.share;
        self.window.status(now, limit, elsewhere, elsewhere_free_at)
    }

    /// Shrinks the share to the calls that are counted, and returns how many those are and when the first of them leaves.
    /// No call is admitted before the share is set again.
    pub(crate) fn shrink_share(&mut self, now: Timestamp) -> (u32, Option<Timestamp>) {
        let free_at = self.window.free_at(now, u32::MAX);
        self.share.limit = self.window.used(now);
        (self.share.limit, free_at)
    }

    pub(crate) fn set_share(&mut self, share: Share) {
        self.share = share;
    }
}

/// What other servers hold of a rate limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldElsewhere {
    pub(crate) amount: u32,
    /// When the first of the calls that they admitted leaves the window, as far as it is known.
    pub(crate) free_at: Option<Timestamp>,
    /// Is one of the holders alive, and can release what it does not need?
    pub(crate) is_living: bool,
    /// Is one of these still to answer a recall?
    pub(crate) is_recalled: bool,
}

/// Sums up the shares that other servers hold. One that has not been renewed for long no longer counts.
pub(crate) fn held_elsewhere(rows: &[HeldShareRow], now: Timestamp) -> HeldElsewhere {
    let mut held = HeldElsewhere::default();
    for row in rows {
        let life = if row.seen_at.is_none() { limits::SHARE_LIFE } else { limits::SHARE_GONE };
        if row.renewed_at < now - life {
            continue;
        }
        let alive = row.seen_at.is_some_and(|at| at >= now - limits::SEEN_LIFE);
        held.is_living |= alive;
        held.is_recalled |= alive && row.recalled;
        let amount = u32::try_from(row.amount.max(0)).unwrap_or(u32::MAX);
        held.amount = held.amount.saturating_add(amount);
        // What a server that is gone holds stays until it no longer counts.
        let free_at = if alive { row.frees_at } else { Some(row.renewed_at + life) };
        held.free_at = held.free_at.into_iter().chain(free_at.filter(|_| amount > 0)).min();
    }
    held
}

/// The share of a limit for a server that has admitted `used` calls itself, where others hold `others` and there are
/// `servers`; `None` when the limit is used up. All shares together never pass the limit.
pub(crate) fn share_of(limit: u32, used: u32, others: u32, servers: u32) -> Option<u32> {
    let free = limit.saturating_sub(others).saturating_sub(used);
    (free > 0).then(|| used + (free / servers.max(1)).max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_others_hold_is_known_as_long_as_it_counts() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let ago = |seconds| now - Duration::from_secs(seconds);
        let row = |renewed: u64, seen: Option<u64>, amount| HeldShareRow {
            amount,
            recalled: true,
            renewed_at: ago(renewed),
            frees_at: Some(ago(renewed) + Duration::from_secs(33)),
            seen_at: seen.map(ago),
        };
        let held = |rows: &[HeldShareRow]| {
            let HeldElsewhere { amount, free_at, is_living, is_recalled } = held_elsewhere(rows, now);
            (amount, free_at.map(|at| at.since(now).as_secs()), is_living, is_recalled)
        };
        assert_eq!(held(&[]), (0, None, false, false));
        assert_eq!(held(&[row(3, Some(1), 4), row(2, Some(0), 5)]), (9, Some(30), true, true));
        assert_eq!(held(&[row(3, Some(1), 0)]), (0, None, true, true), "it has admitted nothing");
        assert_eq!(held(&[row(50, Some(30), 4)]), (4, Some(70), false, false), "it is silent");
        assert_eq!(held(&[row(50, None, 4)]), (4, Some(10), false, false), "it has ended");
        assert_eq!(held(&[row(61, None, 4), row(121, Some(0), 4)]), (0, None, false, false));
    }

    proptest! {
        /// Several servers, calls anywhere, shares asked for, given back on recall: no 60 seconds hold more than the
        /// limit, and once the others have given back, one server alone can use it all.
        #[test]
        fn servers_together_keep_the_limit(
            steps in vec((0usize..3, 0u64..4_000, 0u8..10), 1..600),
            limit in 3u32..60,
        ) {
            let mut now = Timestamp::from_seconds(1_800_000_000);
            let mut servers = [const { None::<(RateLimiter, u32)> }; 3].map(|_| (RateLimiter::default(), 0u32));
            let mut admitted: Vec<Timestamp> = Vec::new();
            for (at, millis, recall) in steps {
                now = now + Duration::from_millis(millis);
                if recall == 0 {
                    for (limiter, held) in &mut servers {
                        *held = limiter.shrink_share(now).0;
                    }
                }
                for _ in 0..2 {
                    match servers[at].0.take_shared(now, limit) {
                        RateLimitDecision::Allowed(..) => {
                            admitted.push(now);
                            break;
                        }
                        RateLimitDecision::Limited(_) => break,
                        RateLimitDecision::NeedsShare => {
                            let (used, _) = servers[at].0.shrink_share(now);
                            let others = (0..3).filter(|other| *other != at).map(|other| servers[other].1).sum();
                            let own = share_of(limit, used, others, 3).unwrap_or(used);
                            let full_until = (own == used).then_some(now + Duration::from_millis(250));
                            let share = Share {
                                limit: own,
                                elsewhere: others,
                                elsewhere_free_at: None,
                                renewed_at: Some(now),
                                full_until,
                            };
                            servers[at].0.set_share(share);
                            servers[at].1 = own;
                        }
                    }
                }
                let minute = admitted.iter().filter(|made| now.since(**made) < Duration::from_mins(1)).count();
                prop_assert!(minute <= limit as usize, "{minute} in a minute, the limit is {limit}");
            }
        }

        #[test]
        fn one_server_gets_it_all_in_the_end(limit in 1u32..5_000, servers in 1u32..9) {
            let (mut used, mut asked) = (0, 0);
            while let Some(share) = share_of(limit, used, 0, servers) {
                (used, asked) = (share, asked + 1);
            }
            prop_assert_eq!(used, limit);
            prop_assert!(asked < 120, "it asked {asked} times");
        }
    }
}
