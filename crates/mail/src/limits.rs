//! Every limit of the area.

use std::time::Duration;

/// Messages that a server sends at once.
pub const PARALLEL: usize = 10;
/// How long sending one message may take.
pub const SEND_TIME_MAX: Duration = Duration::from_secs(20);
/// How long a claim on a message lasts; then another server sends it.
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
