//! Every bound of the area (SPEC.md, Limits; API.md, section 5).

use std::time::Duration;

/// Streams, sockets and MQTT connections of a key, API token or person at once.
pub const STREAMS_PER_CREDENTIAL: u32 = 32;
/// Streams, sockets and MQTT connections of an account at once.
pub const STREAMS_PER_ACCOUNT: u32 = 128;
/// How long a stream may last.
pub const STREAM_LIFE_MAX: Duration = Duration::from_hours(24);
/// A peer that sends nothing for so long, or takes nothing, has gone.
pub const IDLE_MAX: Duration = Duration::from_mins(5);
/// How often a quiet connection is pinged.
pub const PING_EVERY: Duration = Duration::from_secs(15);

/// What a connection holds on its way out at most; the log keeps the rest. With what the transport adds it stays within
/// 64 KiB.
pub(crate) const BATCH_BYTES_MAX: usize = 32 << 10;
/// Events in one such piece.
pub(crate) const BATCH_FRAMES_MAX: usize = 128;
/// The newest events of an account that are kept in memory for everyone who listens to it here.
pub(crate) const TAIL_BYTES_MAX: usize = 256 << 10;
/// Events that came before those they follow on.
pub(crate) const EARLY_MAX: usize = 1024;
/// Rows of the log that are read at once.
pub(crate) const PAGE_ROWS: i64 = 128;
/// How many read the log at the same time, so that a crowd that comes back leaves the database to others.
pub(crate) const READERS_MAX: usize = 6;

/// How long events that were committed at the same time are given to come in order, before the log is asked.
pub(crate) const ORDER_WAIT: Duration = Duration::from_millis(2);
/// How long to wait when the log cannot be read.
pub(crate) const RETRY_WAIT: Duration = Duration::from_millis(200);
/// How often accounts that are listened to are looked at, in case a word was lost.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long words to other servers are gathered.
pub(crate) const GATHER: Duration = Duration::from_millis(5);
/// What one word may hold; PostgreSQL takes less than 8,000 bytes.
pub(crate) const WORD_BYTES_MAX: usize = 7_000;

/// How long a server that is not heard of counts as there, and how often it says so.
pub(crate) const NODE_LIFE: Duration = Duration::from_secs(25);
pub(crate) const NODE_EVERY: Duration = Duration::from_secs(5);

/// Types that a stream may be narrowed to.
pub const TYPES_MAX: usize = 100;
/// A type's name.
pub const TYPE_BYTES_MAX: usize = 100;

/// How long an MQTT session is kept after its client has gone.
pub const SESSION_LIFE_MAX: Duration = Duration::from_hours(7 * 24);
/// MQTT sessions of an account.
pub const SESSIONS_PER_ACCOUNT: i64 = 1_000;
