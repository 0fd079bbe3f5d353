//! What was revoked lately, in memory, so that a warm call asks no database.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{PersonId, Problem, Timestamp, seconds};

use crate::{Identity, limits, sql};

/// What was revoked within [`limits::REVOCATIONS_WINDOW`]: ids of keys, API tokens, authorizations, single tokens,
/// persons and accounts, each with the time. Every turn reads only what is new.
#[derive(Default)]
pub struct Revocations {
    revoked: RwLock<HashMap<String, Revocation>>,
    /// When they were last read, in microseconds; 0 for never.
    read_at: AtomicI64,
    /// How many asked for a fresh reading so far.
    asked: AtomicU64,
    /// Two readings may be under way at once, so that nobody idles while one waits for the database. Each holds up to
    /// which question it has answered.
    answered: [tokio::sync::Mutex<u64>; 2],
}

/// The last that was said of an id.
struct Revocation {
    at: Timestamp,
    lifted: bool,
}

impl Revocations {
    /// Reads what was revoked, whichever process revoked it.
    pub async fn refresh(&self, engine: &Engine) -> Result<(), Problem> {
        let now = engine.clock.now();
        let oldest = now - limits::REVOCATIONS_WINDOW;
        let last = Timestamp::from_micros(self.read_at.load(Ordering::Acquire));
        // A change carries the time at which its call began and is seen when it commits, which may be much later.
        let since = oldest.max(last - limits::REVOCATIONS_LATE_MAX);
        let rows = sql::revocations_since(&mut engine.db.query(), since).await?;
        let mut revoked = self.revoked.write().unwrap_or_else(PoisonError::into_inner);
        revoked.retain(|_, revocation| revocation.at > oldest);
        for row in rows {
            // Two readings may end in another order than they began; what is known never goes back.
            if revoked.get(&row.id).is_none_or(|known| known.at <= row.at) {
                revoked.insert(row.id, Revocation { at: row.at, lifted: row.lifted });
            }
        }
        drop(revoked);
        self.read_at.fetch_max(now.as_micros(), Ordering::AcqRel);
        Ok(())
    }

    /// Reads what was revoked up to this moment. Whoever asks while a reading is under way waits for the next one, and
    /// all who wait share it.
    pub(crate) async fn fresh(&self, engine: &Engine) -> Result<(), Problem> {
        let own = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let lane = usize::from(own.is_multiple_of(2));
        let mut answered = self.answered[lane].lock().await;
        if *answered < own {
            let asked = self.asked.load(Ordering::Acquire);
            self.refresh(engine).await?;
            *answered = asked;
        }
        Ok(())
    }

    /// Was any of `ids` revoked, for a token that was issued at `issued_at`? When that cannot be known, nobody is
    /// admitted. Mostly nothing is revoked at all, and then no id is asked for.
    pub(crate) fn any<I: AsRef<str>>(
        &self,
        ids: impl IntoIterator<Item = I>,
        issued_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Problem> {
        let read_at = Timestamp::from_micros(self.read_at.load(Ordering::Acquire));
        if now.since(read_at) > limits::REVOCATIONS_STALE {
            return Err(Problem::unavailable(
                "Whether the token was revoked cannot be told right now.",
                seconds(1),
            ));
        }
        let revoked = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
        Ok(!revoked.is_empty()
            && ids.into_iter().any(|id| match revoked.get(id.as_ref()) {
                None | Some(Revocation { lifted: true, .. }) => false,
                // A person signs in again; everything else that was revoked stays so.
                Some(revocation) => id.as_ref().parse::<PersonId>().is_err() || issued_at <= revocation.at,
            }))
    }
}

/// Keeps [`Revocations`] fresh.
pub struct RefreshRevocations(pub Arc<Identity>);

impl Job for RefreshRevocations {
    const NAME: &'static str = "identity.refresh_revocations";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::REVOCATIONS_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        self.0.revocations.refresh(engine).await?;
        Ok(JobOutcome::Idle)
    }
}
