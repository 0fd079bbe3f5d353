//! The job that removes ids that are not known any more.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::Problem;

use crate::{limits, sql};

/// Removes ids whose time is over, a few at a time.
pub(crate) struct PruneIds;

impl Job for PruneIds {
    const NAME: &'static str = "services.prune_ids";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let before = engine.clock.now() - limits::ID_LIFE;
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_ids(&mut tx, before, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        Ok(JobOutcome::after_batch(removed, limits::PRUNE_ROWS))
    }
}
