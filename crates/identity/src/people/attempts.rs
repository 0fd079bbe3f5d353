//! Attempts that count against a limit, in the database, so that limits hold for all servers together and after a
//! restart.

use std::time::Duration;

use portico_engine::{Engine, LengthPrefixedHash};
use portico_kernel::{Problem, Timestamp, hex};
use portico_store::Tx;

use crate::limits;
use crate::sql::people as sql;

/// A limit on attempts within an exact sliding window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptLimit {
    name: &'static str,
    limit: usize,
    window: Duration,
    effect: Effect,
    /// Does a success clear the attempts before it?
    is_cleared: bool,
}

/// What a limit does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Once it is used up, it refuses.
    Refuses,
    /// Once it is used up, each attempt waits twice as long as the one before it. While a limit beside it slows down, that
    /// begins after the first.
    Pauses,
    /// Once it is used up, it refuses nobody, but slows down.
    SlowsDown,
    /// Once it is used up, other limits count in its place.
    GivesWay,
}

/// Wrong passwords of one person from one address.
pub(crate) const SIGN_INS_OF_PERSON_FROM_ADDRESS: AttemptLimit = AttemptLimit {
    effect: Effect::Pauses,
    ..AttemptLimit::new("person at", 10, Duration::from_mins(15)).cleared()
};
/// Wrong passwords of one person from anywhere. Anybody who knows the e-mail address can cause them, so they keep
/// nobody out. They are more than one address can make.
pub(crate) const SIGN_INS_OF_PERSON: AttemptLimit =
    AttemptLimit { effect: Effect::SlowsDown, ..AttemptLimit::new("person", 20, Duration::from_mins(15)) };
/// Wrong passwords and codes from one address.
pub(crate) const SIGN_INS_FROM_ADDRESS: AttemptLimit =
    AttemptLimit::new("address", 50, Duration::from_mins(15));
/// Wrong passwords and codes from one /48 of IPv6.
pub(crate) const SIGN_INS_FROM_NETWORK: AttemptLimit =
    AttemptLimit::new("network", 200, Duration::from_mins(15));
/// Wrong passwords and codes of one person in a browser that they signed in with before.
pub(crate) const SIGN_INS_OF_BROWSER: AttemptLimit = AttemptLimit {
    effect: Effect::Pauses,
    ..AttemptLimit::new("browser", 10, Duration::from_mins(15)).cleared()
};
/// The same in all browsers that they signed in with before: whoever had their password once may have made many.
/// Once they are used up, such a browser is like any other, so that an old cookie keeps nobody out.
pub(crate) const SIGN_INS_OF_KNOWN_BROWSERS: AttemptLimit =
    AttemptLimit { effect: Effect::GivesWay, ..AttemptLimit::new("browsers", 20, Duration::from_mins(15)) };
/// Wrong codes of one person from anywhere: only someone who has the password gets to try one.
pub(crate) const CODES_OF_PERSON: AttemptLimit =
    AttemptLimit::new("codes", 10, Duration::from_mins(15)).cleared();
/// Registrations of apps from one address.
pub(crate) const REGISTRATIONS: AttemptLimit = AttemptLimit::new("register", 20, Duration::from_hours(1));
/// The same from one /48 of IPv6.
pub(crate) const REGISTRATIONS_FROM_NETWORK: AttemptLimit =
    AttemptLimit::new("register network", 80, Duration::from_hours(1));
/// Documents of apps fetched for one address.
pub(crate) const DOCUMENTS: AttemptLimit = AttemptLimit::new("document", 30, Duration::from_hours(1));
/// Single tokens that a client revoked.
pub(crate) const REVOCATIONS: AttemptLimit = AttemptLimit::new("revoke", 100, Duration::from_hours(1));
/// Wrong passwords of someone who is signed in: strangers' attempts do not count against them.
pub(crate) const PASSWORD_CHECKS: AttemptLimit =
    AttemptLimit::new("recheck", 10, Duration::from_mins(15)).cleared();
/// Mails that anyone can make us send to one person.
pub(crate) const MAIL_TO: AttemptLimit = AttemptLimit::new("letter", 6, Duration::from_hours(1));
/// Invitations that one person can have mailed.
pub(crate) const INVITATIONS: AttemptLimit = AttemptLimit::new("invitations", 50, Duration::from_hours(1));
/// Mails that one person, or someone at one address, can make us send.
pub(crate) const MAIL_FROM: AttemptLimit = AttemptLimit::new("letters from", 6, Duration::from_hours(1));

impl AttemptLimit {
    const fn new(name: &'static str, limit: usize, window: Duration) -> Self {
        Self { name, limit, window, effect: Effect::Refuses, is_cleared: false }
    }

    const fn cleared(self) -> Self {
        Self { is_cleared: true, ..self }
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

/// The attempts of one bucket that are within its window, oldest first. They are locked until the commit.
struct Attempts {
    limit: AttemptLimit,
    bucket: String,
    times: Vec<i64>,
}

impl Attempts {
    async fn lock(tx: &mut Tx, limit: AttemptLimit, bucket: String, now: Timestamp) -> Result<Self, Problem> {
        let oldest = (now - limit.window).as_micros();
        let mut times = parse(&sql::lock_attempts(tx, &bucket).await?);
        times.retain(|time| *time > oldest);
        Ok(Self { limit, bucket, times })
    }

    fn are_used_up(&self) -> bool {
        self.times.len() >= self.limit.limit
    }

    /// How long the next attempt has to wait.
    fn wait(&self, now: Timestamp, slowed: bool) -> Option<Duration> {
        let count = self.times.len();
        let until = match self.limit.effect {
            Effect::SlowsDown => None,
            Effect::Refuses | Effect::GivesWay => count
                .checked_sub(self.limit.limit)
                .map(|over| Timestamp::from_micros(self.times[over]) + self.limit.window),
            Effect::Pauses => {
                let free = if slowed { 1 } else { self.limit.limit };
                let doublings = count.checked_sub(free).and_then(|over| u32::try_from(over).ok());
                doublings.zip(self.times.last()).map(|(doublings, last)| {
                    let times = 2_u32.saturating_pow(doublings);
                    let pause = limits::SIGN_IN_PAUSE.saturating_mul(times).min(self.limit.window);
                    Timestamp::from_micros(*last) + pause
                })
            }
        };
        until.map(|until| until.since(now)).filter(|wait| !wait.is_zero())
    }

    async fn write(self, tx: &mut Tx, now: Timestamp) -> Result<(), Problem> {
        // Where nobody waits, the last ones are enough to know that it is used up.
        let beyond = match self.limit.effect {
            Effect::SlowsDown => self.times.len().saturating_sub(self.limit.limit),
            Effect::Refuses | Effect::Pauses | Effect::GivesWay => 0,
        };
        Ok(sql::set_attempts(tx, &self.bucket, &write(&self.times[beyond..]), now + self.limit.window)
            .await?)
    }
}

/// The attempts of each limit, always locked in one order, so that two calls never deadlock.
async fn lock_all<K: AsRef<str>>(
    tx: &mut Tx,
    now: Timestamp,
    limits: &[(AttemptLimit, K)],
) -> Result<Vec<Attempts>, Problem> {
    let mut buckets: Vec<_> =
        limits.iter().map(|(limit, key)| (*limit, limit.bucket(key.as_ref()))).collect();
    buckets.sort_by(|a, b| a.1.cmp(&b.1));
    buckets.dedup_by(|a, b| a.1 == b.1);
    let mut locked = Vec::with_capacity(buckets.len());
    for (limit, bucket) in buckets {
        locked.push(Attempts::lock(tx, limit, bucket, now).await?);
    }
    Ok(locked)
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Counted,
    /// Counted, while a limit slows down: there were many before it.
    CountedSlowed,
    /// Not counted. The next may be made after this time.
    Refused(Duration),
    /// The same, because of a limit that gives way to others: they may still allow it.
    GaveWay(Duration),
}

impl AttemptOutcome {
    /// The time to wait, if the attempt is refused.
    pub(crate) const fn wait(self) -> Option<Duration> {
        match self {
            Self::Counted | Self::CountedSlowed => None,
            Self::Refused(wait) | Self::GaveWay(wait) => Some(wait),
        }
    }
}

/// Counts one attempt against each limit, before it is known how it ends: so no two can pass a limit side by side. When
/// a limit is used up, none is counted.
pub(crate) async fn try_take<K: AsRef<str>>(
    engine: &Engine,
    now: Timestamp,
    limits: &[(AttemptLimit, K)],
) -> Result<AttemptOutcome, Problem> {
    let mut tx = engine.db.write().await?;
    let locked = lock_all(&mut tx, now, limits).await?;
    let slowed = locked.iter().any(|one| one.limit.effect == Effect::SlowsDown && one.are_used_up());
    if let Some(wait) = locked.iter().filter_map(|one| one.wait(now, slowed)).max() {
        let gives_way = locked.iter().any(|one| one.limit.effect == Effect::GivesWay && one.are_used_up());
        tx.rollback();
        return Ok(if gives_way { AttemptOutcome::GaveWay(wait) } else { AttemptOutcome::Refused(wait) });
    }
    for mut one in locked {
        one.times.push(now.as_micros());
        one.write(&mut tx, now).await?;
    }
    tx.commit().await?;
    Ok(if slowed { AttemptOutcome::CountedSlowed } else { AttemptOutcome::Counted })
}

/// The same; returns the time to wait, if the attempt is refused.
pub(crate) async fn take<K: AsRef<str>>(
    engine: &Engine,
    now: Timestamp,
    limits: &[(AttemptLimit, K)],
) -> Result<Option<Duration>, Problem> {
    Ok(try_take(engine, now, limits).await?.wait())
}

/// What becomes of the attempts before one that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlierAttempts {
    /// They still count: this was only the first of two steps.
    Keep,
    /// Those of the person count no more, as far as they are theirs.
    Clear,
}

/// Takes back the attempt that was counted, because it succeeded.
pub(crate) async fn give_back<K: AsRef<str>>(
    engine: &Engine,
    now: Timestamp,
    limits: &[(AttemptLimit, K)],
    earlier: EarlierAttempts,
) -> Result<(), Problem> {
    let mut tx = engine.db.write().await?;
    for mut one in lock_all(&mut tx, now, limits).await? {
        if earlier == EarlierAttempts::Clear && one.limit.is_cleared {
            one.times.clear();
        } else if let Some(own) = one.times.iter().position(|time| *time == now.as_micros()) {
            one.times.remove(own);
        }
        one.write(&mut tx, now).await?;
    }
    Ok(tx.commit().await?)
}
