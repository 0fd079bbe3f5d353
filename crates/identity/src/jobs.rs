//! The job that removes what has expired.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::Problem;

use crate::{limits, sql};

/// Removes sessions, links, attempts, codes, authorizations, apps and revocations that have expired, a few rows at a time.
pub(crate) struct Prune;

impl Job for Prune {
    const NAME: &'static str = "identity.prune";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let (now, limit) = (engine.clock.now(), limits::PRUNE_ROWS);
        let mut tx = engine.db.write().await?;
        let removed = [
            sql::people::prune_sessions(&mut tx, now, limit).await?,
            sql::people::prune_links(&mut tx, now, limit).await?,
            sql::people::prune_attempts(&mut tx, now, limit).await?,
            sql::oauth::prune_codes(&mut tx, now - limits::CODE_KEPT, limit).await?,
            sql::oauth::prune_authorizations(&mut tx, now - limits::REVOCATIONS_WINDOW, limit).await?,
            sql::oauth::prune_clients(&mut tx, now - limits::CLIENT_UNUSED_LIFE, limit).await?,
            sql::prune_revocations(&mut tx, now - limits::REVOCATIONS_WINDOW, limit).await?,
        ];
        tx.commit().await?;
        let full = removed.iter().any(|count| *count == limit.unsigned_abs());
        Ok(if full { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}
