//! Jobs that remove expired rows, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{AccountId, Code, DeliveryId, EndpointId, Hour, Problem, Timestamp};

use crate::limits;
use crate::sql::{self, EndpointKey};

/// How often the removal of a deleted endpoint's history is tried before it is left to the job.
const TRIES_MAX: u32 = 10;
/// Deleted endpoints whose history is removed in one run.
const ENDPOINTS_AT_ONCE: i64 = 20;

fn job_outcome(removed: u64) -> JobOutcome {
    if removed > 0 { JobOutcome::MoreWork } else { JobOutcome::Idle }
}

/// Removes expired deliveries and attempts, and the history of deleted endpoints.
pub(crate) struct PruneHistory;

impl Job for PruneHistory {
    const NAME: &'static str = "webhooks.prune_history";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let oldest = engine.clock.now() - limits::HISTORY_LIFE;
        let (before, limit) = (DeliveryId::from_parts(oldest, [0; 10]), limits::PRUNE_ROWS);
        // Read before the write transaction: an expired delivery never becomes current again.
        let mut tx = engine.db.read().await?;
        let expired = sql::expired_deliveries(&mut tx, before, oldest, limit).await?;
        let deleted = sql::deleted_endpoints(&mut tx, ENDPOINTS_AT_ONCE).await?;
        tx.rollback();
        let mut tx = engine.db.write().await?;
        let mut removed = sql::remove_deliveries(&mut tx, &expired).await?;
        removed += sql::prune_stats(&mut tx, Hour::of(oldest).number(), limit).await?;
        tx.commit().await?;
        for row in deleted {
            let key = EndpointKey { account: row.account_id, endpoint: row.id };
            removed += remove_some_history(engine, key, engine.clock.now()).await?;
        }
        Ok(job_outcome(removed))
    }
}

/// Removes some of the history of a deleted endpoint, and at last the endpoint; returns how many rows.
async fn remove_some_history(engine: &Engine, key: EndpointKey, now: Timestamp) -> Result<u64, Problem> {
    let mut tx = engine.db.write().await?;
    let mut removed = sql::remove_history(&mut tx, key, limits::PRUNE_ROWS).await?;
    if removed == 0 {
        // Not at once: a call that was running when it was deleted may still have inserted a delivery.
        removed = sql::remove_endpoint(&mut tx, key.endpoint, now - limits::DELETED_LIFE).await?;
    }
    tx.commit().await?;
    Ok(removed)
}

/// Removes the history of an endpoint that was just deleted.
pub(crate) async fn remove_history(engine: Arc<Engine>, account: AccountId, endpoint: EndpointId) {
    let key = EndpointKey { account, endpoint };
    let mut tries_left = TRIES_MAX;
    while tries_left > 0 {
        match remove_some_history(&engine, key, engine.clock.now()).await {
            Ok(0) => return,
            Ok(_) => {}
            // The sender may hold a lock on a row.
            Err(problem) if problem.code() == Code::Unavailable => {
                tries_left -= 1;
                engine.clock.sleep(limits::WRITE_PAUSE).await;
            }
            Err(problem) => {
                tracing::error!(%endpoint, %problem, cause = ?problem.cause(), "Failed to remove the history of a deleted endpoint");
                return;
            }
        }
    }
    tracing::warn!(%endpoint, "Left the history of a deleted endpoint to the job that prunes it");
}

/// Removes test inboxes that have expired.
pub(crate) struct PruneInboxes;

impl Job for PruneInboxes {
    const NAME: &'static str = "webhooks.prune_inboxes";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let mut tx = engine.db.write().await?;
        let expired = sql::expired_inboxes(&mut tx, engine.clock.now(), limits::PRUNE_ROWS).await?;
        for inbox in &expired {
            sql::delete_inbox(&mut tx, *inbox).await?;
        }
        tx.commit().await?;
        Ok(job_outcome(expired.len() as u64))
    }
}
