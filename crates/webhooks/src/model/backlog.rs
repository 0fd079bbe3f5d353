//! How many deliveries may be pending.

use crate::limits::{ACCOUNT_PENDING_MAX, COMMON_PENDING_MAX, ENDPOINT_PENDING_MAX};

/// Returns how many more deliveries may be pending for each endpoint of an account, given how many are. Each endpoint has a
/// share of its own; what goes beyond the shares comes out of the part that is common to all.
pub(crate) fn room(pending: &[i64]) -> Vec<i64> {
    let endpoints = i64::try_from(pending.len()).unwrap_or(i64::MAX).max(1);
    let share = (ACCOUNT_PENDING_MAX - COMMON_PENDING_MAX) / endpoints;
    let common: i64 = pending.iter().map(|pending| (pending - share).max(0)).sum();
    let most = if common < COMMON_PENDING_MAX { ENDPOINT_PENDING_MAX } else { share };
    pending.iter().map(|pending| (most - pending).max(0)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Which of these have no room, by their place.
    fn full(pending: &[i64]) -> Vec<usize> {
        (0..).zip(room(pending)).filter(|(_, room)| *room == 0).map(|(at, _)| at).collect()
    }

    #[test]
    fn one_endpoint_has_its_own_maximum() {
        assert_eq!(room(&[]), [0; 0]);
        assert_eq!(room(&[0]), [5_000]);
        assert_eq!(room(&[4_999]), [1]);
        assert_eq!(room(&[5_100]), [0]);
        assert_eq!(room(&[5_000, 0, 1_000]), [0, 5_000, 4_000]);
    }

    #[test]
    fn an_endpoint_that_keeps_up_goes_on_beside_others_that_are_full() {
        // A share is 5,000 / 4.
        assert_eq!(full(&[4_000, 4_000, 0, 1_249]), [0, 1]);
        assert_eq!(full(&[4_000, 4_000, 0, 1_250]), [0, 1, 3]);
        assert_eq!(full(&[3_000, 3_000, 0, 1_250]), [0; 0], "there is room in the common part");
    }

    proptest! {
        #[test]
        fn an_account_never_has_more_than_its_maximum(steps in proptest::collection::vec(0..50usize, 0..800)) {
            let mut pending = vec![0; 50];
            for at in steps {
                // Many at once, so that the maximum is reached.
                if room(&pending)[at] > 0 {
                    pending[at] += 50;
                }
            }
            let all: i64 = pending.iter().sum();
            prop_assert!(all <= ACCOUNT_PENDING_MAX + 50 * 50);
        }
    }
}
