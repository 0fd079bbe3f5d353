//! Attempts that count against a limit, in the database, so that limits hold for all servers together and after a
//! restart.

use std::time::Duration;

use portico_engine::{Engine, LengthPrefixedHash};
use portico_kernel::{Problem, Timestamp, hex};
use portico_store::Tx;

use crate::sql::people as sql;

/// A limit on attempts within an exact sliding window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptLimit {
    name: &'static str,
    limit: usize,
    window: Duration,
}

/// Wrong passwords and codes of one person.
pub(crate) const SIGN_INS_OF_PERSON: AttemptLimit = AttemptLimit::new("person", 10, Duration::from_mins(15));
/// Wrong passwords and codes from one address.
pub(crate) const SIGN_INS_FROM_ADDRESS: AttemptLimit =
    AttemptLimit::new("address", 50, Duration::from_mins(15));
/// Registrations of apps from one address.
pub(crate) const REGISTRATIONS: AttemptLimit = AttemptLimit::new("register", 20, Duration::from_hours(1));
/// Documents of apps fetched for one address.
pub(crate) const DOCUMENTS: AttemptLimit = AttemptLimit::new("document", 30, Duration::from_hours(1));
/// Single tokens that a client revoked.
pub(crate) const REVOCATIONS: AttemptLimit = AttemptLimit::new("revoke", 100, Duration::from_hours(1));
/// Wrong passwords of someone who is signed in: strangers' attempts do not count against them.
pub(crate) const PASSWORD_CHECKS: AttemptLimit = AttemptLimit::new("recheck", 10, Duration::from_mins(15));
/// Mails that anyone can make us send to one person.
pub(crate) const MAIL_TO: AttemptLimit = AttemptLimit::new("letter", 6, Duration::from_hours(1));
/// Invitations that one person can have mailed.
pub(crate) const INVITATIONS: AttemptLimit = AttemptLimit::new("invitations", 50, Duration::from_hours(1));
/// Mails that one person, or someone at one address, can make us send.
pub(crate) const MAIL_FROM: AttemptLimit = AttemptLimit::new("letters from", 6, Duration::from_hours(1));

impl AttemptLimit {
    const fn new(name: &'static str, limit: usize, window: Duration) -> Self {
        Self { name, limit, window }
    }

    /// The key is stored as a hash, so that the table is no list of addresses.
    fn bucket(self, key: &str) -> String {
        let mut pieces = LengthPrefixedHash::default();
        pieces.add(b'a', key.as_bytes());
        format!("{}:{}", self.name, hex(&pieces.finish()[..16]))
    }
}

fn parse(times: &str) -> Vec<i64> {
    times.split(' ').filter_map(|time| time.parse().ok()).collect()
}

fn write(times: &[i64]) -> String {
    times.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// The buckets in one order, so that two calls never deadlock.
fn sorted(limits: &[(AttemptLimit, &str)]) -> Vec<(AttemptLimit, String)> {
    let mut buckets: Vec<_> = limits.iter().map(|(limit, key)| (*limit, limit.bucket(key))).collect();
    buckets.sort_by(|a, b| a.1.cmp(&b.1));
    buckets
}

/// Counts one attempt against each limit, before it is known how it ends: so no two can pass a limit side by side. When
/// a limit is used up, none is counted, and the time to wait is returned.
pub(crate) async fn take(
    engine: &Engine,
    now: Timestamp,
    limits: &[(AttemptLimit, &str)],
) -> Result<Option<Duration>, Problem> {
    let mut tx = engine.db.write().await?;
    let mut wait = None;
    for (limit, bucket) in sorted(limits) {
        let times = within(&mut tx, limit, &bucket, now).await?;
        if times.len() >= limit.limit {
            let oldest = Timestamp::from_micros(times[times.len() - limit.limit]);
            wait = wait.max(Some((oldest + limit.window).since(now)));
        }
        let times = write(&[times, vec![now.as_micros()]].concat());
        sql::set_attempts(&mut tx, &bucket, &times, now + limit.window).await?;
    }
    match wait {
        None => tx.commit().await?,
        Some(_) => tx.rollback().await?,
    }
    Ok(wait)
}

/// What becomes of the attempts before one that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlierAttempts {
    /// They still count: this was only the first of two steps.
    Keep,
    /// Those of the person count no more.
    Clear,
}

/// Takes back the attempt that was counted, because it succeeded.
pub(crate) async fn give_back(
    engine: &Engine,
    now: Timestamp,
    limits: &[(AttemptLimit, &str)],
    earlier: EarlierAttempts,
) -> Result<(), Problem> {
    let mut tx = engine.db.write().await?;
    for (limit, bucket) in sorted(limits) {
        let mut times = within(&mut tx, limit, &bucket, now).await?;
        if earlier == EarlierAttempts::Clear && limit.name != SIGN_INS_FROM_ADDRESS.name {
            times.clear();
        } else if let Some(own) = times.iter().position(|time| *time == now.as_micros()) {
            times.remove(own);
        }
        sql::set_attempts(&mut tx, &bucket, &write(&times), now + limit.window).await?;
    }
    Ok(tx.commit().await?)
}

async fn within(tx: &mut Tx, limit: AttemptLimit, bucket: &str, now: Timestamp) -> Result<Vec<i64>, Problem> {
    let oldest = (now - limit.window).as_micros();
    let mut times = parse(&sql::lock_attempts(tx, bucket).await?);
    times.retain(|time| *time > oldest);
    Ok(times)
}
