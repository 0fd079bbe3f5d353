//! What was revoked lately, in memory, so that a warm call asks no database.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use portico_engine::{Engine, Job, Turn};
use portico_kernel::{Problem, Timestamp, seconds};

use crate::{Identity, limits, sql};

/// The credentials that were revoked within [`limits::REVOCATIONS_WINDOW`], read again and again.
#[derive(Default)]
pub struct Revocations {
    revoked: RwLock<Arc<HashSet<String>>>,
    /// When they were last read, in microseconds; 0 for never.
    read_at: AtomicI64,
}

impl Revocations {
    /// Reads what was revoked, whichever process revoked it.
    pub async fn refresh(&self, engine: &Engine) -> Result<(), Problem> {
        let now = engine.clock.now();
        let since = now - limits::REVOCATIONS_WINDOW;
        let mut tx = engine.db.read().await?;
        let revoked = sql::revoked_since(&mut tx, since).await?.into_iter().collect();
        tx.rollback().await?;
        *self.revoked.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(revoked);
        self.read_at.store(now.as_micros(), Ordering::Release);
        Ok(())
    }

    /// Refuses a credential that was revoked. When that cannot be known, nobody is admitted.
    pub(crate) fn check(&self, id: &str, now: Timestamp) -> Result<bool, Problem> {
        let read_at = Timestamp::from_micros(self.read_at.load(Ordering::Acquire));
        if now.since(read_at) > limits::REVOCATIONS_STALE {
            return Err(Problem::unavailable(
                "Whether the token was revoked cannot be told right now.",
                seconds(1),
            ));
        }
        Ok(self.revoked.read().unwrap_or_else(PoisonError::into_inner).contains(id))
    }
}

/// Keeps [`Revocations`] fresh.
pub struct RefreshRevocations(pub Arc<Identity>);

impl Job for RefreshRevocations {
    const NAME: &'static str = "identity.refresh_revocations";
    const EVERY: Duration = limits::REVOCATIONS_EVERY;

    async fn turn(&self, engine: &Arc<Engine>) -> Result<Turn, Problem> {
        self.0.revocations.refresh(engine).await?;
        Ok(Turn::Idle)
    }
}
