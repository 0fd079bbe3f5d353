//! How many calls a key has made in the last 60 seconds.
//!
//! The window is counted in cells of half a second. A call stays counted until the whole of its cell is more than 60
//! seconds old: no 60 seconds ever hold more than the limit, and a caller at exactly the limit loses less than 1 %.

use std::time::Duration;

use portico_kernel::Timestamp;

const SPAN_MICROS: i64 = 60_000_000;
const CELL_MICROS: i64 = 500_000;
/// The cells that may hold a call of the last 60 seconds, with one more for the cell that is filling.
const CELLS: i64 = SPAN_MICROS / CELL_MICROS + 1;
#[expect(clippy::cast_possible_truncation, reason = "it is 121")]
const LENGTH: usize = CELLS as usize;

/// The calls of the last 60 seconds.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The count of cell `number` is at `number % CELLS`; `None` while there is nothing to count.
    counts: Option<Box<[u32; LENGTH]>>,
    /// The cell that is filling.
    newest: i64,
    /// No cell before this one has a call.
    oldest: i64,
    total: u32,
}

/// What the `RateLimit` headers tell a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitStatus {
    /// Calls in any 60 seconds.
    pub limit: u32,
    /// Calls that are left now.
    pub remaining: u32,
    /// Whole seconds until the oldest call leaves the window, or until a call fits again; at least 1.
    pub reset_seconds: u64,
}

/// One call's slot in the window, which can be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSlot(i64);

fn at(cell: i64) -> usize {
    usize::try_from(cell.rem_euclid(CELLS)).unwrap_or(0)
}

impl Window {
    /// Calls counted now.
    pub(crate) fn used(&mut self, now: Timestamp) -> u32 {
        self.advance(now);
        self.total
    }

    /// The calls counted now, and a time that none of them is later than; `None` when there are none.
    pub(crate) fn latest(&mut self, now: Timestamp) -> Option<(u32, Timestamp)> {
        self.advance(now);
        let counts = self.counts.as_deref().filter(|_| self.total > 0)?;
        let cell = (self.oldest..=self.newest).rev().find(|cell| counts[at(*cell)] > 0)?;
        Some((self.total, Timestamp::from_micros((cell + 1) * CELL_MICROS).min(now)))
    }

    /// Counts a call, if fewer than `limit` are counted; returns its slot.
    pub(crate) fn take(&mut self, now: Timestamp, limit: u32) -> Option<WindowSlot> {
        self.advance(now);
        if self.total >= limit {
            return None;
        }
        if self.total == 0 {
            self.oldest = self.newest;
        }
        self.counts.get_or_insert_with(|| Box::new([0; LENGTH]))[at(self.newest)] += 1;
        self.total += 1;
        Some(WindowSlot(self.newest))
    }

    /// Counts a call that was admitted at `at`, before this server started.
    pub(crate) fn restore(&mut self, now: Timestamp, at: Timestamp) {
        self.advance(now);
        let cell = at.as_micros().div_euclid(CELL_MICROS).min(self.newest);
        if self.newest - cell < CELLS {
            self.oldest = if self.total == 0 { cell } else { self.oldest.min(cell) };
            self.counts.get_or_insert_with(|| Box::new([0; LENGTH]))[self::at(cell)] += 1;
            self.total += 1;
        }
    }

    /// Removes a call that was counted.
    pub(crate) fn release(&mut self, slot: WindowSlot) {
        let counted = self.newest - slot.0 < CELLS;
        if let Some(counts) = self.counts.as_mut().filter(|_| counted)
            && counts[at(slot.0)] > 0
        {
            counts[at(slot.0)] -= 1;
            self.total -= 1;
        }
    }

    /// How long until another call fits into `limit`; while one fits already, how long until the oldest call leaves.
    pub(crate) fn time_until_free(&mut self, now: Timestamp, limit: u32) -> Duration {
        self.advance(now);
        let mut leaving = (self.total + 1).saturating_sub(limit).max(1);
        let Some(counts) = self.counts.as_deref().filter(|_| self.total > 0) else { return Duration::ZERO };
        for cell in self.oldest..=self.newest {
            let count = counts[at(cell)];
            if count >= leaving {
                return Timestamp::from_micros((cell + CELLS) * CELL_MICROS).since(now);
            }
            leaving -= count;
        }
        Duration::ZERO
    }

    /// The status of a caller whose limit is `limit`, of which other servers hold `elsewhere`.
    pub(crate) fn status(&mut self, now: Timestamp, limit: u32, elsewhere: u32) -> RateLimitStatus {
        let here = limit.saturating_sub(elsewhere);
        let wait = self.time_until_free(now, here);
        let reset_seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        RateLimitStatus {
            limit,
            remaining: here.saturating_sub(self.total),
            reset_seconds: reset_seconds.max(1),
        }
    }

    /// Frees the memory while there is nothing to count.
    pub(crate) fn free_memory(&mut self, now: Timestamp) {
        self.advance(now);
        if self.total == 0 {
            self.counts = None;
        }
    }

    /// Drops what has left the window. A clock that was set back a little stands still until it is where it was.
    fn advance(&mut self, now: Timestamp) {
        let cell = now.as_micros().div_euclid(CELL_MICROS);
        if cell <= self.newest {
            // A clock that was far ahead for a moment has made calls that nobody made.
            if self.newest - cell > CELLS {
                *self = Self { newest: cell, ..Self::default() };
            }
            return;
        }
        if let Some(counts) = self.counts.as_deref_mut().filter(|_| self.total > 0) {
            // The cells from here to `cell` take the places of those that leave.
            for passed in (self.newest + 1).max(cell - CELLS + 1)..=cell {
                self.total -= std::mem::take(&mut counts[at(passed)]);
            }
            self.oldest = self.oldest.max(cell - CELLS + 1);
            while self.total > 0 && counts[at(self.oldest)] == 0 {
                self.oldest += 1;
            }
        }
        self.newest = cell;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const START: i64 = 1_800_000_000_000_000;

    #[test]
    fn a_call_leaves_after_its_minute() {
        let (mut window, start) = (Window::default(), Timestamp::from_micros(START));
        assert!(window.take(start, 1).is_some());
        assert!(window.take(start, 1).is_none());
        assert_eq!(window.status(start, 1, 0), RateLimitStatus { limit: 1, remaining: 0, reset_seconds: 61 });
        assert!(window.take(start + Duration::from_mins(1), 1).is_none(), "the minute is not over");
        assert!(window.take(start + Duration::from_millis(60_500), 1).is_some());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let (mut window, start) = (Window::default(), Timestamp::from_micros(START));
        let slot = window.take(start, 1).unwrap();
        window.release(slot);
        assert!(window.take(start, 1).is_some());
        // Long gone: nothing of what is counted now is taken away.
        let later = start + Duration::from_mins(10);
        assert!(window.take(later, 1).is_some());
        window.release(slot);
        assert_eq!(window.used(later), 1);
    }

    #[test]
    fn what_was_admitted_before_a_restart_counts() {
        let (mut window, now) = (Window::default(), Timestamp::from_micros(START));
        for seconds in [90, 59, 30, 1] {
            window.restore(now, now - Duration::from_secs(seconds));
        }
        assert_eq!(window.used(now), 3, "the first has left");
        assert_eq!(window.time_until_free(now, 3), Duration::from_millis(1_500));
        assert_eq!(window.used(now + Duration::from_secs(31)), 1);
    }

    #[test]
    fn a_clock_that_was_far_ahead_is_forgotten() {
        let (mut window, start) = (Window::default(), Timestamp::from_micros(START));
        assert!(window.take(start + Duration::from_hours(1), 1).is_some());
        assert!(window.take(start, 1).is_some());
        assert!(window.take(start, 1).is_none());
    }

    #[test]
    fn memory_is_held_only_while_something_is_counted() {
        let (mut window, start) = (Window::default(), Timestamp::from_micros(START));
        window.take(start, 5);
        window.free_memory(start);
        assert!(window.counts.is_some());
        window.free_memory(start + Duration::from_mins(2));
        assert!(window.counts.is_none());
        assert_eq!(window.status(start + Duration::from_mins(2), 5, 0).remaining, 5);
    }

    proptest! {
        /// Whenever calls come, and however often the clock is set back: no 60 seconds hold more than the limit, and a
        /// call is refused only if the last 60.5 seconds hold it.
        #[test]
        fn no_minute_holds_more_than_the_limit(
            gaps in vec(prop_oneof![0i64..3_000_000, Just(0), 0i64..70_000_000, -2_000_000i64..0], 1..400),
            limit in 1u32..20,
        ) {
            let (mut window, mut now, mut latest) = (Window::default(), START, 0);
            let mut admitted: Vec<i64> = Vec::new();
            for gap in gaps {
                // Set back by less than a window; further back than that, it begins anew.
                now = (now + gap).max(latest - SPAN_MICROS / 2);
                latest = latest.max(now);
                // As long as the clock is back, calls count as made when it last was ahead.
                let counted = latest.div_euclid(CELL_MICROS) * CELL_MICROS;
                let at = if now.div_euclid(CELL_MICROS) * CELL_MICROS < counted { latest } else { now };
                let within = |span: i64| admitted.iter().filter(|made| at - **made < span).count();
                if window.take(Timestamp::from_micros(now), limit).is_some() {
                    prop_assert!(within(SPAN_MICROS) < limit as usize, "over the limit");
                    admitted.push(at);
                } else {
                    prop_assert!(within(SPAN_MICROS + CELL_MICROS) >= limit as usize, "refused without need");
                }
            }
        }

        /// After as long as it said, there is room.
        #[test]
        fn there_is_room_when_it_was_promised(gaps in vec(0i64..3_000_000, 1..100), limit in 1u32..20) {
            let (mut window, mut now) = (Window::default(), Timestamp::from_micros(START));
            for gap in gaps {
                now = now + Duration::from_micros(gap.unsigned_abs());
                if window.take(now, limit).is_none() {
                    let wait = window.time_until_free(now, limit);
                    prop_assert!(window.take(now + wait - Duration::from_micros(1), limit).is_none());
                    now = now + wait;
                    prop_assert!(window.take(now, limit).is_some());
                }
            }
        }
    }
}
