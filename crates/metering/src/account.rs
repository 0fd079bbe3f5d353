//! What an account may still spend this month, as far as this server knows without asking.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use portico_kernel::{AccountId, AtZero, Month, Plan, Timestamp};

/// An account in one month.
pub(crate) struct AccountMeter {
    pub(crate) id: AccountId,
    pub(crate) month: Month,
    /// Units that are leased and neither spent nor set aside.
    room: AtomicI64,
    /// Is what is known of the plan still good?
    known: AtomicBool,
    calls_per_minute: AtomicU32,
    allows_at_zero: AtomicBool,
    /// What was free when it was last not enough.
    spent: Mutex<Option<(Timestamp, i64)>>,
    /// A change of the lease of which nobody knows yet whether it came to be.
    unsettled: Mutex<Option<Unsettled>>,
    /// One asks the database at a time; the others wait and find what it got.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// The number after the last record of the journal that spent something leased.
    recorded: AtomicU64,
    last_call: AtomicI64,
}

/// A change of the lease that is under way. It is noted before and forgotten after, so that one that failed, or that was
/// dropped in the middle, can be settled by looking at what the database has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsettled {
    /// The time that the row has if it came to be.
    pub(crate) at: Timestamp,
    /// The units that are to be put into the room,
    pub(crate) units: i64,
    /// if it came to be (a lease), or if it did not (what was given back).
    pub(crate) if_done: bool,
}

impl AccountMeter {
    pub(crate) fn new(id: AccountId, month: Month) -> Self {
        Self {
            id,
            month,
            room: AtomicI64::new(0),
            known: AtomicBool::new(false),
            calls_per_minute: AtomicU32::new(0),
            allows_at_zero: AtomicBool::new(false),
            spent: Mutex::new(None),
            unsettled: Mutex::new(None),
            asking: tokio::sync::Mutex::new(()),
            recorded: AtomicU64::new(0),
            last_call: AtomicI64::new(0),
        }
    }

    /// Sets `units` aside, if there is room.
    pub(crate) fn take(&self, units: i64) -> bool {
        let enough = |room: i64| (room >= units).then_some(room - units);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    /// Puts back what was not spent, or what was leased.
    pub(crate) fn put(&self, units: i64) {
        self.room.fetch_add(units, Ordering::Relaxed);
    }

    /// What could be taken now.
    pub(crate) fn room(&self) -> i64 {
        self.room.load(Ordering::Relaxed)
    }

    /// Takes all the room there is.
    pub(crate) fn take_all(&self) -> i64 {
        self.room.swap(0, Ordering::Relaxed).max(0)
    }

    pub(crate) fn learn(&self, plan: &Plan) {
        self.calls_per_minute.store(plan.calls_per_minute, Ordering::Relaxed);
        self.allows_at_zero.store(plan.at_zero == AtZero::Allow, Ordering::Relaxed);
        self.known.store(true, Ordering::Release);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// What is known may have changed: ask before the next call.
    pub(crate) fn forget(&self) {
        self.known.store(false, Ordering::Release);
        self.set_spent(None);
    }

    pub(crate) fn calls_per_minute(&self) -> u32 {
        self.calls_per_minute.load(Ordering::Relaxed)
    }

    pub(crate) fn allows_at_zero(&self) -> bool {
        self.allows_at_zero.load(Ordering::Relaxed)
    }

    pub(crate) fn set_unsettled(&self, change: Option<Unsettled>) {
        *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner) = change;
    }

    pub(crate) fn unsettled(&self) -> Option<Unsettled> {
        *self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_spent(&self, spent: Option<(Timestamp, i64)>) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = spent;
    }

    pub(crate) fn spent(&self) -> Option<(Timestamp, i64)> {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_call(&self, now: Timestamp) {
        self.last_call.store(now.as_micros(), Ordering::Relaxed);
    }

    pub(crate) fn last_call(&self) -> Timestamp {
        Timestamp::from_micros(self.last_call.load(Ordering::Relaxed))
    }

    pub(crate) fn note_record(&self, number: u64) {
        self.recorded.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// Is everything that it spent counted, once the journal is counted up to `counted`?
    pub(crate) fn is_counted(&self, counted: u64) -> bool {
        self.recorded.load(Ordering::Relaxed) <= counted
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However units are taken, put back and leased: what is out never passes what was put in.
        #[test]
        fn no_more_is_taken_than_was_leased(steps in vec((0u8..3, 1i64..=400), 1..200)) {
            let meter = AccountMeter::new(AccountId::from_u128(1), Month::from_number(24_000).unwrap());
            let (mut leased, mut out) = (0, Vec::new());
            for (kind, units) in steps {
                match kind {
                    0 => {
                        meter.put(units);
                        leased += units;
                    }
                    1 => {
                        let fits = out.iter().sum::<i64>() + units <= leased;
                        prop_assert_eq!(meter.take(units), fits, "taken if and only if it fits");
                        out.extend(fits.then_some(units));
                    }
                    _ => {
                        if let Some(units) = out.pop() {
                            meter.put(units);
                        }
                    }
                }
            }
            prop_assert_eq!(meter.take_all(), leased - out.iter().sum::<i64>());
        }
    }
}
