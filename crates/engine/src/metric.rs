//! What an area counts of itself, for whoever shows it.

/// A number as it stands now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name, without the prefix that all of them share.
    pub name: &'static str,
    /// What it counts, for an operator.
    pub help: &'static str,
    /// A name and a value that tell it from others of its name.
    pub label: Option<(&'static str, &'static str)>,
    /// The number.
    pub value: MetricValue,
}

/// A number that only grows, or one that goes up and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricValue {
    /// Only grows.
    Counter(u64),
    /// Goes up and down.
    Gauge(i64),
}

impl Metric {
    /// A number that only grows.
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, label: None, value: MetricValue::Counter(value) }
    }

    /// A number that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str, value: i64) -> Self {
        Self { name, help, label: None, value: MetricValue::Gauge(value) }
    }

    /// With this label.
    #[must_use]
    pub const fn label(mut self, label: (&'static str, &'static str)) -> Self {
        self.label = Some(label);
        self
    }
}

/// Tells the numbers of an area whenever they are asked for. It must be quick and never wait.
pub type Metrics = Box<dyn Fn() -> Vec<Metric> + Send + Sync>;
