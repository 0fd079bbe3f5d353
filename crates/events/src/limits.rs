//! Every limit of the area (SPEC.md, Limits; API.md, section 5).

use std::time::Duration;

/// Streams, sockets and MQTT connections of a key, API token or person at once.
pub const STREAMS_PER_CREDENTIAL: u32 = 32;
/// Streams, sockets and MQTT connections of an account at once.
pub const STREAMS_PER_ACCOUNT: u32 = 128;
/// Streams, sockets and MQTT connections at once of a person and of all keys and API tokens that they made, in all accounts
/// together. As many as two accounts have: whoever makes the keys of one team or two meets no limit but the account's.
pub const STREAMS_PER_PERSON: u32 = 256;
/// How long a stream may last.
pub const STREAM_LIFE_MAX: Duration = Duration::from_hours(24);
/// A client that sends nothing for so long, or reads nothing, is disconnected.
pub const IDLE_MAX: Duration = Duration::from_mins(5);
/// How often a quiet connection is pinged.
pub const PING_EVERY: Duration = Duration::from_secs(15);

/// The bytes that a connection buffers for sending; the rest stays in the log. With what the protocol adds it stays within
/// 64 KiB.
pub(crate) const BATCH_BYTES_MAX: usize = 32 << 10;
/// Events in one such batch.
pub(crate) const BATCH_FRAMES_MAX: usize = 128;
/// The newest events of an account that are kept in memory for its streams on this server.
pub(crate) const TAIL_BYTES_MAX: usize = 256 << 10;
/// Events in memory that arrived before the ones that they follow.
pub(crate) const OUT_OF_ORDER_MAX: usize = 1024;
/// Rows of the log that are read at once.
pub(crate) const PAGE_ROWS: i64 = 128;
/// Streams that read the log at the same time, so that many clients that reconnect at once leave the database to others.
pub(crate) const READERS_MAX: usize = 6;

/// How long to wait for missing events that were committed at the same time, before they are read from the log.
pub(crate) const ORDER_WAIT: Duration = Duration::from_millis(2);
/// How long to wait when the log cannot be read.
pub(crate) const RETRY_WAIT: Duration = Duration::from_millis(200);
/// How often accounts with streams are polled, in case a notification was lost.
pub(crate) const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long notifications to other servers are collected before they are sent.
pub(crate) const NOTIFY_DELAY: Duration = Duration::from_millis(5);
/// Bytes of one notification; PostgreSQL takes less than 8,000.
pub(crate) const NOTIFICATION_BYTES_MAX: usize = 7_000;

/// How long a server counts as alive after its last heartbeat, and how often it sends one.
pub(crate) const NODE_LIFE: Duration = Duration::from_secs(25);
pub(crate) const NODE_EVERY: Duration = Duration::from_secs(5);

/// Event types that a stream may be filtered by.
pub const TYPES_MAX: usize = 100;
/// Bytes of a type's name.
pub const TYPE_BYTES_MAX: usize = 100;

/// How long an MQTT session is kept after its client has gone.
pub const SESSION_LIFE_MAX: Duration = Duration::from_hours(7 * 24);
/// MQTT sessions of an account.
pub const SESSIONS_PER_ACCOUNT: i64 = 1_000;
