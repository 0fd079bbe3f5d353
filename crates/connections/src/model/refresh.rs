//! When a token is refreshed, and when again after a failure.

use std::time::Duration;

use portico_kernel::Timestamp;

use crate::limits;

/// Is so little left of a token's life that it is refreshed before the next call? One that does not say when it ends is
/// used until the provider refuses it.
pub(crate) fn is_due(issued: Option<Timestamp>, expires: Option<Timestamp>, now: Timestamp) -> bool {
    let Some(expires) = expires else { return false };
    let life = issued.map_or(Duration::MAX, |issued| expires.since(issued));
    let lead = limits::REFRESH_LEAD.min(life / limits::REFRESH_PART);
    now + lead >= expires
}

/// The wait after so many refreshes in a row that failed.
pub(crate) fn retry_after(failures: i64) -> Duration {
    let doubled = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    limits::RETRY_FIRST.saturating_mul(2u32.saturating_pow(doubled)).min(limits::RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use portico_kernel::seconds;

    use super::*;

    #[test]
    fn a_token_is_refreshed_before_its_end() {
        let at = Timestamp::from_seconds;
        let due = |issued, expires, now| is_due(Some(at(issued)), Some(at(expires)), at(now));
        assert!(!due(0, 3_600, 3_299));
        assert!(due(0, 3_600, 3_300), "five minutes");
        assert!(!due(0, 100, 79));
        assert!(due(0, 100, 80), "a fifth");
        assert!(due(0, 100, 1_000));
        assert!(!is_due(Some(at(0)), None, at(1 << 40)));
        assert!(is_due(None, Some(at(400)), at(100)));
    }

    #[test]
    fn failures_wait_longer_and_longer() {
        let waits = [1, 2, 3, 5, 6, 100].map(retry_after);
        assert_eq!(waits, [30, 60, 120, 480, 900, 900].map(seconds));
    }
}
