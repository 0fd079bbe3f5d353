//! Every limit of the area (SPEC.md, Limits; API.md, section 4).

use std::time::Duration;

/// Endpoints of an account.
pub const ENDPOINTS_MAX: i64 = 50;
/// Characters of an address.
pub const URL_CHARACTERS_MAX: usize = 2_048;
/// Characters of a description.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 500;

/// Attempts at a delivery; after the last it is abandoned.
pub const ATTEMPTS_MAX: i64 = 8;
/// The gap after each attempt but the last.
pub const GAPS: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(10),
];
/// A gap grows by chance by up to this part of it,
pub const JITTER_PART: u32 = 20;
/// and at least by up to this.
pub const JITTER_LEAST: Duration = Duration::from_secs(1);
/// From the lookup of the name to the last byte of the answer.
pub const ATTEMPT_TIME_MAX: Duration = Duration::from_secs(15);
/// How much of an answer is read, and discarded.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// An endpoint that only failed for so long is disabled.
pub const FAILING_MAX: Duration = Duration::from_hours(5 * 24);

/// How long the old secret signs beside the new one.
pub const ROTATION_OVERLAP: Duration = Duration::from_hours(24);
/// How far the clock of a signature may be off.
pub const TIMESTAMP_TOLERANCE: Duration = Duration::from_mins(5);
/// Bytes of a secret.
pub const SECRET_BYTES: usize = 32;

/// How long a test waits for the result of its attempt to be stored.
pub const TEST_WAIT_MAX: Duration = Duration::from_millis(250);

/// How long deliveries and their attempts are kept.
pub const HISTORY_LIFE: Duration = Duration::from_hours(30 * 24);
/// How far back an endpoint can recover what it missed.
pub const RECOVER_LIFE: Duration = HISTORY_LIFE;
/// What `failed_24h` and `succeeded_24h` look back at.
pub const RECENT: Duration = Duration::from_hours(24);
/// Days of statistics in one answer.
pub const STATS_DAYS_MAX: u64 = 31;
/// Deliveries that are scanned for one page of a filtered list; a page may be shorter than asked for.
pub const SCANNED_MAX: usize = 5_000;

/// Pending deliveries of one endpoint.
pub const ENDPOINT_PENDING_MAX: i64 = 5_000;
/// Pending deliveries of one account.
pub const ACCOUNT_PENDING_MAX: i64 = 10_000;
/// Of these, those that any endpoint may take; the rest is shared out equally, so that an endpoint that takes what it is
/// sent goes on while others are full.
pub const COMMON_PENDING_MAX: i64 = ACCOUNT_PENDING_MAX / 2;
/// After so many deliveries that one server made for an account, those that are pending are counted. So many more than the
/// maximum there may be, for each server.
pub const COUNTED_EVERY: usize = 250;
/// Accounts whose pending deliveries are counted before the sender does anything else.
pub const COUNTED_AT_ONCE: usize = 16;
/// Deliveries that were held back and that are made in one transaction.
pub const HELD_MADE_AT_ONCE: i64 = 1_000;
/// Deliveries that are held back and that statistics count.
pub const HELD_COUNTED_MAX: i64 = 10_000;

/// Attempts of an account in any minute at hosts that have not taken any of its deliveries yet, all together.
pub const UNPROVEN_PER_MINUTE: u32 = 30;
/// First attempts of an account in any minute at such hosts, which need not wait for the others, so that the first event
/// reaches each of as many endpoints as there may be.
pub const FIRST_PER_MINUTE: u32 = 50;
/// After so many attempts in a row that it did not take, a host counts again as one that has taken none.
pub const PROOF_FAILURES_MAX: u32 = 30;
/// How long a worker remembers attempts that such a host did not take.
pub const FAILURES_LIFE: Duration = Duration::from_mins(1);
/// After so long a worker reads its account's plan again.
pub const PLAN_LIFE: Duration = Duration::from_mins(1);

/// Deliveries in flight to one endpoint.
pub const ENDPOINT_IN_FLIGHT_MAX: usize = 16;
/// Deliveries in flight of one account.
pub const ACCOUNT_IN_FLIGHT_MAX: usize = 64;
/// Deliveries in flight from one server.
pub const IN_FLIGHT_MAX: usize = 512;
/// Of these, those to endpoints that were slow the last time: the other half stays free for the rest.
pub const SLOW_IN_FLIGHT_MAX: usize = 256;
/// Deliveries in flight to one endpoint while more than half of the server's slots are taken.
pub const CROWDED_IN_FLIGHT: usize = 4;
/// An attempt that takes this long, in milliseconds, is slow.
pub const SLOW_MS: i64 = 1_000;
/// Deliveries in flight to an endpoint before its first result.
pub const FIRST_IN_FLIGHT: usize = 2;
/// Deliveries of one endpoint that are read ahead.
pub const READ_AHEAD: usize = 32;
/// Deliveries of one account that are handed over with the commit; beyond that they are read from the database.
pub const HANDED_OVER_MAX: usize = 1_024;
/// Attempts of one account that are in flight or whose result is not stored yet; beyond that nothing more is sent. So many
/// may be sent again when a server dies.
pub const UNWRITTEN_MAX: usize = 256;
/// Results that are stored in one transaction.
pub const RESULTS_MAX: usize = 256;
/// How long to wait after a failed write.
pub const WRITE_PAUSE: Duration = Duration::from_millis(250);

/// How long a claim on an account lasts.
pub const CLAIM_LIFE: Duration = Duration::from_secs(12);
/// How long a server relies on its claims: less, because clocks differ.
pub const CLAIM_TRUST: Duration = Duration::from_secs(10);
/// How often a server renews its claims.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
/// How often a server polls for due deliveries.
pub const POLL_EVERY: Duration = Duration::from_millis(500);
/// The pause between polls is at least so many times as long as the last poll took.
pub const POLL_REST: u32 = 20;
/// Before a worker reads its account's endpoints again it rests for so many times as long as that took the last time, so
/// that an account that changes them all the time takes a small part of a processor.
pub const REFRESH_REST: u32 = 10;
/// It never rests for longer.
pub const REFRESH_REST_MAX: Duration = Duration::from_millis(250);
/// After so long a busy worker reads its endpoints again.
pub const ENDPOINTS_LIFE: Duration = Duration::from_secs(1);
/// After so long without anything to send a server releases its claim on an account.
pub const IDLE_LIFE: Duration = Duration::from_secs(10);
/// How long a server that stops waits for attempts in flight.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);

/// How long a test inbox lives.
pub const INBOX_LIFE: Duration = Duration::from_hours(24);
/// Requests that it stores.
pub const INBOX_REQUESTS_MAX: i64 = 50;
/// The body of a request to it.
pub const INBOX_BODY_BYTES_MAX: u64 = 64 << 10;
/// Requests that it accepts in a minute.
pub const INBOX_REQUESTS_PER_MINUTE: usize = 60;
/// Characters of a header that it stores.
pub const INBOX_HEADER_CHARACTERS_MAX: usize = 4_096;

/// How often expired rows are removed.
pub const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// How long the row of a deleted endpoint stays: longer than any call takes.
pub const DELETED_LIFE: Duration = Duration::from_mins(5);
/// Rows that are removed, or ended, in one transaction.
pub const PRUNE_ROWS: i64 = 500;
