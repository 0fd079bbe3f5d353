//! Every limit of the area.

use std::time::Duration;

/// How often the outbox is polled.
pub const SEND_EVERY: Duration = Duration::from_secs(1);
/// Messages that are sent at once.
pub const BATCH_MAX: i64 = 10;
/// How long sending one message may take; less than a run of a job.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(20);
/// How long a claim on a message lasts; then another server sends it. Longer than any run of a job.
pub const LEASE: Duration = Duration::from_mins(1);
/// How long to wait after the first, the second, … failed attempt. After the attempt that follows the last wait, the
/// message is given up.
pub const WAITS: [Duration; 5] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
];
