//! What becomes of a delivery after an attempt.

use std::time::Duration;

use portico_kernel::Timestamp;

use super::{Lane, Outcome, Status, next_gap};

/// The status that says: never again (SPEC.md, Answering and retries).
pub(crate) const GONE: u16 = 410;

/// A delivery before the attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) status: Status,
    /// Attempts of the schedule that were made.
    pub(crate) attempts: i64,
    pub(crate) lane: Lane,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The answer's status; 0 for none.
    pub(crate) status_code: u16,
    pub(crate) retry_after: Option<Duration>,
    /// Did the receiver say, of the endpoint as it is, that it wants nothing more?
    pub(crate) gone: bool,
    pub(crate) at: Timestamp,
}

/// The delivery after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) status: Status,
    pub(crate) attempts: i64,
    pub(crate) lane: Lane,
    pub(crate) next_at: Option<Timestamp>,
}

/// The move. A pending delivery goes on with its schedule; one that had ended, and was sent again by hand, had this
/// attempt alone.
pub(crate) fn after(before: Before, ended: Ended, chance: u32) -> After {
    let Before { status, attempts, lane } = before;
    if ended.outcome == Outcome::Delivered {
        return After { status: Status::Delivered, attempts: attempts + 1, lane, next_at: None };
    }
    if status != Status::Pending {
        return After { status, attempts, lane, next_at: None };
    }
    let attempts = attempts + 1;
    // It can only mean the endpoint, which is disabled; with it everything that waits.
    if ended.gone {
        return After { status: Status::Failed, attempts, lane, next_at: None };
    }
    let lane = if lane == Lane::First { Lane::Again } else { lane };
    match next_gap(attempts, chance, ended.retry_after) {
        Some(gap) => After { status, attempts, lane, next_at: Some(ended.at + gap) },
        None => After { status: Status::Abandoned, attempts, lane, next_at: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ATTEMPTS_MAX, GAPS};

    const AT: Timestamp = Timestamp::from_seconds(1_000);

    fn ended(outcome: Outcome, status_code: u16) -> Ended {
        Ended { outcome, status_code, retry_after: None, gone: status_code == GONE, at: AT }
    }

    fn pending(attempts: i64) -> Before {
        Before { status: Status::Pending, attempts, lane: Lane::First }
    }

    #[test]
    fn a_pending_delivery_follows_the_schedule_to_its_end() {
        for attempts in 0..ATTEMPTS_MAX {
            let after = after(pending(attempts), ended(Outcome::Status, 500), 0);
            let gap = GAPS.get(usize::try_from(attempts).unwrap());
            assert_eq!(after.next_at, gap.map(|gap| AT + *gap));
            assert_eq!(after.attempts, attempts + 1);
            let status = if attempts == 7 { Status::Abandoned } else { Status::Pending };
            assert_eq!((after.status, after.lane), (status, Lane::Again));
        }
    }

    #[test]
    fn success_ends_it_whatever_came_before() {
        for status in [Status::Pending, Status::Delivered, Status::Failed, Status::Abandoned] {
            let after = after(Before { status, ..pending(3) }, ended(Outcome::Delivered, 204), 0);
            assert_eq!((after.status, after.next_at), (Status::Delivered, None));
        }
    }

    #[test]
    fn what_had_ended_gets_one_attempt_and_stays_what_it_was() {
        for status in [Status::Delivered, Status::Failed, Status::Abandoned] {
            for code in [500, 410] {
                let after = after(Before { status, ..pending(8) }, ended(Outcome::Status, code), 0);
                assert_eq!((after.status, after.attempts, after.next_at), (status, 8, None));
            }
        }
    }

    #[test]
    fn gone_ends_it_at_once_and_order_is_kept() {
        let gone = after(pending(0), ended(Outcome::Status, 410), 0);
        assert_eq!((gone.status, gone.next_at), (Status::Failed, None));
        let in_order = Before { lane: Lane::InOrder, ..pending(0) };
        assert_eq!(after(in_order, ended(Outcome::Timeout, 0), 0).lane, Lane::InOrder);
    }
}
