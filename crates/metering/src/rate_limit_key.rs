//! The minute of a key, an API token or a person.

use std::sync::{Mutex, MutexGuard, PoisonError};

use portico_kernel::Timestamp;

use crate::journal::SubjectId;
use crate::limits;
use crate::window::{Place, RateLimitStatus, Window};

/// Who calls, and how often they did lately.
pub struct RateLimitKey {
    pub(crate) id: SubjectId,
    minute: Mutex<Minute>,
    /// One asks the database for a larger share at a time.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

/// The window, and this server's share of the limit where there are other servers.
#[derive(Default)]
pub(crate) struct Minute {
    pub(crate) window: Window,
    share: Share,
}

/// What this server may admit of the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Calls in any 60 seconds.
    pub(crate) most: u32,
    /// What other servers may admit.
    pub(crate) elsewhere: u32,
    /// When it was agreed on; nothing before the first time.
    pub(crate) renewed_at: Option<Timestamp>,
    /// Until when it is no use to ask for more.
    pub(crate) full_until: Option<Timestamp>,
}

/// What came of asking for a place in the window.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The call may go on.
    Admission(Place, RateLimitStatus),
    /// There is no room.
    Full(RateLimitStatus),
    /// This server must first ask for a share.
    NeedsShare,
}

impl RateLimitKey {
    pub(crate) fn new(id: SubjectId) -> Self {
        Self { id, minute: Mutex::default(), asking: tokio::sync::Mutex::new(()) }
    }

    pub(crate) fn minute(&self) -> MutexGuard<'_, Minute> {
        self.minute.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Minute {
    /// Counts a call, where this server alone decides.
    pub(crate) fn take(&mut self, now: Timestamp, limit: u32) -> Asked {
        match self.window.take(now, limit) {
            Some(place) => Asked::Admission(place, self.window.standing(now, limit, 0)),
            None => Asked::Full(self.window.standing(now, limit, 0)),
        }
    }

    /// Counts a call, where other servers admit calls of the same minute.
    pub(crate) fn take_shared(&mut self, now: Timestamp, limit: u32) -> Asked {
        let share = self.share;
        // A time that is still to come is of a clock that was ahead.
        if share.renewed_at.is_none_or(|at| at > now || now.since(at) >= limits::SHARE_LIFE) {
            return Asked::NeedsShare;
        }
        let most = share.most.min(limit);
        match self.window.take(now, most) {
            Some(place) => Asked::Admission(place, self.standing(now, limit)),
            None if share.most >= limit || share.full_until.is_some_and(|until| now < until) => {
                Asked::Full(self.standing(now, limit))
            }
            None => Asked::NeedsShare,
        }
    }

    /// What to tell a caller who was not counted.
    pub(crate) fn standing(&mut self, now: Timestamp, limit: u32) -> RateLimitStatus {
        let elsewhere = self.share.elsewhere;
        let standing = self.window.standing(now, limit, elsewhere);
        // When the others' calls leave is not known here; it may be any second.
        let reset_seconds = if elsewhere > 0 { 1 } else { standing.reset_seconds };
        RateLimitStatus { reset_seconds, ..standing }
    }

    /// Lets go of all but what is used, so that the number holds until a new share is agreed on; answers it.
    pub(crate) fn shrink(&mut self, now: Timestamp) -> u32 {
        self.share.most = self.window.used(now);
        self.share.most
    }

    pub(crate) fn agree(&mut self, share: Share) {
        self.share = share;
    }
}

/// The share of a limit for a server that has admitted `used` calls itself, where others hold `others` and there are
/// `servers`: nothing when there is no room. All shares together never pass the limit.
pub(crate) fn share(limit: u32, used: u32, others: u32, servers: u32) -> Option<u32> {
    let free = limit.saturating_sub(others).saturating_sub(used);
    (free > 0).then(|| used + (free / servers.max(1)).max(1))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Several servers, calls anywhere, shares asked for, given back on recall: no 60 seconds hold more than the
        /// limit, and once the others have given back, one server alone can use it all.
        #[test]
        fn servers_together_keep_the_limit(
            steps in vec((0usize..3, 0u64..4_000, 0u8..10), 1..600),
            limit in 3u32..60,
        ) {
            let mut now = Timestamp::from_seconds(1_800_000_000);
            let mut servers = [const { None::<(Minute, u32)> }; 3].map(|_| (Minute::default(), 0u32));
            let mut admitted: Vec<Timestamp> = Vec::new();
            for (at, millis, recall) in steps {
                now = now + Duration::from_millis(millis);
                if recall == 0 {
                    for (minute, held) in &mut servers {
                        *held = minute.shrink(now);
                    }
                }
                for _ in 0..2 {
                    match servers[at].0.take_shared(now, limit) {
                        Asked::Admission(..) => {
                            admitted.push(now);
                            break;
                        }
                        Asked::Full(_) => break,
                        Asked::NeedsShare => {
                            let used = servers[at].0.shrink(now);
                            let others = (0..3).filter(|other| *other != at).map(|other| servers[other].1).sum();
                            let most = share(limit, used, others, 3).unwrap_or(used);
                            let full_until = (most == used).then_some(now + Duration::from_millis(250));
                            let agreed = Share { most, elsewhere: others, renewed_at: Some(now), full_until };
                            servers[at].0.agree(agreed);
                            servers[at].1 = most;
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
            while let Some(most) = share(limit, used, 0, servers) {
                (used, asked) = (most, asked + 1);
            }
            prop_assert_eq!(used, limit);
            prop_assert!(asked < 120, "it asked {asked} times");
        }
    }
}
