//! How many calls a key has made in the last 60 seconds.
//!
//! The window is counted in cells of half a second. The calls of a cell stay counted until the last of them is 60 seconds
//! old: no 60 seconds ever hold more than the limit, a caller at exactly the limit loses less than 1 %, and nobody waits
//! longer than 60 seconds.

use std::time::Duration;

use portico_kernel::Timestamp;

const SPAN_MICROS: i64 = 60_000_000;
const CELL_MICROS: i64 = 500_000;
/// The cells that may hold a call of the last 60 seconds, with one more for the cell that is filling.
const CELLS: i64 = SPAN_MICROS / CELL_MICROS + 1;
#[expect(clippy::cast_possible_truncation, reason = "it is 121")]
const LENGTH: usize = CELLS as usize;
/// The longest wait that a caller is told.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The calls of half a second.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    count: u32,
    /// When the last of them came, in microseconds from the beginning of the cell.
    last: u32,
}

/// The calls of the last 60 seconds.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Cell `number` is at `number % CELLS`; `None` while there is nothing to count.
    cells: Option<Box<[Cell; LENGTH]>>,
    /// The latest time that was seen, in microseconds.
    latest: i64,
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
    /// Whole seconds until the oldest call leaves the window, or until a call fits again; 1 to 60.
    pub reset_seconds: u64,
}

/// One call's slot in the window, which can be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSlot(i64);

fn at(cell: i64) -> usize {
    usize::try_from(cell.rem_euclid(CELLS)).unwrap_or(0)
}

fn cell_of(micros: i64) -> i64 {
    micros.div_euclid(CELL_MICROS)
}

impl Cell {
    /// Counts a call at that time, which is in this cell.
    fn add(&mut self, micros: i64) {
        let last = u32::try_from(micros.rem_euclid(CELL_MICROS)).unwrap_or(0);
        // What is left of a call that was released does not count.
        self.last = if self.count == 0 { last } else { self.last.max(last) };
        self.count += 1;
    }

    /// When the last call came, if this is the cell of that number.
    fn last_at(self, number: i64) -> i64 {
        number * CELL_MICROS + i64::from(self.last)
    }
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
        let cells = self.cells.as_deref().filter(|_| self.total > 0)?;
        let last = (self.oldest..=cell_of(self.latest)).rev().find(|cell| cells[at(*cell)].count > 0)?;
        Some((self.total, Timestamp::from_micros(cells[at(last)].last_at(last)).min(now)))
    }

    /// Counts a call, if fewer than `limit` are counted; returns its slot.
    pub(crate) fn take(&mut self, now: Timestamp, limit: u32) -> Option<WindowSlot> {
        self.advance(now);
        if self.total >= limit {
            return None;
        }
        let newest = cell_of(self.latest);
        if self.total == 0 {
            self.oldest = newest;
        }
        self.cells.get_or_insert_with(|| Box::new([Cell::default(); LENGTH]))[at(newest)].add(self.latest);
        self.total += 1;
        Some(WindowSlot(newest))
    }

    /// Counts a call that was admitted at `at`, before this server started.
    pub(crate) fn restore(&mut self, now: Timestamp, at: Timestamp) {
        self.advance(now);
        let micros = at.as_micros().min(self.latest);
        if self.latest - micros < SPAN_MICROS {
            let cell = cell_of(micros);
            self.oldest = if self.total == 0 { cell } else { self.oldest.min(cell) };
            self.cells.get_or_insert_with(|| Box::new([Cell::default(); LENGTH]))[self::at(cell)].add(micros);
            self.total += 1;
        }
    }

    /// Removes a call that was counted.
    pub(crate) fn release(&mut self, slot: WindowSlot) {
        let counted = cell_of(self.latest) - slot.0 < CELLS;
        if let Some(cells) = self.cells.as_mut().filter(|_| counted)
            && cells[at(slot.0)].count > 0
        {
            cells[at(slot.0)].count -= 1;
            self.total -= 1;
        }
    }

    /// When another call fits into `limit`; while one fits already, when the oldest call leaves. `None` when no call is
    /// counted.
    pub(crate) fn free_at(&mut self, now: Timestamp, limit: u32) -> Option<Timestamp> {
        self.advance(now);
        let mut leaving = (self.total + 1).saturating_sub(limit).max(1);
        let cells = self.cells.as_deref().filter(|_| self.total > 0)?;
        for cell in self.oldest..=cell_of(self.latest) {
            let Cell { count, .. } = cells[at(cell)];
            if count >= leaving {
                return Some(Timestamp::from_micros(cells[at(cell)].last_at(cell) + SPAN_MICROS));
            }
            leaving -= count;
        }
        None
    }

    /// The status of a caller whose limit is `limit`, of which other servers hold `elsewhere`. `elsewhere_free_at` is when
    /// the first of the calls that those admitted leaves, as far as it is known.
    pub(crate) fn status(
        &mut self,
        now: Timestamp,
        limit: u32,
        elsewhere: u32,
        elsewhere_free_at: Option<Timestamp>,
    ) -> RateLimitStatus {
        let here = limit.saturating_sub(elsewhere);
        let remaining = here.saturating_sub(self.used(now));
        // One that should have left is of no use while there is room. Otherwise a call may fit again at any moment.
        let elsewhere = elsewhere_free_at.filter(|at| elsewhere > 0 && (*at > now || remaining == 0));
        let free_at = self.free_at(now, here).into_iter().chain(elsewhere).min().unwrap_or(now);
        let wait = free_at.since(now).min(WAIT_MAX);
        let reset_seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        RateLimitStatus { limit, remaining, reset_seconds: reset_seconds.max(1) }
    }

    /// Frees the memory while there is nothing to count.
    pub(crate) fn free_memory(&mut self, now: Timestamp) {
        self.advance(now);
        if self.total == 0 {
            self.cells = None;
        }
    }

    /// Drops what has left the window. A clock that was set back a little stands still until it is where it was.
    fn advance(&mut self, now: Timestamp) {
        let (before, micros) = (cell_of(self.latest), now.as_micros());
        if micros <= self.latest {
            // A clock that was far ahead for a moment has made calls that nobody made.
            if before - cell_of(micros) > CELLS {
                *self = Self { latest: micros, ..Self::default() };
            }
            return;
        }
        self.latest = micros;
        let Some(cells) = self.cells.as_deref_mut().filter(|_| self.total > 0) else { return };
        let newest = cell_of(micros);
        let first = newest - CELLS + 1;
        // The cells from here to `newest` take the places of those that leave.
        for passed in (before + 1).max(first)..=newest {
            self.total -= std::mem::take(&mut cells[at(passed)]).count;
        }
        // Of those that stay, only the first can be old enough.
        if cells[at(first)].last_at(first) + SPAN_MICROS <= micros {
            self.total -= std::mem::take(&mut cells[at(first)]).count;
        }
        self.oldest = self.oldest.max(first);
        while self.total > 0 && cells[at(self.oldest)].count == 0 {
            self.oldest += 1;
        }
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
        let status = RateLimitStatus { limit: 1, remaining: 0, reset_seconds: 60 };
        assert_eq!(window.status(start, 1, 0, None), status);
        assert!(
            window.take(start + Duration::from_micros(59_999_999), 1).is_none(),
            "the minute is not over"
        );
        assert!(window.take(start + Duration::from_mins(1), 1).is_some());
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
        assert_eq!(window.free_at(now, 3), Some(now + Duration::from_secs(1)));
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
    fn the_first_call_to_leave_may_be_of_another_server() {
        let (mut window, now) = (Window::default(), Timestamp::from_micros(START));
        let later = |seconds| Some(now + Duration::from_secs(seconds));
        assert_eq!(window.status(now, 5, 2, later(70)).reset_seconds, 60, "clocks differ");
        assert_eq!(window.status(now, 5, 5, None).reset_seconds, 1, "nothing is known");
        window.take(now, 3);
        let mut reset = |elsewhere, free_at| window.status(now, 5, elsewhere, free_at).reset_seconds;
        assert_eq!(reset(2, later(40)), 40);
        assert_eq!(reset(0, later(40)), 60, "it holds nothing any more");
        assert_eq!(reset(2, Some(now)), 60, "it has left, and there is room");
        assert_eq!(reset(4, Some(now)), 1, "it has left, and what is behind it is not known");
        assert_eq!(reset(4, later(12)), 12);
    }

    #[test]
    fn memory_is_held_only_while_something_is_counted() {
        let (mut window, start) = (Window::default(), Timestamp::from_micros(START));
        window.take(start, 5);
        window.free_memory(start);
        assert!(window.cells.is_some());
        window.free_memory(start + Duration::from_mins(2));
        assert!(window.cells.is_none());
        assert_eq!(window.status(start + Duration::from_mins(2), 5, 0, None).remaining, 5);
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
                let at = latest;
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
                    let free_at = window.free_at(now, limit).unwrap();
                    prop_assert!(free_at.since(now) <= WAIT_MAX);
                    prop_assert!(window.take(free_at - Duration::from_micros(1), limit).is_none());
                    now = free_at;
                    prop_assert!(window.take(now, limit).is_some());
                }
            }
        }
    }
}
