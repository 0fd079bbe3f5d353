//! What an area counts of itself, for whoever shows it.

/// A number as it stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name, without the prefix that all of them share.
    pub name: &'static str,
    /// What it counts, for an operator.
    pub help: &'static str,
    /// Names and values that tell it from others of its name.
    pub labels: Vec<(&'static str, &'static str)>,
    /// The number.
    pub value: MetricValue,
}

/// A number that only grows, one that goes up and down, or how long something took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricValue {
    /// Only grows.
    Counter(u64),
    /// Goes up and down.
    Gauge(i64),
    /// Times.
    Times {
        /// Their sum, in microseconds.
        sum: u64,
        /// How many took at most so many microseconds, and longer than those before; the last has no bound.
        buckets: Vec<(u64, u64)>,
    },
}

impl Metric {
    const fn new(name: &'static str, help: &'static str, value: MetricValue) -> Self {
        Self { name, help, labels: Vec::new(), value }
    }

    /// A number that only grows.
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::new(name, help, MetricValue::Counter(value))
    }

    /// A number that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str, value: i64) -> Self {
        Self::new(name, help, MetricValue::Gauge(value))
    }

    /// Times: their sum, and how many took at most so long, both in microseconds.
    pub const fn times(name: &'static str, help: &'static str, sum: u64, buckets: Vec<(u64, u64)>) -> Self {
        Self::new(name, help, MetricValue::Times { sum, buckets })
    }

    /// With this label too.
    #[must_use]
    pub fn label(mut self, label: (&'static str, &'static str)) -> Self {
        self.labels.push(label);
        self
    }
}

/// Tells the numbers of an area whenever they are asked for. It must be quick and never wait.
pub type Metrics = Box<dyn Fn() -> Vec<Metric> + Send + Sync>;
