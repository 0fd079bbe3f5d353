//! What the area counts of itself, for whoever watches the server.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Metrics of this server's sender.
#[derive(Debug, Default)]
pub struct Metrics {
    delivered: AtomicU64,
    failed: AtomicU64,
    in_flight: AtomicI64,
    unwritten: AtomicI64,
}

/// An attempt that is under way.
pub(crate) struct UnderWay<'a>(&'a Metrics);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// An attempt is under way as long as this is held.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    pub(crate) fn attempted(&self, delivered: bool) {
        let count = if delivered { &self.delivered } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn to_write(&self, count: i64) {
        self.unwritten.fetch_add(count, Ordering::Relaxed);
    }

    /// Attempts that were taken.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Attempts that were not.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Attempts that are under way.
    pub fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Results that the database does not have yet.
    pub fn unwritten(&self) -> i64 {
        self.unwritten.load(Ordering::Relaxed)
    }
}
