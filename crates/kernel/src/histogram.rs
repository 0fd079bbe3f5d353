//! Histograms of latencies: they can be added up, and a percentile of a sum is as exact as one of its parts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The upper bounds of `N` buckets, each bound a fifth above the one before. One more bucket holds whatever is above the
/// last bound.
#[derive(Debug, Clone, Copy)]
pub struct Buckets<const N: usize>([u32; N]);

impl<const N: usize> Buckets<N> {
    /// The buckets whose first bound is `first`. A bound is at least one above the one before, so small ones are less
    /// exact. Stored histograms depend on these numbers.
    pub const fn from_first(first: u32) -> Self {
        let mut bounds = [first; N];
        let mut at = 1;
        while at < N {
            let before = bounds[at - 1];
            bounds[at] = before + if before < 5 { 1 } else { before / 5 };
            at += 1;
        }
        Self(bounds)
    }

    /// The number of the bucket that holds `value`; `N` when it is above the last bound.
    pub fn bucket_of(&self, value: u32) -> u8 {
        u8::try_from(self.0.partition_point(|bound| *bound < value)).unwrap_or(u8::MAX)
    }

    /// The largest value of a bucket; the last bound for the bucket above it.
    pub fn upper_bound(&self, bucket: u8) -> u32 {
        self.0.get(usize::from(bucket)).or(self.0.last()).copied().unwrap_or(0)
    }

    /// The upper bound of the bucket below, where this one begins; 0 for the first.
    pub fn lower_bound(&self, bucket: u8) -> u32 {
        bucket.checked_sub(1).map_or(0, |below| self.upper_bound(below))
    }
}

/// Counts by bucket. It is stored as a map, so its form must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram(BTreeMap<u8, u64>);

impl Histogram {
    /// Adds `count` to a bucket.
    pub fn add(&mut self, bucket: u8, count: u64) {
        let sum = self.0.entry(bucket).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            self.add(*bucket, *count);
        }
    }

    /// The bucket below or in which `percent` of the counts are; `None` when there are none.
    pub fn percentile(&self, percent: u64) -> Option<u8> {
        let total: u128 = self.0.values().map(|count| u128::from(*count)).sum();
        let rank = (total * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        self.0.iter().filter(|_| total > 0).find_map(|(bucket, count)| {
            seen += u128::from(*count);
            (seen >= rank).then_some(*bucket)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const FINE: Buckets<63> = Buckets::from_first(500);
    const COARSE: Buckets<52> = Buckets::from_first(1);
    const FINE_LAST: u32 = 40_468_839;
    const COARSE_LAST: u32 = 17_086;

    fn of(values: &[u32]) -> Histogram {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.add(FINE.bucket_of(*value), 1);
        }
        histogram
    }

    /// Databases hold the numbers of buckets: other bounds would give them another meaning.
    #[test]
    fn bounds_stay_as_they_are_stored() {
        assert_eq!(FINE.0[..8], [500, 600, 720, 864, 1_036, 1_243, 1_491, 1_789]);
        assert_eq!(COARSE.0[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14]);
        assert_eq!((FINE.0[62], COARSE.0[51]), (FINE_LAST, COARSE_LAST));
    }

    #[test]
    fn every_value_has_its_bucket() {
        assert_eq!(COARSE.bucket_of(0), 0);
        assert_eq!(COARSE.bucket_of(1), 0);
        for value in 1..=COARSE_LAST {
            let bucket = COARSE.bucket_of(value);
            assert!(
                (COARSE.lower_bound(bucket) + 1..=COARSE.upper_bound(bucket)).contains(&value),
                "{value}"
            );
            assert!(
                COARSE.upper_bound(bucket) <= value + 1 + value / 5,
                "{value} is not said to be much more"
            );
        }
        assert_eq!(COARSE.bucket_of(u32::MAX), 52, "above the last bound");
        assert_eq!((COARSE.lower_bound(52), COARSE.upper_bound(52)), (COARSE_LAST, COARSE_LAST));
    }

    #[test]
    fn an_empty_one_has_no_percentile() {
        assert_eq!(Histogram::default().percentile(95), None);
        let mut zero = Histogram::default();
        zero.add(3, 0);
        assert_eq!(zero.percentile(95), None);
    }

    #[test]
    fn a_percentile_is_the_bucket_that_reaches_it() {
        let mut histogram = Histogram::default();
        for (bucket, count) in [(20, 5), (10, 94), (30, 1)] {
            histogram.add(bucket, count);
        }
        let of = |percent| histogram.percentile(percent);
        assert_eq!([of(1), of(50), of(94), of(95), of(99), of(100)], [10, 10, 10, 20, 20, 30].map(Some));
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
        }
    }
}
