//! Every limit of the area.

use std::time::Duration;

/// Domains of an account.
pub const DOMAINS_MAX: i64 = 100;
/// Characters of a domain: what DNS allows a name, less the longest label that stands before one.
pub const NAME_CHARACTERS_MAX: usize = 253 - RECORD_LABEL_CHARACTERS_MAX;
/// The longest label before a domain, with its dot.
const RECORD_LABEL_CHARACTERS_MAX: usize = "_portico-host-challenge.".len();
/// Characters of a label.
pub const LABEL_CHARACTERS_MAX: usize = 63;
/// Characters that are read of what somebody calls a domain; international letters take more than one each.
pub const INPUT_CHARACTERS_MAX: usize = 1_000;

/// How long a new proof with one token is accepted.
pub const TOKEN_LIFE: Duration = Duration::from_hours(7 * 24);
/// Random bytes of a token: 32 characters of five bits.
pub const TOKEN_BYTES: usize = 20;

/// Checks and confirmations of one domain
pub const CHECKS_MAX: usize = 10;
/// in any time of this length.
pub const CHECKS_WINDOW: Duration = Duration::from_mins(1);
/// How long adding a domain waits to learn who serves it.
pub const PROVIDER_TIME_MAX: Duration = Duration::from_secs(2);
/// When to come back while no resolver answers.
pub const UNREACHABLE_WAIT: Duration = Duration::from_mins(5);

/// A verified domain is looked at so long after the last look at the earliest,
pub const VERIFIED_GAP: Duration = Duration::from_hours(20);
/// and by chance up to so much later, so that domains that were verified together are not looked at together.
pub const VERIFIED_GAP_SPREAD: Duration = Duration::from_hours(4);
/// The gaps after the first looks that miss the record of a verified domain; the last is that of all further ones.
pub const MISSED_GAPS: [Duration; 4] =
    [Duration::from_mins(15), Duration::from_hours(1), Duration::from_hours(6), Duration::from_hours(12)];
/// How long a record may be gone before its domain is no longer verified,
pub const GONE_GRACE: Duration = Duration::from_hours(72);
/// where the name servers are all others than when it was verified,
pub const MOVED_GRACE: Duration = Duration::from_hours(24);
/// and where nobody can say whether it is there.
pub const UNCLEAR_GRACE: Duration = Duration::from_hours(7 * 24);

/// When a domain that is not verified is looked at, counted from when its token was made;
pub const FIRST_LOOKS: [Duration; 5] = [
    Duration::from_mins(1),
    Duration::from_mins(2),
    Duration::from_mins(5),
    Duration::from_mins(10),
    Duration::from_mins(30),
];
/// then every hour of the first day,
pub const HOURLY: Duration = Duration::from_hours(1);
/// which ends here,
pub const HOURLY_UNTIL: Duration = Duration::from_hours(24);
/// and from then on in these gaps, until the token ends.
pub const LATE_GAP: Duration = Duration::from_hours(6);

/// Looks of one server at once.
pub const LOOKS_AT_ONCE: usize = 16;
/// Looks that one server begins in a second.
pub const LOOKS_PER_SECOND: usize = 8;
/// How long the look of a server that died waits for another: longer than a look waits for its turn and takes.
pub const LOOK_LEASE: Duration = Duration::from_secs(30);
/// When a look is tried again that could not be recorded, or for which too many others look.
pub const RETRY_WAIT: Duration = Duration::from_secs(30);
/// How often the domains are counted that are due.
pub const COUNT_EVERY: Duration = Duration::from_secs(10);
