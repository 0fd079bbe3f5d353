//! How many deliveries an endpoint is sent at once: an adaptive concurrency limit.

use super::Outcome;
use crate::limits::{ENDPOINT_IN_FLIGHT_MAX, FIRST_IN_FLIGHT, SLOW_MS};

/// How many deliveries may be in flight to an endpoint: two at first, one more after each that was delivered, half as many
/// after each that timed out or could not connect. So a good endpoint soon has the maximum, and one that hangs never had
/// many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConcurrencyLimit {
    current: usize,
    slow: bool,
}

impl ConcurrencyLimit {
    /// The limit at the start; lower for an endpoint that was failing.
    pub(crate) fn new(failing: bool) -> Self {
        Self { current: if failing { 1 } else { FIRST_IN_FLIGHT }, slow: false }
    }

    pub(crate) fn current(self) -> usize {
        self.current
    }

    /// Returns whether the last attempt took long. One that is refused at once costs nobody else anything.
    pub(crate) fn is_slow(self) -> bool {
        self.slow
    }

    /// Adapts the limit to an attempt that ended.
    pub(crate) fn record(&mut self, outcome: Outcome, duration_ms: i64) {
        self.slow = duration_ms >= SLOW_MS;
        self.current = match outcome {
            Outcome::Delivered => (self.current + 1).min(ENDPOINT_IN_FLIGHT_MAX),
            // It answers.
            Outcome::Status | Outcome::Redirect => self.current,
            _ => (self.current / 2).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_that_hangs_soon_has_one_slot() {
        let mut limit = ConcurrencyLimit::new(false);
        for current in 3..=ENDPOINT_IN_FLIGHT_MAX {
            limit.record(Outcome::Delivered, 1);
            assert_eq!((limit.current(), limit.is_slow()), (current, false));
        }
        for current in [8, 4, 2, 1, 1] {
            limit.record(Outcome::Timeout, 15_000);
            assert_eq!((limit.current(), limit.is_slow()), (current, true));
        }
        limit.record(Outcome::Delivered, SLOW_MS);
        assert_eq!((limit.current(), limit.is_slow()), (2, true), "taken, and slow");
        limit.record(Outcome::Delivered, 1);
        assert_eq!((limit.current(), limit.is_slow()), (3, false));
    }

    proptest! {
        #[test]
        fn there_is_always_a_slot_and_never_too_many(failing: bool, ended in proptest::collection::vec(0..4u8, 0..100)) {
            let mut limit = ConcurrencyLimit::new(failing);
            for outcome in ended {
                let outcome = [Outcome::Delivered, Outcome::Timeout, Outcome::Status, Outcome::Dns][usize::from(outcome)];
                limit.record(outcome, 1);
                prop_assert!((1..=ENDPOINT_IN_FLIGHT_MAX).contains(&limit.current()));
            }
        }
    }
}
