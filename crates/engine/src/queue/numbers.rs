//! What a queue counts of itself.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Metric;

/// The numbers of one queue.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) due: AtomicI64,
    pub(super) oldest_seconds: AtomicI64,
    pub(super) in_flight: AtomicI64,
    pub(super) failed: AtomicU64,
    pub(super) claims_lost: AtomicU64,
}

impl Numbers {
    /// Them all, as those of that queue.
    pub(super) fn metrics(&self, queue: &'static str) -> [Metric; 5] {
        let of = ("queue", queue);
        let load = |value: &AtomicI64| value.load(Ordering::Relaxed);
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        [
            Metric::gauge("queue_due", "Items that are due and not claimed", load(&self.due)).label(of),
            Metric::gauge(
                "queue_oldest_seconds",
                "How long the oldest due item has waited",
                load(&self.oldest_seconds),
            )
            .label(of),
            Metric::gauge("queue_in_flight", "Items being worked on", load(&self.in_flight)).label(of),
            Metric::counter("queue_failed", "Runs of items that failed", count(&self.failed)).label(of),
            Metric::counter(
                "queue_claims_lost",
                "Claims that another server took over",
                count(&self.claims_lost),
            )
            .label(of),
        ]
    }
}
