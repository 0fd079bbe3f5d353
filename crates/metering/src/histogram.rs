//! How long calls took, in a form that can be added up: p50 and p95 of any sum are as good as those of its parts.

use std::collections::BTreeMap;

use portico_store::StoreError;

/// The upper bounds of the buckets, in microseconds: each a fifth above the one before, from 0.5 ms to about 40 s.
const BOUNDS: [u32; 63] = {
    let mut bounds = [500; 63];
    let mut at = 1;
    while at < bounds.len() {
        let bound: u64 = bounds[at - 1];
        bounds[at] = bound * 6 / 5;
        at += 1;
    }
    let mut narrow = [0; 63];
    let mut at = 0;
    while at < bounds.len() {
        #[expect(clippy::cast_possible_truncation, reason = "the last is about 40 million")]
        {
            narrow[at] = bounds[at] as u32;
        }
        at += 1;
    }
    narrow
};

/// Counts of calls by how long they took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Histogram(BTreeMap<u8, u64>);

impl Histogram {
    /// Counts one call that took `micros`.
    pub(crate) fn count(&mut self, micros: u32) {
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        *self.0.entry(u8::try_from(bucket).unwrap_or(u8::MAX)).or_default() += 1;
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            let sum = self.0.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// The time within which `percent` of the calls ended, in whole milliseconds, to about 10 %; 0 when there are none.
    pub(crate) fn percentile_ms(&self, percent: u64) -> i32 {
        let total: u128 = self.0.values().map(|count| u128::from(*count)).sum();
        let wanted = (total * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in &self.0 {
            seen += u128::from(*count);
            if seen >= wanted {
                return middle_ms(usize::from(*bucket));
            }
        }
        0
    }

    /// The form in which it is kept.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        postcard::to_allocvec(&self.0).map_err(|error| StoreError::fault(error.to_string()))
    }

    /// Reads what was kept.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        postcard::from_bytes(bytes).map(Self).map_err(|error| StoreError::fault(error.to_string()))
    }
}

/// The middle of a bucket.
fn middle_ms(bucket: usize) -> i32 {
    let below = if bucket == 0 { 0 } else { BOUNDS[(bucket - 1).min(BOUNDS.len() - 1)] };
    let above = BOUNDS.get(bucket).copied().unwrap_or(below);
    i32::try_from((u64::from(below) + u64::from(above) + 1_000) / 2_000).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u32]) -> Histogram {
        let mut histogram = Histogram::default();
        for micros in times {
            histogram.count(*micros);
        }
        histogram
    }

    #[test]
    fn an_empty_one_says_nothing() {
        assert_eq!(Histogram::default().percentile_ms(95), 0);
        assert_eq!(of(&[u32::MAX]).percentile_ms(50), middle_ms(63), "beyond the last bound");
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_whole(a in vec(0u32..60_000_000, 0..50), b in vec(0u32..60_000_000, 0..50)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(&merged, &of(&[a.clone(), b.clone()].concat()));
            let mut other_way = of(&b);
            other_way.merge(&of(&a));
            prop_assert_eq!(&merged, &other_way);
            let kept = merged.to_bytes().unwrap();
            prop_assert_eq!(Histogram::from_bytes(&kept).unwrap(), merged);
        }

        /// Within 10 % and the rounding of the true value, and never falling as the percentage grows.
        #[test]
        fn percentiles_are_about_right(times in vec(0u32..39_000_000, 1..200), percent in 1u64..=100) {
            let histogram = of(&times);
            let mut sorted = times;
            sorted.sort_unstable();
            let rank = (sorted.len() as u64 * percent).div_ceil(100);
            let exact = f64::from(sorted[usize::try_from(rank).unwrap() - 1]) / 1e3;
            let told = f64::from(histogram.percentile_ms(percent));
            prop_assert!((told - exact).abs() <= exact * 0.101 + 1.0, "{told} for {exact}");
            prop_assert!(histogram.percentile_ms(percent) <= histogram.percentile_ms(100));
        }
    }
}
