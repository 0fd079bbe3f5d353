//! What the area counts of itself, and of whom it asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use portico_dns::{BOUNDS, Figures};
use portico_engine::{Buckets, Ctx, Metric};
use portico_kernel::intern;

use crate::model::Status;

/// Counters of moves, and how many domains are due.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    due: AtomicI64,
    moved: [AtomicU64; Status::ALL.len()],
}

impl Metrics {
    pub(crate) fn set_due(&self, due: i64) {
        self.due.store(due, Ordering::Relaxed);
    }

    /// Counts a domain that moves to `status` with the commit.
    pub(crate) fn moved_after_commit(self: &Arc<Self>, ctx: &mut Ctx, status: Status) {
        let metrics = self.clone();
        ctx.after_commit(Box::new(move || {
            metrics.moved[status as usize].fetch_add(1, Ordering::Relaxed);
        }));
    }

    /// The numbers as an operator sees them, with those of the servers that are asked.
    pub(crate) fn shown(&self, servers: &[Figures]) -> Vec<Metric> {
        let due = self.due.load(Ordering::Relaxed);
        let mut metrics = vec![Metric::gauge("domains_due", "Domains that are due to be looked at", due)];
        for (status, count) in Status::ALL.iter().zip(&self.moved) {
            let count = count.load(Ordering::Relaxed);
            let metric = Metric::counter("domains_moved", "Domains that came to be so", count);
            metrics.push(metric.label(("to", status.name())));
        }
        for Figures { server, questions, seconds } in servers {
            // The operator's configuration names them.
            let server = ("resolver", intern(server));
            for (outcome, count) in questions {
                let metric = Metric::counter(
                    "dns_questions",
                    "Questions to name servers by what came of them",
                    *count,
                );
                metrics.push(metric.label(server).label(("outcome", outcome.name())));
            }
            let buckets = Buckets { bounds: &BOUNDS, counts: seconds.buckets.to_vec(), sum: seconds.sum };
            let help = "Time that name servers took to answer";
            metrics.push(Metric::histogram("dns_seconds", help, buckets).label(server));
        }
        metrics
    }
}
