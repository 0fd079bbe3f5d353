//! How many items of a queue begin in a second.

use std::sync::{Mutex, PoisonError};

use portico_kernel::Timestamp;

/// Counts what begins in the second that it is.
pub(super) struct Pace {
    per_second: usize,
    /// The second in which items were last begun, and how many.
    begun: Mutex<(i64, usize)>,
}

impl Pace {
    pub(super) const fn new(per_second: usize) -> Self {
        Self { per_second, begun: Mutex::new((0, 0)) }
    }

    /// How many more may begin now.
    pub(super) fn room(&self, now: Timestamp) -> usize {
        let (second, begun) = *self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if second == now.as_seconds() { self.per_second.saturating_sub(begun) } else { self.per_second }
    }

    /// Counts what begins now.
    pub(super) fn note(&self, now: Timestamp, items: usize) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if begun.0 == now.as_seconds() { begun.1 } else { 0 };
        *begun = (now.as_seconds(), before + items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_room_for_as_many() {
        let pace = Pace::new(8);
        let at = |millis: i64| Timestamp::from_micros(millis * 1_000);
        assert_eq!(pace.room(at(5_000)), 8);
        pace.note(at(5_000), 5);
        pace.note(at(5_900), 3);
        assert_eq!((pace.room(at(5_999)), pace.room(at(6_000))), (0, 8));
        assert_eq!(Pace::new(usize::MAX).room(at(0)), usize::MAX);
    }
}
