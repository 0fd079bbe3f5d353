//! How long calls took: the buckets of the histograms, and the form in which they are stored.

use portico_kernel::{Buckets, Histogram};
use portico_store::StoreError;

/// In microseconds, from 0.5 ms to about 40 s.
const BUCKETS: Buckets<63> = Buckets::from_first(500);

/// Counts one call that took `micros`.
pub(crate) fn count(histogram: &mut Histogram, micros: u32) {
    histogram.add(BUCKETS.bucket_of(micros), 1);
}

/// The time within which `percent` of the calls ended, in whole milliseconds, to about 10 %; 0 when there are none.
pub(crate) fn percentile_ms(histogram: &Histogram, percent: u64) -> i32 {
    histogram.percentile(percent).map_or(0, middle_ms)
}

/// The middle of a bucket.
fn middle_ms(bucket: u8) -> i32 {
    let (below, above) = (BUCKETS.lower_bound(bucket), BUCKETS.upper_bound(bucket));
    i32::try_from((u64::from(below) + u64::from(above) + 1_000) / 2_000).unwrap_or(i32::MAX)
}

/// The histogram as it is stored.
pub(crate) fn to_bytes(histogram: &Histogram) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(histogram).map_err(|error| StoreError::fault(error.to_string()))
}

/// Reads a stored histogram.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Histogram, StoreError> {
    postcard::from_bytes(bytes).map_err(|error| StoreError::fault(error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u32]) -> Histogram {
        let mut histogram = Histogram::default();
        for micros in times {
            count(&mut histogram, *micros);
        }
        histogram
    }

    #[test]
    fn an_empty_one_says_nothing() {
        assert_eq!(percentile_ms(&Histogram::default(), 95), 0);
        assert_eq!(percentile_ms(&of(&[u32::MAX]), 50), middle_ms(63), "beyond the last bound");
    }

    /// As earlier versions of this program wrote it: the number of entries, then bucket and count of each.
    #[test]
    fn what_was_stored_still_reads() {
        let stored = [3, 0, 2, 4, 1, 63, 172, 2];
        let mut histogram = of(&[1, 500, 1_000]);
        histogram.add(63, 300);
        assert_eq!(from_bytes(&stored).unwrap(), histogram);
        assert_eq!(to_bytes(&histogram).unwrap(), stored);
    }

    proptest! {
        #[test]
        fn it_reads_as_it_was_written(times in vec(0u32..60_000_000, 0..50)) {
            let histogram = of(&times);
            prop_assert_eq!(from_bytes(&to_bytes(&histogram).unwrap()).unwrap(), histogram);
        }

        /// Within 10 % and the rounding of the true value, and never falling as the percentage grows.
        #[test]
        fn percentiles_are_about_right(times in vec(0u32..39_000_000, 1..200), percent in 1u64..=100) {
            let histogram = of(&times);
            let mut sorted = times;
            sorted.sort_unstable();
            let rank = (sorted.len() as u64 * percent).div_ceil(100);
            let exact = f64::from(sorted[usize::try_from(rank).unwrap() - 1]) / 1e3;
            let told = f64::from(percentile_ms(&histogram, percent));
            prop_assert!((told - exact).abs() <= exact * 0.101 + 1.0, "{told} for {exact}");
            prop_assert!(percentile_ms(&histogram, percent) <= percentile_ms(&histogram, 100));
        }
    }
}
