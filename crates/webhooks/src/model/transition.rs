//! The state transition of a delivery after an attempt.

use std::time::Duration;

use portico_kernel::Timestamp;

use super::{Outcome, QueueKind, Status, next_gap};

/// The status with which a receiver asks for no more deliveries (SPEC.md, Answering and retries).
pub(crate) const GONE: u16 = 410;

/// The state of a delivery before an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryState {
    pub(crate) status: Status,
    /// Scheduled attempts so far.
    pub(crate) attempts: i64,
    /// Was this attempt asked for by hand?
    pub(crate) by_hand: bool,
    pub(crate) queue: QueueKind,
}

/// What the receiver answered, or why it did not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptResult {
    pub(crate) outcome: Outcome,
    /// The status of the answer; 0 when there was none.
    pub(crate) status_code: u16,
    pub(crate) retry_after: Option<Duration>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptOutcome {
    pub(crate) result: AttemptResult,
    /// Did the receiver answer 410 for the endpoint as it is now?
    pub(crate) gone: bool,
    pub(crate) ended_at: Timestamp,
}

/// The state of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) status: Status,
    pub(crate) attempts: i64,
    pub(crate) queue: QueueKind,
    /// When the next attempt is due; `None` when there is none.
    pub(crate) next_at: Option<Timestamp>,
}

/// Returns the state that follows. A pending delivery continues its schedule; one that had ended, and was sent again by
/// hand, gets this one attempt. `chance` is any random number, which spreads out retries.
pub(crate) fn transition(before: DeliveryState, attempt: AttemptOutcome, chance: u32) -> Transition {
    let DeliveryState { status, attempts, by_hand, queue } = before;
    if attempt.result.outcome == Outcome::Delivered {
        return Transition { status: Status::Delivered, attempts: attempts + 1, queue, next_at: None };
    }
    if status != Status::Pending {
        return Transition { status, attempts, queue, next_at: None };
    }
    // An attempt by hand is beside the schedule, which goes on from there. Its first attempt is due at once, by hand or not.
    let attempts = if by_hand && attempts > 0 { attempts } else { attempts + 1 };
    // The endpoint is disabled, and with it ends every delivery that is pending for it.
    if attempt.gone {
        return Transition { status: Status::Failed, attempts, queue, next_at: None };
    }
    let queue = if queue == QueueKind::New { QueueKind::Retry } else { queue };
    match next_gap(attempts, chance, attempt.result.retry_after) {
        Some(gap) => Transition { status, attempts, queue, next_at: Some(attempt.ended_at + gap) },
        None => Transition { status: Status::Abandoned, attempts, queue, next_at: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ATTEMPTS_MAX, GAPS};

    const AT: Timestamp = Timestamp::from_seconds(1_000);

    fn ended(outcome: Outcome, status_code: u16) -> AttemptOutcome {
        let result = AttemptResult { outcome, status_code, retry_after: None };
        AttemptOutcome { result, gone: status_code == GONE, ended_at: AT }
    }

    fn pending(attempts: i64) -> DeliveryState {
        DeliveryState { status: Status::Pending, attempts, by_hand: false, queue: QueueKind::New }
    }

    #[test]
    fn a_pending_delivery_follows_the_schedule_to_its_end() {
        for attempts in 0..ATTEMPTS_MAX {
            let after = transition(pending(attempts), ended(Outcome::Status, 500), 0);
            let gap = GAPS.get(usize::try_from(attempts).unwrap());
            assert_eq!(after.next_at, gap.map(|gap| AT + *gap));
            assert_eq!(after.attempts, attempts + 1);
            let status = if attempts == 7 { Status::Abandoned } else { Status::Pending };
            assert_eq!((after.status, after.queue), (status, QueueKind::Retry));
        }
    }

    #[test]
    fn an_attempt_by_hand_is_beside_the_schedule() {
        let by_hand = |attempts| DeliveryState { by_hand: true, ..pending(attempts) };
        for attempts in 1..ATTEMPTS_MAX {
            let after = transition(by_hand(attempts), ended(Outcome::Status, 500), 0);
            assert_eq!((after.status, after.attempts), (Status::Pending, attempts));
            assert_eq!(after.next_at, Some(AT + GAPS[usize::try_from(attempts).unwrap() - 1]));
        }
        assert_eq!(transition(by_hand(0), ended(Outcome::Status, 500), 0).attempts, 1, "it was due at once");
        assert_eq!(transition(by_hand(1), ended(Outcome::Status, 410), 0).status, Status::Failed);
    }

    #[test]
    fn success_ends_it_whatever_came_before() {
        for status in [Status::Pending, Status::Delivered, Status::Failed, Status::Abandoned] {
            let after = transition(DeliveryState { status, ..pending(3) }, ended(Outcome::Delivered, 204), 0);
            assert_eq!((after.status, after.next_at), (Status::Delivered, None));
        }
    }

    #[test]
    fn what_had_ended_gets_one_attempt_and_stays_what_it_was() {
        for status in [Status::Delivered, Status::Failed, Status::Abandoned] {
            for code in [500, 410] {
                let after =
                    transition(DeliveryState { status, ..pending(8) }, ended(Outcome::Status, code), 0);
                assert_eq!((after.status, after.attempts, after.next_at), (status, 8, None));
            }
        }
    }

    #[test]
    fn gone_ends_it_at_once_and_order_is_kept() {
        let gone = transition(pending(0), ended(Outcome::Status, 410), 0);
        assert_eq!((gone.status, gone.next_at), (Status::Failed, None));
        let ordered = DeliveryState { queue: QueueKind::Ordered, ..pending(0) };
        assert_eq!(transition(ordered, ended(Outcome::Timeout, 0), 0).queue, QueueKind::Ordered);
    }
}
