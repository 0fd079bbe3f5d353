//! Tries that count against a limit, in the database, so that they hold for all servers together and after a restart.

use std::time::Duration;

use portico_engine::{Engine, LengthPrefixedHash};
use portico_kernel::{Problem, Timestamp, hex};
use portico_store::Tx;

use crate::sql::people as sql;

/// So many within so long: a window that slides, exact.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    what: &'static str,
    most: usize,
    within: Duration,
}

/// Wrong passwords and codes of one person.
pub(crate) const OF_PERSON: Limit = Limit { what: "person", most: 10, within: Duration::from_mins(15) };
/// Wrong passwords and codes from one address.
pub(crate) const OF_ADDRESS: Limit = Limit { what: "address", most: 50, within: Duration::from_mins(15) };
/// Registrations of apps from one address.
pub(crate) const REGISTRATIONS: Limit = Limit { what: "register", most: 20, within: Duration::from_hours(1) };
/// Documents of apps fetched for one address.
pub(crate) const DOCUMENTS: Limit = Limit { what: "document", most: 30, within: Duration::from_hours(1) };
/// Single tokens that a client revoked.
pub(crate) const REVOCATIONS: Limit = Limit { what: "revoke", most: 100, within: Duration::from_hours(1) };
/// Wrong passwords of someone who is signed in: strangers' tries do not count against them.
pub(crate) const RECHECKS: Limit = Limit { what: "recheck", most: 10, within: Duration::from_mins(15) };
/// Letters that anyone can make us send to one person.
pub(crate) const LETTERS: Limit = Limit { what: "letter", most: 6, within: Duration::from_hours(1) };
/// Invitations that one person can have mailed.
pub(crate) const INVITATIONS: Limit =
    Limit { what: "invitations", most: 50, within: Duration::from_hours(1) };
/// Letters that one person, or someone at one address, can make us send.
pub(crate) const LETTERS_FROM: Limit =
    Limit { what: "letters from", most: 6, within: Duration::from_hours(1) };

impl Limit {
    /// Whom it counts is kept as a hash: the table is no list of addresses.
    fn bucket(self, key: &str) -> String {
        let mut pieces = LengthPrefixedHash::default();
        pieces.add(b'a', key.as_bytes());
        format!("{}:{}", self.what, hex(&pieces.finish()[..16]))
    }
}

fn parse(times: &str) -> Vec<i64> {
    times.split(' ').filter_map(|time| time.parse().ok()).collect()
}

fn write(times: &[i64]) -> String {
    times.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// The buckets in one order, so that two calls never wait for each other.
fn sorted(limits: &[(Limit, &str)]) -> Vec<(Limit, String)> {
    let mut buckets: Vec<_> = limits.iter().map(|(limit, key)| (*limit, limit.bucket(key))).collect();
    buckets.sort_by(|a, b| a.1.cmp(&b.1));
    buckets
}

/// Takes one try of each limit, before it is known how it ends: so no two can pass a limit side by side. When one is
/// used up, none is taken, and the answer is how long to wait.
pub(crate) async fn take(
    engine: &Engine,
    now: Timestamp,
    limits: &[(Limit, &str)],
) -> Result<Result<(), Duration>, Problem> {
    let mut tx = engine.db.write().await?;
    let mut wait = None;
    for (limit, bucket) in sorted(limits) {
        let times = within(&mut tx, limit, &bucket, now).await?;
        if times.len() >= limit.most {
            let oldest = Timestamp::from_micros(times[times.len() - limit.most]);
            wait = wait.max(Some((oldest + limit.within).since(now)));
        }
        let times = write(&[times, vec![now.as_micros()]].concat());
        sql::set_attempts(&mut tx, &bucket, &times, now + limit.within).await?;
    }
    match wait {
        None => tx.commit().await?,
        Some(_) => tx.rollback().await?,
    }
    Ok(wait.map_or(Ok(()), Err))
}

/// What becomes of the tries before, when one ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// They still count: this was only the first of two steps.
    Count,
    /// Those of the person are forgotten.
    Forgotten,
}

/// Gives a try back that ended well.
pub(crate) async fn forgive(
    engine: &Engine,
    now: Timestamp,
    limits: &[(Limit, &str)],
    earlier: Earlier,
) -> Result<(), Problem> {
    let mut tx = engine.db.write().await?;
    for (limit, bucket) in sorted(limits) {
        let mut times = within(&mut tx, limit, &bucket, now).await?;
        if earlier == Earlier::Forgotten && limit.what != OF_ADDRESS.what {
            times.clear();
        } else if let Some(own) = times.iter().position(|time| *time == now.as_micros()) {
            times.remove(own);
        }
        sql::set_attempts(&mut tx, &bucket, &write(&times), now + limit.within).await?;
    }
    Ok(tx.commit().await?)
}

async fn within(tx: &mut Tx, limit: Limit, bucket: &str, now: Timestamp) -> Result<Vec<i64>, Problem> {
    let oldest = (now - limit.within).as_micros();
    let mut times = parse(&sql::lock_attempts(tx, bucket).await?);
    times.retain(|time| *time > oldest);
    Ok(times)
}
