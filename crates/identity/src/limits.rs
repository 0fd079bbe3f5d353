//! Every bound of the area (SPEC.md, Limits; API.md, sections 2 and 8).

use std::time::Duration;

/// API keys of an account at once.
pub const KEYS_MAX: i64 = 10;
/// Active API tokens of an account.
pub const TOKENS_MAX: i64 = 20;
/// Credentials of a service that are not revoked.
pub const SERVICE_KEYS_MAX: i64 = 3;
/// How many days an API token may live.
pub const TOKEN_DAYS: [u16; 4] = [7, 30, 90, 365];
/// How long a token lives that a key was exchanged for, or that a person holds.
pub const ACCESS_TOKEN_LIFE: Duration = Duration::from_mins(15);
/// How far the issuer's clock may be ahead of ours.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(5);
/// A name of a key, token, app, passkey or person.
pub const NAME_CHARACTERS_MAX: usize = 100;

/// How often the revocations are read.
pub const REVOCATIONS_EVERY: Duration = Duration::from_millis(500);
/// After so long without reading them, nobody is admitted.
pub const REVOCATIONS_STALE: Duration = Duration::from_secs(10);
/// How far back they are read: longer than any token from a key lives, and than a known API token goes unasked.
pub const REVOCATIONS_WINDOW: Duration = Duration::from_mins(20);
/// How long a call may take from its beginning, whose time its revocation carries, to its commit.
/// With room for a server whose clock is behind.
pub const REVOCATIONS_LATE_MAX: Duration = Duration::from_mins(5);

/// How often the signing keys are read.
pub const SIGNING_KEYS_EVERY: Duration = Duration::from_secs(2);
/// How long a new signing key is published before it signs.
pub const SIGNING_KEY_WAIT: Duration = Duration::from_hours(24);
/// The same in a hurry: long enough for every server to have read it, or to admit nobody any more.
pub const SIGNING_KEY_WAIT_MIN: Duration = REVOCATIONS_STALE;

/// How often the last uses of keys and tokens are written.
pub const USES_EVERY: Duration = Duration::from_secs(5);
/// How long an API token counts as listed before the list is asked again.
pub const LISTED_LIFE: Duration = Duration::from_mins(5);

/// A form posted to the provider.
pub const FORM_BYTES_MAX: usize = 64 << 10;
/// A registration (RFC 7591).
pub const REGISTRATION_BYTES_MAX: usize = 16 << 10;
/// Redirect addresses of an app.
pub const REDIRECT_URIS_MAX: usize = 10;
/// A redirect address.
pub const REDIRECT_URI_BYTES_MAX: usize = 2 << 10;
/// The `state` of an authorization request.
pub const STATE_BYTES_MAX: usize = 4 << 10;

/// How long an authorization code can be exchanged.
pub const CODE_LIFE: Duration = Duration::from_mins(1);
/// How long a person may look at the consent page.
pub const CONSENT_LIFE: Duration = Duration::from_mins(10);
/// How long a refresh token can be used.
pub const REFRESH_LIFE: Duration = Duration::from_hours(30 * 24);
/// How many days after the person let an app in its refresh tokens end, however often they were used, unless the
/// configuration says otherwise.
pub const REFRESH_TOKEN_DAYS: u16 = 90;
/// The grace period in which a spent refresh token still returns its successor.
pub const REFRESH_GRACE: Duration = Duration::from_secs(30);
/// How many spent refresh tokens are remembered for that long.
pub const REFRESH_SPENT_MAX: usize = 16;
/// How long a code still says what it was for, so that one that is used again ends what it gave.
pub const CODE_KEPT: Duration = Duration::from_hours(24);
/// How long an app that registered itself is kept when nobody lets it in.
pub const CLIENT_UNUSED_LIFE: Duration = Duration::from_hours(24);

/// A client id metadata document.
pub const DOCUMENT_BYTES_MAX: usize = 64 << 10;
/// How long fetching one may take.
pub const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long one is good, whatever its headers say: at least, and at most.
pub const DOCUMENT_LIFE: (Duration, Duration) = (Duration::from_mins(5), Duration::from_hours(24));

/// How long a session lasts without being used.
pub const SESSION_IDLE: Duration = Duration::from_hours(7 * 24);
/// How long a session lasts.
pub const SESSION_LIFE: Duration = Duration::from_hours(30 * 24);
/// Sessions of a person at once; the oldest makes room.
pub const SESSIONS_MAX: usize = 50;
/// How often the last use of a session is written.
pub const SESSION_SEEN_EVERY: Duration = Duration::from_mins(1);
/// How long the second step of a sign-in, or a ceremony with a passkey, may take.
pub const STEP_LIFE: Duration = Duration::from_mins(5);

/// How long setting up a code generator may take.
pub const TOTP_SETUP_LIFE: Duration = Duration::from_mins(10);

/// How long the first sign-up's link works.
pub const SETUP_LINK_LIFE: Duration = Duration::from_hours(7 * 24);
/// How long a link to choose a password or to confirm an address works.
pub const MAIL_LINK_LIFE: Duration = Duration::from_hours(1);

/// The characters of a password.
pub const PASSWORD_CHARACTERS: std::ops::RangeInclusive<usize> = 8..=256;
/// The least strength of a password, on zxcvbn's scale from 0 to 4.
pub const PASSWORD_SCORE_MIN: u8 = 3;
/// Memory, passes and lanes of argon2id.
pub const PASSWORD_COST: (u32, u32, u32) = (19_456, 2, 1);
/// Passwords that may wait to be checked.
pub const PASSWORDS_WAITING_MAX: usize = 64;
/// The same of one network.
pub const PASSWORDS_WAITING_OF_NETWORK_MAX: usize = 16;
/// Passkeys of a person.
pub const PASSKEYS_MAX: usize = 20;
/// Recovery codes of a person.
pub const RECOVERY_CODES: usize = 10;

/// The span in which writes at `{auth_url}` are counted.
pub const WRITES_WINDOW: Duration = Duration::from_mins(1);
/// Writes of one person in it.
pub const WRITES_OF_PERSON: usize = 30;
/// How often in it one person may load the console anew: more often than anybody does, with many tabs.
pub const CONSOLE_LOADS: usize = 120;
/// Writes from one address in it, of IPv6 from one /64.
pub const WRITES_FROM_ADDRESS: usize = 120;
/// Writes from one /48 of IPv6 in it.
pub const WRITES_FROM_NETWORK: usize = 480;
/// Uses of the refresh tokens of one authorization in it.
pub const WRITES_OF_AUTHORIZATION: usize = 120;
/// People, addresses and the like whose writes are counted at once.
pub const WRITERS_MAX: usize = 10_000;

/// How long a browser is known to a person who signed in with it.
pub const KNOWN_BROWSER_LIFE: Duration = Duration::from_hours(365 * 24);
/// People to whom one browser is known; the one who signed in longest ago makes room.
pub const KNOWN_BROWSER_PEOPLE_MAX: usize = 10;
/// How long an address waits after its tenth wrong password of a person, or after its first while that person's sign-ins
/// are slowed down. Each further one doubles it.
pub const SIGN_IN_PAUSE: Duration = Duration::from_secs(15);

/// How often what is over is removed.
pub const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// Rows that are removed in one transaction.
pub const PRUNE_ROWS: i64 = 500;
