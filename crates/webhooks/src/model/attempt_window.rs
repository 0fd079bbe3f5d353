//! How many attempts were begun in the last minute.

use std::collections::VecDeque;
use std::time::Duration;

use portico_kernel::Timestamp;

/// The seconds that a minute may touch.
const CELLS: i64 = 61;

/// The attempts of the last minute, counted by the second, so that no 60 seconds hold more than the limit.
#[derive(Debug, Default)]
pub(crate) struct AttemptWindow {
    /// Seconds in which attempts were begun, oldest first, and how many.
    cells: VecDeque<(i64, u32)>,
}

impl AttemptWindow {
    /// Counts an attempt that begins now.
    pub(crate) fn add(&mut self, now: Timestamp) {
        let second = now.as_seconds();
        match self.cells.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.cells.push_back((second, 1)),
        }
    }

    /// Until when it must be remembered, given how long a pause makes it forgotten: with few attempts not at all, because
    /// as many after each pause are no more than the limit.
    pub(crate) fn remembered_until(&self, limit: u32, pause: Duration) -> Option<Timestamp> {
        let count: u64 = self.cells.iter().map(|(_, count)| u64::from(*count)).sum();
        let pauses = u64::try_from(CELLS).unwrap_or(u64::MAX).div_ceil(pause.as_secs().max(1));
        let (last, _) = self.cells.back().filter(|_| count * (pauses + 1) > u64::from(limit))?;
        Some(Timestamp::from_seconds(last + CELLS))
    }

    /// When another attempt may begin, if not now.
    pub(crate) fn next_at(&mut self, now: Timestamp, limit: u32) -> Option<Timestamp> {
        let second = now.as_seconds();
        // Also those that lie ahead, should the clock have been set back.
        self.cells.retain(|(at, _)| (second - CELLS + 1..=second).contains(at));
        let all: u64 = self.cells.iter().map(|(_, count)| u64::from(*count)).sum();
        let mut over = (all + 1).checked_sub(u64::from(limit)).filter(|over| *over > 0)?;
        for (at, count) in &self.cells {
            over = over.saturating_sub(u64::from(*count));
            if over == 0 {
                return Some(Timestamp::from_seconds(at + CELLS));
            }
        }
        Some(now + Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    #[test]
    fn what_is_over_the_limit_waits_until_the_oldest_is_a_minute_old() {
        let mut window = AttemptWindow::default();
        for second in [100, 100, 110] {
            assert_eq!(window.next_at(at(second), 3), None);
            window.add(at(second));
        }
        assert_eq!(window.next_at(at(110), 3), Some(at(161)));
        assert_eq!(window.next_at(at(110), 4), None, "a plan may give more");
        assert_eq!(window.next_at(at(110), 1), Some(at(171)), "or less");
        assert_eq!(window.next_at(at(161), 3), None);
        window.add(at(161));
        window.add(at(161));
        assert_eq!(window.next_at(at(161), 3), Some(at(171)));
    }

    #[test]
    fn what_could_pass_the_limit_again_and_again_is_remembered_for_a_minute() {
        let mut window = AttemptWindow::default();
        let until = |window: &AttemptWindow| window.remembered_until(16, Duration::from_secs(10));
        assert_eq!(until(&window), None);
        window.add(at(100));
        window.add(at(101));
        assert_eq!(until(&window), None, "eight times two in 61 seconds are 16");
        window.add(at(102));
        assert_eq!(until(&window), Some(at(163)));
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nobody_up() {
        let mut window = AttemptWindow::default();
        window.add(at(10_000));
        assert_eq!(window.next_at(at(100), 1), None);
    }

    proptest! {
        #[test]
        fn no_minute_holds_more_than_the_limit(gaps in proptest::collection::vec(0..20_000_000i64, 1..200)) {
            let (mut window, mut begun, mut micros) = (AttemptWindow::default(), Vec::new(), 0);
            for gap in gaps {
                micros += gap;
                let now = Timestamp::from_micros(micros);
                if let Some(next) = window.next_at(now, 5) {
                    prop_assert!(next > now);
                } else {
                    window.add(now);
                    begun.push(micros);
                }
            }
            for first in &begun {
                let held = begun.iter().filter(|at| (*first..*first + 60_000_000).contains(*at)).count();
                prop_assert!(held <= 5);
            }
        }
    }
}
