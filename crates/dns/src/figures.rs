//! What is counted of each server that is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Outcome;

/// The upper bounds of the buckets of a histogram, in seconds, from 0.5 ms to 8 s; what is beyond the last is in one more.
pub const BOUNDS: [f64; 15] = {
    let mut bounds = [0.000_5; 15];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1] * 2.0;
        at += 1;
    }
    bounds
};

/// What can come of a question. A question as such knows no value: records of the type that was asked for are `Found`.
const OUTCOMES: [Outcome; 7] = [
    Outcome::Found,
    Outcome::NoRecord,
    Outcome::NxDomain,
    Outcome::ServFail,
    Outcome::Timeout,
    Outcome::Error,
    Outcome::Blocked,
];

/// The numbers of one server as they stand now.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// `host:port` of a resolver as configured, or `authoritative` for all servers of zones together.
    pub server: Arc<str>,
    /// How many questions had each outcome; outcomes that none had are left out.
    pub questions: Vec<(Outcome, u64)>,
    /// How long the questions took that were answered.
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

/// The same while it is counted.
#[derive(Debug)]
pub(crate) struct Counters {
    server: Arc<str>,
    questions: [AtomicU64; OUTCOMES.len()],
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_nanos: AtomicU64,
}

impl Counters {
    pub(crate) fn new(server: &str) -> Self {
        Self {
            server: server.into(),
            questions: Default::default(),
            buckets: Default::default(),
            sum_nanos: AtomicU64::default(),
        }
    }

    /// A question had this outcome; it took `time` if it was answered.
    pub(crate) fn count(&self, outcome: Outcome, time: Option<Duration>) {
        if let Some(at) = OUTCOMES.iter().position(|other| *other == outcome) {
            self.questions[at].fetch_add(1, Ordering::Relaxed);
        }
        let Some(time) = time else { return };
        let bucket = BOUNDS.partition_point(|bound| *bound < time.as_secs_f64());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> Figures {
        let counts = self.questions.iter().map(|count| count.load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        Figures {
            server: self.server.clone(),
            questions: OUTCOMES.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect(),
            seconds: SecondsFigures {
                buckets: std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed)),
                sum,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_counted_once_and_timed_when_they_were_answered() {
        let counters = Counters::new("192.0.2.1:53");
        assert_eq!(counters.figures().questions, []);
        counters.count(Outcome::Found, Some(Duration::from_millis(3)));
        counters.count(Outcome::Found, Some(Duration::from_secs(9)));
        counters.count(Outcome::Timeout, None);
        let figures = counters.figures();
        assert_eq!(&*figures.server, "192.0.2.1:53");
        assert_eq!(figures.questions, [(Outcome::Found, 2), (Outcome::Timeout, 1)]);
        assert!((figures.seconds.sum - 9.003).abs() < 1e-9);
        assert_eq!(figures.seconds.buckets.iter().sum::<u64>(), 2);
        // 3 ms is above 2 and below 4; 9 s is above all bounds.
        assert_eq!((figures.seconds.buckets[3], figures.seconds.buckets[BOUNDS.len()]), (1, 1));
    }
}
