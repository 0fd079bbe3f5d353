//! What the area counts of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use portico_engine::Metric;

use crate::batch::ElementKind;

/// Counters of elements and of tokens.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Of events and of usage: accepted, repeated, refused.
    elements: [[AtomicU64; 3]; 2],
    /// Tokens that were good, and that were not.
    tokens: [AtomicU64; 2],
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

impl Counters {
    /// Counts a batch: what was accepted, repeated and refused of it.
    pub(crate) fn batch(&self, kind: ElementKind, results: [usize; 3]) {
        for (counter, count) in self.elements[kind as usize].iter().zip(results) {
            add(counter, count);
        }
    }

    /// Counts a token.
    pub(crate) fn token(&self, is_valid: bool) {
        add(&self.tokens[usize::from(!is_valid)], 1);
    }

    /// The numbers as an operator sees them.
    pub(crate) fn shown(&self) -> Vec<Metric> {
        const RESULTS: [(&str, &str); 3] =
            [("result", "accepted"), ("result", "repeated"), ("result", "refused")];
        const VERDICTS: [(&str, &str); 2] = [("result", "valid"), ("result", "refused")];
        const KINDS: [(&str, &str); 2] = [
            ("service_events", "Events that services published"),
            ("service_reports", "Usage that services reported"),
        ];
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let of_kind = KINDS.iter().zip(&self.elements).flat_map(|((name, help), counters)| {
            let counters = RESULTS.into_iter().zip(counters);
            counters.map(|(label, counter)| Metric::counter(name, help, number(counter)).label(label))
        });
        let tokens = VERDICTS.into_iter().zip(&self.tokens).map(|(label, counter)| {
            let help = "Tokens that services had verified";
            Metric::counter("service_tokens", help, number(counter)).label(label)
        });
        of_kind.chain(tokens).collect()
    }
}
