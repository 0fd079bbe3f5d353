//! Refusals in a row on one connection: whoever goes on after many does not listen, and the connection ends.

use std::sync::atomic::{AtomicU32, Ordering};

/// So many end it.
const REFUSALS_MAX: u32 = 100;

/// How many of the last answers on a connection were refusals.
#[derive(Debug, Default)]
pub(crate) struct RefusalStreak(AtomicU32);

impl RefusalStreak {
    /// Notes an answer.
    pub(crate) fn note(&self, is_refusal: bool) {
        let in_a_row = if is_refusal { self.0.load(Ordering::Relaxed) + 1 } else { 0 };
        self.0.store(in_a_row, Ordering::Relaxed);
    }

    /// Were there so many that the connection is to end?
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= REFUSALS_MAX
    }
}
