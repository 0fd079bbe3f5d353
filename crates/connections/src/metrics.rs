//! Metrics of the area.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use portico_engine::{Buckets, Metric};
use portico_kernel::text_enum;

use crate::model::{ErrorClass, UseStatus};

/// Upper bounds of times, in seconds; one more bucket has none.
const BOUNDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0];

text_enum! {
    /// How a request for a fresh token ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum RefreshOutcome {
        /// There is a new token.
        Refreshed = "refreshed",
        /// The provider will never give one again.
        Dead = "dead",
        /// It did not work this time.
        Failed = "failed",
        /// No answer came, and the provider may have given a new token: then that is lost.
        Unknown = "unknown",
        /// A server began and never ended; if the provider had given a new token by then, it is lost.
        Interrupted = "interrupted",
    }
}

/// What tells calls apart: the connector, who sent them, how they ended.
type CallLabels = (&'static str, &'static str, UseStatus, ErrorClass);

/// Metrics of this server's calls to providers.
#[derive(Default)]
pub struct Metrics {
    calls: DashMap<CallLabels, u64>,
    seconds: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
    refreshes: [AtomicU64; RefreshOutcome::ALL.len()],
}

impl Metrics {
    /// Counts a call of an action or a test.
    pub(crate) fn called(
        &self,
        connector: &'static str,
        status: UseStatus,
        class: ErrorClass,
        elapsed: Duration,
    ) {
        *self.calls.entry((connector, "cloud", status, class)).or_default() += 1;
        if status == UseStatus::Refused {
            return;
        }
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|bound| *bound < elapsed.as_secs_f64());
        self.seconds[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a request for a fresh token.
    pub(crate) fn refreshed(&self, outcome: RefreshOutcome) {
        let at = RefreshOutcome::ALL.iter().position(|known| *known == outcome).unwrap_or_default();
        self.refreshes[at].fetch_add(1, Ordering::Relaxed);
    }

    /// The numbers as an operator sees them.
    pub(crate) fn shown(&self) -> Vec<Metric> {
        let calls = self.calls.iter().map(|entry| {
            let (connector, executor, status, class) = *entry.key();
            Metric::counter("connection_calls", "Calls of connections' actions and tests", *entry.value())
                .label(("connector", connector))
                .label(("executor", executor))
                .label(("status", status.name()))
                .label(("error_class", class.name()))
        });
        let refreshes = RefreshOutcome::ALL.iter().zip(&self.refreshes).map(|(outcome, count)| {
            let help = "Requests for fresh tokens of connections";
            Metric::counter("connection_refreshes", help, count.load(Ordering::Relaxed))
                .label(("outcome", outcome.name()))
        });
        let buckets = Buckets {
            bounds: &BOUNDS,
            counts: self.seconds.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64(),
        };
        let help = "How long providers took to answer";
        let seconds = Metric::histogram("connection_call_seconds", help, buckets);
        calls.chain(refreshes).chain([seconds]).collect()
    }
}
