//! How many deliveries an endpoint is sent at once.

use super::Outcome;
use crate::limits::ENDPOINT_IN_FLIGHT_MAX;

/// How many deliveries may be under way to an endpoint: half as many after each that hung or could not be made, one
/// more after each that was taken. So an endpoint that hangs soon holds one place and not sixteen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    most: usize,
    failing: bool,
}

impl Pace {
    /// Of an endpoint that fails, or does not, as far as is known.
    pub(crate) fn new(failing: bool) -> Self {
        Self { most: if failing { 1 } else { ENDPOINT_IN_FLIGHT_MAX }, failing }
    }

    pub(crate) fn most(self) -> usize {
        self.most
    }

    /// Did the last attempt fail?
    pub(crate) fn is_failing(self) -> bool {
        self.failing
    }

    pub(crate) fn ended(&mut self, outcome: Outcome) {
        self.failing = outcome != Outcome::Delivered;
        self.most = match outcome {
            Outcome::Delivered => (self.most + 1).min(ENDPOINT_IN_FLIGHT_MAX),
            // It answers; that it says no costs nobody else anything.
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
        for most in [8, 4, 2, 1, 1] {
            pace.ended(Outcome::Timeout);
            assert_eq!((pace.most(), pace.is_failing()), (most, true));
        }
        pace.ended(Outcome::Delivered);
        assert_eq!((pace.most(), pace.is_failing()), (2, false));
    }

    proptest! {
        #[test]
        fn there_is_always_a_place_and_never_too_many(failing: bool, ended in proptest::collection::vec(0..4u8, 0..100)) {
            let mut pace = Pace::new(failing);
            for outcome in ended {
                pace.ended([Outcome::Delivered, Outcome::Timeout, Outcome::Status, Outcome::Dns][usize::from(outcome)]);
                prop_assert!((1..=ENDPOINT_IN_FLIGHT_MAX).contains(&pace.most()));
            }
        }
    }
}
