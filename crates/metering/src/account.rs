//! The units of an account that this server may spend without asking the database.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use portico_kernel::{AccountId, AtZero, Month, Plan, Timestamp};

/// An account in one month.
pub(crate) struct AccountMeter {
    pub(crate) id: AccountId,
    pub(crate) month: Month,
    /// Leased units that are neither spent nor taken by a call that runs.
    available: AtomicI64,
    /// Are the two values of the plan below loaded, and still good?
    plan_known: AtomicBool,
    calls_per_minute: AtomicU32,
    allows_at_zero: AtomicBool,
    /// The plan's name.
    plan: Mutex<Arc<str>>,
    /// Units that no server had leased when this one last asked.
    free: AtomicI64,
    /// The last time that there were not enough units.
    shortage: Mutex<Option<Shortage>>,
    /// A change of the lease of which it is not known yet whether it was committed.
    pending_change: Mutex<Option<PendingLeaseChange>>,
    /// Held while the lease is changed; other calls wait and use what was leased.
    pub(crate) lease_lock: tokio::sync::Mutex<()>,
    /// The number after the last record of the journal that spent leased units.
    recorded: AtomicU64,
    /// The records from this number on that are not counted.
    uncounted_from: AtomicU64,
    uncounted: AtomicU32,
    last_call: AtomicI64,
}

/// A change of the lease whose commit may or may not have happened. It is set before the commit and removed after it, so
/// that after a failure, or when the future was dropped in between, the row of the lease tells what happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingLeaseChange {
    /// The `renewed_at` of the row, if it was committed.
    pub(crate) at: Timestamp,
    /// The units to add to those available,
    pub(crate) units: i64,
    /// if it was committed (a lease), or if it was not (a release).
    pub(crate) if_committed: bool,
}

/// There were not enough units.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shortage {
    pub(crate) at: Timestamp,
    /// How many were free.
    pub(crate) free: i64,
}

impl AccountMeter {
    pub(crate) fn new(id: AccountId, month: Month) -> Self {
        Self {
            id,
            month,
            available: AtomicI64::new(0),
            plan_known: AtomicBool::new(false),
            calls_per_minute: AtomicU32::new(0),
            allows_at_zero: AtomicBool::new(false),
            plan: Mutex::new("".into()),
            free: AtomicI64::new(0),
            shortage: Mutex::new(None),
            pending_change: Mutex::new(None),
            lease_lock: tokio::sync::Mutex::new(()),
            recorded: AtomicU64::new(0),
            uncounted_from: AtomicU64::new(0),
            uncounted: AtomicU32::new(0),
            last_call: AtomicI64::new(0),
        }
    }

    /// Takes `units`, if there are enough; returns whether there were.
    pub(crate) fn take(&self, units: i64) -> bool {
        let enough = |available: i64| (available >= units).then_some(available - units);
        self.available.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    /// Adds units that were leased or refunded.
    pub(crate) fn add(&self, units: i64) {
        self.available.fetch_add(units, Ordering::Relaxed);
    }

    /// Units that could be taken now.
    pub(crate) fn available(&self) -> i64 {
        self.available.load(Ordering::Relaxed)
    }

    /// Takes all available units.
    pub(crate) fn take_all(&self) -> i64 {
        self.available.swap(0, Ordering::Relaxed).max(0)
    }

    pub(crate) fn set_plan(&self, plan: &Plan) {
        self.calls_per_minute.store(plan.calls_per_minute, Ordering::Relaxed);
        self.allows_at_zero.store(plan.at_zero == AtZero::Allow, Ordering::Relaxed);
        let mut name = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if **name != *plan.name {
            *name = plan.name.as_str().into();
        }
        self.plan_known.store(true, Ordering::Release);
    }

    pub(crate) fn has_plan(&self) -> bool {
        self.plan_known.load(Ordering::Acquire)
    }

    /// The plan or the grants may have changed: the next call loads them again.
    pub(crate) fn forget_plan(&self) {
        self.plan_known.store(false, Ordering::Release);
        self.set_shortage(None);
    }

    /// The name of the plan.
    pub(crate) fn plan(&self) -> Arc<str> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets how many units no server has leased.
    pub(crate) fn set_free(&self, free: i64) {
        self.free.store(free, Ordering::Relaxed);
    }

    /// Units that remain, but for what other servers leased and did not use, or leased and used since this one last asked.
    pub(crate) fn remaining(&self) -> i64 {
        self.free.load(Ordering::Relaxed).saturating_add(self.available())
    }

    pub(crate) fn calls_per_minute(&self) -> u32 {
        self.calls_per_minute.load(Ordering::Relaxed)
    }

    pub(crate) fn allows_at_zero(&self) -> bool {
        self.allows_at_zero.load(Ordering::Relaxed)
    }

    pub(crate) fn set_pending_change(&self, change: Option<PendingLeaseChange>) {
        *self.pending_change.lock().unwrap_or_else(PoisonError::into_inner) = change;
    }

    pub(crate) fn pending_change(&self) -> Option<PendingLeaseChange> {
        *self.pending_change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_shortage(&self, shortage: Option<Shortage>) {
        *self.shortage.lock().unwrap_or_else(PoisonError::into_inner) = shortage;
    }

    pub(crate) fn shortage(&self) -> Option<Shortage> {
        *self.shortage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_call(&self, now: Timestamp) {
        self.last_call.store(now.as_micros(), Ordering::Relaxed);
    }

    pub(crate) fn last_call(&self) -> Timestamp {
        Timestamp::from_micros(self.last_call.load(Ordering::Relaxed))
    }

    /// Notes a record of the journal, which is counted up to `counted`.
    pub(crate) fn note_record(&self, number: u64, counted: u64) {
        self.recorded.fetch_max(number + 1, Ordering::Relaxed);
        if self.uncounted(counted) == 0 {
            self.uncounted_from.store(number, Ordering::Relaxed);
            self.uncounted.store(0, Ordering::Relaxed);
        }
        self.uncounted.fetch_add(1, Ordering::Relaxed);
    }

    /// About how many records it has that are not counted, once the journal is counted up to `counted`. Where counting goes
    /// on, it is less than there are; where it stands still, it is all of them.
    pub(crate) fn uncounted(&self, counted: u64) -> u32 {
        let is_behind = self.uncounted_from.load(Ordering::Relaxed) >= counted;
        if is_behind { self.uncounted.load(Ordering::Relaxed) } else { 0 }
    }

    /// Is everything that it spent in the database, once the journal is counted up to `counted`?
    pub(crate) fn is_counted(&self, counted: u64) -> bool {
        self.recorded.load(Ordering::Relaxed) <= counted
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_add_up_while_counting_stands_still() {
        let meter = AccountMeter::new(AccountId::from_u128(1), Month::from_number(24_000).unwrap());
        assert_eq!(meter.uncounted(0), 0);
        (5..15).for_each(|number| meter.note_record(number, 5));
        assert_eq!((meter.uncounted(5), meter.uncounted(15)), (10, 0));
        meter.note_record(20, 15);
        assert_eq!(meter.uncounted(15), 1);
    }

    proptest! {
        /// However units are taken, put back and leased: what is out never passes what was put in.
        #[test]
        fn no_more_is_taken_than_was_leased(steps in vec((0u8..3, 1i64..=400), 1..200)) {
            let meter = AccountMeter::new(AccountId::from_u128(1), Month::from_number(24_000).unwrap());
            let (mut leased, mut out) = (0, Vec::new());
            for (kind, units) in steps {
                match kind {
                    0 => {
                        meter.add(units);
                        leased += units;
                    }
                    1 => {
                        let fits = out.iter().sum::<i64>() + units <= leased;
                        prop_assert_eq!(meter.take(units), fits, "taken if and only if it fits");
                        out.extend(fits.then_some(units));
                    }
                    _ => {
                        if let Some(units) = out.pop() {
                            meter.add(units);
                        }
                    }
                }
            }
            prop_assert_eq!(meter.take_all(), leased - out.iter().sum::<i64>());
        }
    }
}
