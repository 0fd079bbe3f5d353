//! How long attempts took: the buckets of the histograms in the statistics.

use portico_kernel::{Buckets, Histogram};

/// In milliseconds, from 1 ms to about 17 s, which is longer than an attempt may take.
const BUCKETS: Buckets<52> = Buckets::from_first(1);
const LAST_BUCKET: i64 = 51;

/// The bucket that an attempt of so many milliseconds is counted in; the last one also holds all that took longer.
pub(crate) fn latency_bucket(ms: i64) -> i64 {
    let ms = u32::try_from(ms.max(0)).unwrap_or(u32::MAX);
    i64::from(BUCKETS.bucket_of(ms)).min(LAST_BUCKET)
}

/// The histogram of counts by bucket, as the statistics have them.
pub(crate) fn latency_histogram(counts: impl IntoIterator<Item = (i64, i64)>) -> Histogram {
    let mut histogram = Histogram::default();
    for (bucket, count) in counts {
        histogram.add(u8::try_from(bucket).unwrap_or(u8::MAX), u64::try_from(count).unwrap_or(0));
    }
    histogram
}

/// The longest time, in milliseconds, of the bucket within which `percent` of the attempts ended; 0 when there are none.
pub(crate) fn latency_percentile_ms(histogram: &Histogram, percent: u64) -> u32 {
    histogram.percentile(percent).map_or(0, |bucket| BUCKETS.upper_bound(bucket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(bucket: i64) -> u32 {
        BUCKETS.upper_bound(u8::try_from(bucket).unwrap())
    }

    #[test]
    fn every_time_has_its_bucket() {
        assert_eq!((latency_bucket(0), latency_bucket(1), latency_bucket(2)), (0, 0, 1));
        assert_eq!(longest(latency_bucket(2)), 2);
        assert!(longest(51) >= 15_000, "an attempt's longest time: {}", longest(51));
        for ms in 1..i64::from(longest(51)) {
            let bucket = latency_bucket(ms);
            let (above, below) = (i64::from(longest(bucket)), longest((bucket - 1).max(0)));
            assert!(above >= ms && (bucket == 0 || i64::from(below) < ms), "{ms}");
            assert!(above <= ms + 1 + ms / 5, "{ms} is not said to be much longer");
        }
        assert_eq!(latency_bucket(1_000_000), 51);
        assert_eq!(latency_bucket(i64::MAX), 51);
        assert_eq!(latency_bucket(-1), 0);
    }

    #[test]
    fn percentiles_are_read_off() {
        let of = |counts: &[(i64, i64)], percent| {
            latency_percentile_ms(&latency_histogram(counts.iter().copied()), percent)
        };
        assert_eq!(of(&[], 50), 0);
        assert_eq!(of(&[(0, 1)], 50), 1);
        let counts = [(latency_bucket(100), 5), (latency_bucket(10), 94), (latency_bucket(1_000), 1)];
        assert_eq!(of(&counts, 50), longest(latency_bucket(10)));
        assert_eq!(of(&counts, 95), longest(latency_bucket(100)));
        assert_eq!(of(&counts, 100), longest(latency_bucket(1_000)));
    }
}
