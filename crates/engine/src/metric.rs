//! What an area counts of itself, for whoever shows it.

/// How many labels a number may have.
const LABELS_MAX: usize = 4;

/// A number as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name, without the prefix that all of them share.
    pub name: &'static str,
    /// What it counts, for an operator.
    pub help: &'static str,
    /// Names and values that tell it from others of its name.
    pub labels: [Option<(&'static str, &'static str)>; LABELS_MAX],
    /// The number.
    pub value: MetricValue,
}

/// A number that only grows, one that goes up and down, or how many of many were how large.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// Only grows.
    Counter(u64),
    /// Goes up and down.
    Gauge(i64),
    /// How many of many were how large.
    Histogram(Buckets),
}

/// How many of many were how large.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    /// The upper bounds of the buckets, but for the last, which takes all that is larger.
    pub bounds: &'static [f64],
    /// How many are in each bucket; none is in two.
    pub counts: Vec<u64>,
    /// All of them together.
    pub sum: f64,
}

impl Metric {
    /// A number that only grows.
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, labels: [None; LABELS_MAX], value: MetricValue::Counter(value) }
    }

    /// A number that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str, value: i64) -> Self {
        Self { name, help, labels: [None; LABELS_MAX], value: MetricValue::Gauge(value) }
    }

    /// How many of many were how large.
    pub const fn histogram(name: &'static str, help: &'static str, buckets: Buckets) -> Self {
        Self { name, help, labels: [None; LABELS_MAX], value: MetricValue::Histogram(buckets) }
    }

    /// With this label too. There may be four; one more takes the place of the last.
    #[must_use]
    pub const fn label(mut self, label: (&'static str, &'static str)) -> Self {
        let mut at = 0;
        while at < LABELS_MAX - 1 && self.labels[at].is_some() {
            at += 1;
        }
        self.labels[at] = Some(label);
        self
    }
}

/// Tells the numbers of an area whenever they are asked for. It must be quick and never wait.
pub type Metrics = Box<dyn Fn() -> Vec<Metric> + Send + Sync>;
