//! Every limit of the area.

use std::time::Duration;

/// Connections of an account.
pub const CONNECTIONS_MAX: i64 = 500;
/// Grants of a connection that stand.
pub const GRANTS_MAX: i64 = 200;
/// Sign-ins of a person that wait for them.
pub const SIGN_INS_MAX: i64 = 10;

/// Characters of a name.
pub const NAME_CHARACTERS_MAX: usize = 80;
/// Characters of a description.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 500;
/// Bytes of a secret and of each field of a credential.
pub const SECRET_BYTES_MAX: usize = 8_192;
/// Bytes of a reference to a secret.
pub const SECRET_REF_BYTES_MAX: usize = 512;
/// Characters of a value of a configuration.
pub const CONFIG_CHARACTERS_MAX: usize = 2_048;
/// Characters of a handle.
pub const HANDLE_CHARACTERS_MAX: usize = 24;
/// Bytes of the name of a tool: a handle, a line, and the name of an action.
pub const TOOL_NAME_BYTES_MAX: usize = HANDLE_CHARACTERS_MAX + 1 + 32;
/// Characters of a code, a state and an error that come back from a sign-in.
pub const SIGN_IN_CHARACTERS_MAX: usize = 4_096;

/// Bytes of the parameters of an action, as JSON.
pub const PARAMS_BYTES_MAX: usize = 256 << 10;
/// Bytes of a request that calls an action: the parameters, and what stands around them.
pub const ACTION_BODY_BYTES_MAX: u64 = 272 << 10;
/// Bytes of an answer of a provider.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of an answer to a request for a token.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;

/// The whole of a call, from the lookup of the name to the last byte.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(20);
/// To the open connection.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// A request for a token.
pub const TOKEN_TIME_MAX: Duration = Duration::from_secs(10);
/// A test.
pub const TEST_TIME_MAX: Duration = Duration::from_secs(10);
/// The end of a credential at its provider.
pub const REVOKE_TIME_MAX: Duration = Duration::from_secs(5);
/// A call and its second try, where it has one, so that the operation ends in its own time.
pub const CALLS_TIME_MAX: Duration = Duration::from_secs(24);

/// Calls of one connection at once, from one server.
pub const CALLS_AT_ONCE: usize = 10;
/// Calls that wait for one of them to end,
pub const CALLS_WAITING_MAX: usize = 100;
/// and for how long.
pub const CALLS_WAIT_MAX: Duration = Duration::from_secs(5);

/// Calls of all connections of an account that are sent at once, from one server; others wait as for those of a connection.
pub const ACCOUNT_CALLS_AT_ONCE: usize = 100;
/// What the parameters of an account's calls that are under way may take on one server, in bytes as JSON.
pub const ACCOUNT_PARAMS_BYTES_MAX: usize = 4 << 20;
/// What a call counts at least there: it takes more than its parameters.
pub const CALL_BYTES_MIN: usize = 2 << 10;
/// A call that was found to be allowed so long ago is looked at again before it is sent.
pub const CHECKED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// With less time left than this nothing is sent any more.
pub const SEND_TIME_MIN: Duration = Duration::from_secs(1);

/// How long a person has for a sign-in.
pub const SIGN_IN_LIFE: Duration = Duration::from_mins(10);
/// How long a sign-in is on record.
pub const SIGN_IN_KEPT: Duration = Duration::from_hours(24);
/// How long uses are on record.
pub const HISTORY_LIFE: Duration = Duration::from_hours(90 * 24);
/// What `used_by` looks back at.
pub const USED_BY_LIFE: Duration = Duration::from_hours(30 * 24);
/// How many consumers `used_by` names.
pub const USED_BY_MAX: i64 = 20;
/// A consumer that used something again within so long is not written down anew.
pub const LAST_USED_EVERY: Duration = Duration::from_secs(1);
/// Rows that are scanned for one page of a filtered list; a page may be shorter than asked for.
pub const SCANNED_MAX: usize = 5_000;
/// Tools of connections that an assistant is shown.
pub const TOOLS_MAX: usize = 100;

/// A token is refreshed when less of its life is left than this,
pub const REFRESH_LEAD: Duration = Duration::from_mins(5);
/// or than this part of it.
pub const REFRESH_PART: u32 = 5;
/// How long one server may refresh before another may begin.
pub const REFRESH_LEASE: Duration = Duration::from_secs(30);
/// How often it is looked whether another server has finished,
pub const REFRESH_POLL: Duration = Duration::from_millis(100);
/// and for how long.
pub const REFRESH_WAIT_MAX: Duration = Duration::from_secs(12);
/// How long a server that stops waits for refreshes under way.
pub const STOP_WAIT_MAX: Duration = Duration::from_secs(15);
/// After a refresh that failed, the wait before the next; it doubles,
pub const RETRY_FIRST: Duration = Duration::from_secs(30);
/// up to this.
pub const RETRY_MAX: Duration = Duration::from_mins(15);
/// A token that nobody needed for so long is refreshed all the same, so that it does not end.
pub const IDLE_REFRESH: Duration = Duration::from_hours(24);
/// Idle tokens that are refreshed at once.
pub const IDLE_AT_ONCE: i64 = 10;
/// How often idle tokens are looked for.
pub const IDLE_EVERY: Duration = Duration::from_mins(15);

/// How often expired rows are looked for, and how many are removed at once.
pub const PRUNE_EVERY: Duration = Duration::from_mins(5);
/// Rows of one such removal.
pub const PRUNE_ROWS: i64 = 500;
/// How often grants are looked through for consumers that have ended.
pub const GRANTS_EVERY: Duration = Duration::from_secs(20);
/// Grants that are looked at in one run.
pub const GRANTS_AT_ONCE: i64 = 500;
/// How often a server looks for changes that others made to what assistants see.
pub const CHANGES_EVERY: Duration = Duration::from_secs(1);
/// How far back it looks: a change is committed some time after it was begun.
pub const CHANGES_LOOK_BACK: Duration = Duration::from_mins(1);

/// Characters of what a provider said about a refusal.
pub const PROVIDER_MESSAGE_CHARACTERS_MAX: usize = 300;
/// The least and the most that a provider's `Retry-After` counts, in seconds.
pub const RETRY_AFTER_SECONDS: std::ops::RangeInclusive<u64> = 1..=3_600;
