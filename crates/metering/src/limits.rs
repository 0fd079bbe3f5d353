//! Every bound of the area.

use std::time::Duration;

/// How often what the journal holds is counted in the database.
pub const COUNT_EVERY: Duration = Duration::from_millis(500);
/// How often a server looks whether it is to give something back.
pub const RECALL_EVERY: Duration = Duration::from_millis(250);
/// What a server holds that was not seen for so long is let go. It would have to come back later and still spend it.
pub const DEAD_LIFE: Duration = Duration::from_hours(1);
/// How often a server says that it lives, where there may be others.
pub const SEEN_EVERY: Duration = Duration::from_secs(5);
/// A server that has not said so for this long is not reckoned with.
pub const SEEN_LIFE: Duration = Duration::from_secs(20);
/// Records that are counted in one transaction.
pub const BATCH_RECORDS_MAX: usize = 20_000;
/// Accounts that are counted in one transaction. Many, because records of many accounts lie mixed: with few, the same
/// account would be written again and again.
pub const BATCH_ACCOUNTS_MAX: usize = 1_000;
/// Segments of the journal, 4 MiB each, that may wait to be counted; beyond that calls are refused.
pub const SEGMENTS_MAX: usize = 256;
/// Places in the journal that are kept free for calls that are under way.
pub const UNDER_WAY_MAX: usize = 4_096;

/// The largest lease of units.
pub const LEASE_UNITS_MAX: i64 = 250_000;
/// How long a call waits for other servers to give back units before it is refused.
pub const RECALL_TIME_MAX: Duration = Duration::from_secs(1);
/// How long between two looks while it waits.
pub const RECALL_PAUSE: Duration = Duration::from_millis(100);
/// For how long it is believed that there are no more units.
pub const SPENT_LIFE: Duration = Duration::from_secs(1);
/// For how long it is believed that there are no more calls in the minute.
pub const FULL_LIFE: Duration = Duration::from_secs(1);
/// How long a share of a key's minute is good for.
pub const SHARE_LIFE: Duration = Duration::from_mins(1);
/// After this long a share counts as let go, whoever holds it: twice its life, because clocks differ.
pub const SHARE_GONE: Duration = Duration::from_mins(2);
/// An account that made no call for so long is forgotten, and its lease given back.
pub const IDLE_LIFE: Duration = Duration::from_mins(5);
/// How often that is looked for.
pub const TIDY_EVERY: Duration = Duration::from_secs(30);

/// How long requests are kept.
pub const REQUESTS_LIFE: Duration = Duration::from_hours(30 * 24);
/// How often those that are older are removed.
pub const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// LengthPrefixedHash of the log that are removed in one transaction.
pub const PRUNE_ROWS: i64 = 500;
/// LengthPrefixedHash of the log of the last minute that a start looks at.
pub const RESTORED_BLOCKS_MAX: i64 = 2_000;
/// Requests in one piece of the log.
pub const BLOCK_REQUESTS_MAX: usize = 1_000;
/// The longest time that one piece of the log spans.
pub const BLOCK_SPAN_MAX: Duration = Duration::from_mins(10);
/// A piece with fewer requests is taken together with the next.
pub const BLOCK_REQUESTS_FEW: i64 = 64;
/// LengthPrefixedHash that are read at once.
pub const BLOCKS_AT_ONCE: i64 = 64;
/// LengthPrefixedHash that are looked at for one page; a page may be shorter than asked for.
pub const BLOCKS_READ_MAX: usize = 512;
/// Requests that are.
pub const REQUESTS_READ_MAX: usize = 20_000;
/// How long a server that stops waits for calls whose callers have gone.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(3);
/// How long between two looks while it waits.
pub const STOP_PAUSE: Duration = Duration::from_millis(20);

/// Rows of usage in an answer.
pub const USAGE_ROWS_MAX: usize = 8_000;
/// Days of a series by hour.
pub const HOURS_DAYS_MAX: i64 = 31;
/// Days of a series by day.
pub const DAYS_MAX: i64 = 366;
/// Days of a series by category, key or operation.
pub const GROUPED_DAYS_MAX: i64 = 92;

/// The shares of the budget that are told.
pub const THRESHOLDS: [i64; 2] = [80, 100];
/// What a grant, and all grants of a month together, may come to: sums stay within 64 bits.
pub const GRANT_UNITS_MAX: i64 = 1 << 53;
