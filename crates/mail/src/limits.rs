//! Every bound of the area.

use std::time::Duration;

/// Messages that a server sends at once.
pub const PARALLEL: usize = 10;
/// How long one attempt may take.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(20);
/// After so long without a sign of its sender, another server sends a message.
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
