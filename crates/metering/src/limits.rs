//! Every limit of the area.

use std::time::Duration;

/// How often what the journal holds is counted in the database.
pub const COUNT_EVERY: Duration = Duration::from_millis(500);
/// How often a server looks for recalls of its leases.
pub const RECALL_EVERY: Duration = Duration::from_millis(250);
/// The leases of a server without a heartbeat for so long are released.
pub const DEAD_LIFE: Duration = Duration::from_hours(1);
/// How often a server writes its heartbeat, where there may be others.
pub const SEEN_EVERY: Duration = Duration::from_secs(5);
/// A server without a heartbeat for so long counts as dead.
pub const SEEN_LIFE: Duration = Duration::from_secs(20);
/// Records that are counted in one transaction.
pub const BATCH_RECORDS_MAX: usize = 100_000;
/// After so many records counting rests,
pub const REST_RECORDS: usize = 10_000;
/// so many times as long as it took: what it writes depends on how many keys called, and less on how often they did.
pub const REST_TIMES: u32 = 3;
/// The longest rest.
pub const REST_MAX: Duration = Duration::from_secs(3);
/// Accounts that are counted in one transaction. Many, because records of many accounts lie mixed: with few, the same
/// account would be written again and again.
pub const BATCH_ACCOUNTS_MAX: usize = 1_000;
/// Segments of the journal, 4 MiB each, that may wait to be counted; beyond that calls are refused.
pub const SEGMENTS_MAX: usize = 256;
/// Records that the journal keeps free for calls that are running.
pub const UNDER_WAY_MAX: usize = 4_096;

/// An account with more records that are not counted yet than this is refused earlier than others when the journal cannot
/// grow,
pub const CROWDING_RECORDS: u32 = 1_000;
/// namely while the journal still has this many records free.
pub const CROWDED_MAX: usize = 12_288;
/// Refusals of one caller that are recorded by themselves in a minute; further ones are only counted.
pub const REFUSALS_RECORDED_PER_MINUTE: u32 = 20;

/// For how long a server believes what it knows of how much was logged of an account today.
pub const LOGGED_LIFE: Duration = Duration::from_mins(1);

/// The largest lease of units.
pub const LEASE_UNITS_MAX: i64 = 250_000;
/// How long a call waits for other servers to release units before it is refused.
pub const RECALL_TIME_MAX: Duration = Duration::from_secs(1);
/// The pause between two attempts while it waits.
pub const RECALL_PAUSE: Duration = Duration::from_millis(100);
/// For how long the database is not asked again for units that it did not have.
pub const SPENT_LIFE: Duration = Duration::from_secs(1);
/// For how long the database is not asked again for a share of a rate limit that is used up.
pub const FULL_LIFE: Duration = Duration::from_secs(1);
/// How long a share of a rate limit is valid.
pub const SHARE_LIFE: Duration = Duration::from_mins(1);
/// After this long a share no longer counts, whoever holds it: twice its life, because clocks differ.
pub const SHARE_GONE: Duration = Duration::from_mins(2);
/// An account without a call for so long is evicted from memory, and its lease released.
pub const IDLE_LIFE: Duration = Duration::from_mins(5);
/// How often idle accounts are looked for.
pub const TIDY_EVERY: Duration = Duration::from_secs(30);

/// How long requests are kept.
pub const REQUESTS_LIFE: Duration = Duration::from_hours(30 * 24);
/// How often those that are older are removed.
pub const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// Blocks of the log that are pruned in one transaction.
pub const PRUNE_ROWS: i64 = 500;
/// Blocks of the log of the last minute that are read at start.
pub const RESTORED_BLOCKS_MAX: i64 = 2_000;
/// Calls in 60 seconds of one service, whatever it calls and with whichever of its credentials, unless it is configured.
pub const SERVICE_CALLS_PER_MINUTE: u32 = 6_000;
/// Names of calls that services serve, in one journal.
pub const ADDED_NAMES_MAX: usize = 16_384;
/// The same of one service.
pub const NAMES_OF_SERVICE_MAX: usize = 2_000;
/// Requests in one block of the log.
pub const BLOCK_REQUESTS_MAX: usize = 1_000;
/// The longest time that one block of the log spans.
pub const BLOCK_SPAN_MAX: Duration = Duration::from_mins(10);
/// A block with fewer requests is taken together with the next.
pub const BLOCK_REQUESTS_FEW: i64 = 64;
/// Blocks that are read at once.
pub const BLOCKS_AT_ONCE: i64 = 64;
/// Blocks that are looked at for one page; a page may be shorter than asked for.
pub const BLOCKS_READ_MAX: usize = 512;
/// Requests that are looked at for one page.
pub const REQUESTS_READ_MAX: usize = 20_000;
/// How long a server that stops waits for calls whose clients have disconnected.
pub const STOP_TIME_MAX: Duration = Duration::from_secs(3);
/// The pause between two looks while it waits.
pub const STOP_PAUSE: Duration = Duration::from_millis(20);

/// Rows of usage in an answer, beside the one that sums up the rest.
pub const USAGE_ROWS_MAX: usize = 8_000;
/// The most bytes of a row of usage, or of a series, that has no names.
pub const USAGE_ROW_BYTES: usize = 512;
/// Days of a series by hour.
pub const HOURS_DAYS_MAX: i64 = 31;
/// Days of a series by day.
pub const DAYS_MAX: i64 = 366;
/// Days of a series by category, key or operation.
pub const GROUPED_DAYS_MAX: i64 = 92;

/// The percentages of the budget that an event tells of.
pub const THRESHOLDS: [i64; 2] = [80, 100];
/// The maximum of a grant, and of all grants of a month together: sums stay within 64 bits.
pub const GRANT_UNITS_MAX: i64 = 1 << 53;
