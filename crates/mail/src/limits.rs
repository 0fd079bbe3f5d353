//! Every bound of the area.

use std::time::Duration;

/// How often the outbox is looked at.
pub const SEND_EVERY: Duration = Duration::from_secs(1);
/// Letters on their way at once.
pub const BATCH_MAX: i64 = 10;
/// How long one letter may take; less than a turn of a job.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(20);
/// After so long without a word of its sender, another sends a letter: longer than any turn of a job.
pub const LEASE: Duration = Duration::from_mins(1);
/// How long to wait after the first, the second, … try that failed. After the one that follows the last wait, the
/// letter is given up.
pub const WAITS: [Duration; 5] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
];
