//! Metrics of the area.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Metrics of this server's sender.
#[derive(Debug, Default)]
pub struct Metrics {
    delivered: AtomicU64,
    failed: AtomicU64,
    in_flight: AtomicI64,
    unwritten: AtomicI64,
}

/// An attempt that is in flight, until this is dropped.
pub(crate) struct InFlight<'a>(&'a Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts an attempt as in flight until the guard is dropped.
    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    pub(crate) fn attempted(&self, delivered: bool) {
        let count = if delivered { &self.delivered } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn to_write(&self, count: i64) {
        self.unwritten.fetch_add(count, Ordering::Relaxed);
    }

    /// Attempts that were delivered.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Attempts that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Attempts in flight.
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Results that are not stored yet.
    pub fn unwritten(&self) -> i64 {
        self.unwritten.load(Ordering::Relaxed)
    }
}
