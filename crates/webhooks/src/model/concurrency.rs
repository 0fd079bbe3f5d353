//! How many deliveries an endpoint is sent at once.

use super::Outcome;
use crate::limits::{ENDPOINT_IN_FLIGHT_MAX, FIRST_IN_FLIGHT, SLOW_MS};

/// How many deliveries may be under way to an endpoint: two at first, one more after each that was taken, half as many
/// after each that hung or could not be made. So a good one soon has all its places, and one that hangs never had many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    most: usize,
    slow: bool,
}

impl Pace {
    /// Of an endpoint that fails, or does not, as far as is known.
    pub(crate) fn new(failing: bool) -> Self {
        Self { most: if failing { 1 } else { FIRST_IN_FLIGHT }, slow: false }
    }

    pub(crate) fn most(self) -> usize {
        self.most
    }

    /// Did the last attempt take long? One that is refused at once costs nobody else anything.
    pub(crate) fn is_slow(self) -> bool {
        self.slow
    }

    pub(crate) fn ended(&mut self, outcome: Outcome, duration_ms: i64) {
        self.slow = duration_ms >= SLOW_MS;
        self.most = match outcome {
            Outcome::Delivered => (self.most + 1).min(ENDPOINT_IN_FLIGHT_MAX),
            // It answers.
            Outcome::Status | Outcome::Redirect => self.most,
            _ => (self.most / 2).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_that_hangs_soon_holds_one_place() {
        let mut pace = Pace::new(false);
        for most in 3..=ENDPOINT_IN_FLIGHT_MAX {
            pace.ended(Outcome::Delivered, 1);
            assert_eq!((pace.most(), pace.is_slow()), (most, false));
        }
        for most in [8, 4, 2, 1, 1] {
            pace.ended(Outcome::Timeout, 15_000);
            assert_eq!((pace.most(), pace.is_slow()), (most, true));
        }
        pace.ended(Outcome::Delivered, SLOW_MS);
        assert_eq!((pace.most(), pace.is_slow()), (2, true), "taken, and slow");
        pace.ended(Outcome::Delivered, 1);
        assert_eq!((pace.most(), pace.is_slow()), (3, false));
    }

    proptest! {
        #[test]
        fn there_is_always_a_place_and_never_too_many(failing: bool, ended in proptest::collection::vec(0..4u8, 0..100)) {
            let mut pace = Pace::new(failing);
            for outcome in ended {
                let outcome = [Outcome::Delivered, Outcome::Timeout, Outcome::Status, Outcome::Dns][usize::from(outcome)];
                pace.ended(outcome, 1);
                prop_assert!((1..=ENDPOINT_IN_FLIGHT_MAX).contains(&pace.most()));
            }
        }
    }
}
