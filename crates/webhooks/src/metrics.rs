//! Metrics of the area.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use portico_engine::Metric;

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

    /// Has everything that was begun ended, and been stored?
    pub(crate) fn is_settled(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) == 0 && self.unwritten.load(Ordering::Relaxed) == 0
    }

    /// The numbers as an operator sees them.
    pub(crate) fn shown(&self) -> Vec<Metric> {
        let (count, gauge) = (
            |value: &AtomicU64| value.load(Ordering::Relaxed),
            |value: &AtomicI64| value.load(Ordering::Relaxed),
        );
        vec![
            Metric::counter(
                "deliveries_taken",
                "Attempts at deliveries that were taken",
                count(&self.delivered),
            ),
            Metric::counter("deliveries_failed", "Attempts at deliveries that failed", count(&self.failed)),
            Metric::gauge(
                "deliveries_in_flight",
                "Attempts at deliveries that are under way",
                gauge(&self.in_flight),
            ),
            Metric::gauge(
                "deliveries_unwritten",
                "Results of attempts that the database does not have yet",
                gauge(&self.unwritten),
            ),
        ]
    }
}
