//! Every bound of the area (SPEC.md, Limits).

use std::time::Duration;

/// API keys of an account at once.
pub const KEYS_MAX: i64 = 10;
/// Active API tokens of an account.
pub const TOKENS_MAX: i64 = 20;
/// How many days an API token may live.
pub const TOKEN_DAYS: [u16; 4] = [7, 30, 90, 365];
/// How long a token lives that a key was exchanged for, or that a person holds.
pub const ACCESS_TOKEN_LIFE: Duration = Duration::from_mins(15);
/// How far the issuer's clock may be ahead of ours.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);
/// A name of a key or token.
pub const NAME_CHARACTERS_MAX: usize = 100;
/// How often the revocations are read.
pub const REVOCATIONS_EVERY: Duration = Duration::from_millis(500);
/// After so long without reading them, nobody is admitted.
pub const REVOCATIONS_STALE: Duration = Duration::from_secs(10);
/// How far back they are read: longer than any token from a key lives, and than a known API token goes unasked.
pub const REVOCATIONS_WINDOW: Duration = Duration::from_mins(20);
/// How often the last uses of keys and tokens are written.
pub const USES_EVERY: Duration = Duration::from_secs(5);
/// How long an API token counts as listed before the list is asked again.
pub const LISTED_LIFE: Duration = Duration::from_mins(5);
/// A form posted to the provider.
pub const FORM_BYTES_MAX: usize = 64 << 10;
