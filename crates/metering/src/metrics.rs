//! Counters for the metrics listener.

use std::sync::atomic::{AtomicU64, Ordering};

use portico_engine::Metric;

/// Counters of the area, and how far the database is behind the journal.
#[derive(Debug, Default)]
pub struct Metrics {
    leases: AtomicU64,
    recorded: AtomicU64,
    counted: AtomicU64,
    lost: AtomicU64,
    not_logged: AtomicU64,
    refusals_only_counted: AtomicU64,
    open: AtomicU64,
}

impl Metrics {
    pub(crate) fn lease_asked(&self) {
        self.leases.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn recorded(&self, number: u64) {
        self.recorded.fetch_max(number + 1, Ordering::Relaxed);
    }

    pub(crate) fn counted_up_to(&self, number: u64) {
        self.counted.store(number, Ordering::Relaxed);
    }

    pub(crate) fn not_recorded(&self, calls: usize) {
        self.lost.fetch_add(calls as u64, Ordering::Relaxed);
    }

    pub(crate) fn not_logged(&self, calls: usize) {
        self.not_logged.fetch_add(calls as u64, Ordering::Relaxed);
    }

    pub(crate) fn refusal_counted(&self) {
        self.refusals_only_counted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Calls that are running.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// The number of the first record that may not be counted yet.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// The numbers as an operator sees them.
    pub(crate) fn shown(&self) -> Vec<Metric> {
        let waiting = i64::try_from(self.waiting()).unwrap_or(i64::MAX);
        vec![
            Metric::counter("leases", "Leases of units and of minutes that were asked for", self.leases()),
            Metric::counter("calls_lost", "Calls that ran and could not be recorded", self.lost()),
            Metric::counter(
                "calls_not_logged",
                "Calls that are in no log of requests, because their account's is full for the day",
                self.not_logged.load(Ordering::Relaxed),
            ),
            Metric::counter(
                "refusals_only_counted",
                "Refused calls that were counted and not recorded one by one",
                self.refusals_only_counted.load(Ordering::Relaxed),
            ),
            Metric::gauge(
                "journal_waiting",
                "Calls in the journal that the database does not have yet",
                waiting,
            ),
        ]
    }

    /// How often a lease was requested from the database.
    pub fn leases(&self) -> u64 {
        self.leases.load(Ordering::Relaxed)
    }

    /// Calls that are in the journal and not in the database yet.
    pub fn waiting(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed).saturating_sub(self.counted.load(Ordering::Relaxed))
    }

    /// Calls that ran and could not be recorded; should stay 0.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
