//! What is counted of a target.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;

/// The classes in which calls are counted, as they are called in metrics. The first is that of upgrades.
pub const CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "failure"];
/// The upper bounds of the buckets of a histogram, in seconds; what is beyond the last is in one more.
pub const BOUNDS: [f64; 18] = {
    let mut bounds = [0.000_1; 18];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2.0;
        at += 1;
    }
    bounds
};

/// The numbers of one target as they stand now.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetFigures {
    /// The target's name.
    pub target: Arc<str>,
    /// How many calls ended in each of [`CLASSES`].
    pub classes: [u64; CLASSES.len()],
    /// Calls that have begun, and whose answer has not ended.
    pub in_flight: usize,
    /// Is it left out, because it failed again and again or did not pass its probe?
    pub is_left_out: bool,
    /// How long the answered calls took, from their beginning to the head of their answer.
    pub seconds: SecondsFigures,
}

/// A histogram as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct SecondsFigures {
    /// How many are in each bucket; none is in two.
    pub buckets: [u64; BOUNDS.len() + 1],
    /// All of them together.
    pub sum: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    classes: [AtomicU64; CLASSES.len()],
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_micros: AtomicU64,
}

impl Counters {
    pub(crate) fn answered(&self, status: StatusCode, time: Duration) {
        let class = usize::from(status.as_u16() / 100 - 1).min(CLASSES.len() - 2);
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.classes[CLASSES.len() - 1].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn classes(&self) -> [u64; CLASSES.len()] {
        std::array::from_fn(|at| self.classes[at].load(Ordering::Relaxed))
    }

    pub(crate) fn seconds(&self) -> SecondsFigures {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.sum_micros.load(Ordering::Relaxed)).as_secs_f64();
        SecondsFigures { buckets, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_class_and_time() {
        let counters = Counters::default();
        for (status, micros) in [(101, 1), (200, 100), (204, 101), (304, 200), (404, 0), (500, 20_000_000)] {
            counters.answered(StatusCode::from_u16(status).unwrap(), Duration::from_micros(micros));
        }
        counters.failed();
        assert_eq!(counters.classes(), [1, 2, 1, 1, 1, 1]);
        let seconds = counters.seconds();
        assert_eq!((seconds.buckets[0], seconds.buckets[1], seconds.buckets[18]), (3, 2, 1));
        assert_eq!(seconds.buckets.iter().sum::<u64>(), 6);
        assert!((seconds.sum - 20.000_402).abs() < 1e-9);
    }
}
