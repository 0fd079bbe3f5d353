//! What is counted of each server that is asked.

use std::sync::Arc;

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
