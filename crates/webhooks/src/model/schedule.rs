//! When a delivery is tried again.

use std::time::Duration;

use crate::limits::{GAPS, JITTER_LEAST, JITTER_PART};

/// Returns the gap after the attempt of that number, the first being 1; `None` after the last. `chance`, any random
/// number, makes it longer, and so may the receiver by `Retry-After`, up to the gap that would follow.
pub(crate) fn next_gap(attempt: i64, chance: u32, retry_after: Option<Duration>) -> Option<Duration> {
    let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
    let gap = *GAPS.get(index)?;
    let jitter = (gap / JITTER_PART).max(JITTER_LEAST);
    let planned = gap + jitter.mul_f64(f64::from(chance) / f64::from(u32::MAX));
    let latest = GAPS.get(index + 1).copied().unwrap_or(gap);
    Some(retry_after.map_or(planned, |asked| planned.max(asked.min(latest))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::ATTEMPTS_MAX;

    #[test]
    fn eight_attempts_take_about_28_hours() {
        let gaps: Vec<_> = (1..=ATTEMPTS_MAX).map_while(|attempt| next_gap(attempt, 0, None)).collect();
        assert_eq!(gaps, GAPS);
        let all: Duration = gaps.iter().sum();
        assert_eq!(all.as_secs(), 5 + 5 * 60 + 30 * 60 + (2 + 5 + 10 + 10) * 3_600);
        assert_eq!(next_gap(ATTEMPTS_MAX, 0, Some(Duration::from_secs(1))), None);
        assert_eq!(next_gap(0, 0, None), None, "before the first there is no gap");
    }

    #[test]
    fn a_receiver_may_only_delay_and_only_to_the_next_gap() {
        let asked =
            |attempt, seconds| next_gap(attempt, 0, Some(Duration::from_secs(seconds))).unwrap().as_secs();
        assert_eq!(asked(1, 1), 5, "never earlier");
        assert_eq!(asked(1, 60), 60);
        assert_eq!(asked(1, 100_000), 300, "at most to the next gap");
        assert_eq!(asked(7, 1_000_000), 36_000, "after which there is none");
    }

    proptest! {
        #[test]
        fn chance_adds_a_twentieth_and_at_least_a_second(attempt in 1..ATTEMPTS_MAX, chance: u32) {
            let gap = GAPS[usize::try_from(attempt).unwrap() - 1];
            let wait = next_gap(attempt, chance, None).unwrap();
            prop_assert!(wait >= gap);
            prop_assert!(wait <= gap + (gap / 20).max(Duration::from_secs(1)));
        }
    }
}
