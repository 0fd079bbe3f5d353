//! What is past its time goes, a few rows at a time.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{AccountId, Code, DeliveryId, EndpointId, Hour, Problem, Timestamp};

use crate::{limits, sql};

/// How often the history of an endpoint is tried to be removed with its deletion.
const TRIES_MAX: u32 = 10;
/// Deleted endpoints whose history is removed in one turn.
const ENDPOINTS_AT_ONCE: i64 = 20;

fn turn(removed: u64) -> JobOutcome {
    if removed > 0 { JobOutcome::MoreWork } else { JobOutcome::Idle }
}

/// Removes deliveries and attempts that are no longer on record, and the history of endpoints that were deleted.
pub(crate) struct PruneHistory;

impl Job for PruneHistory {
    const NAME: &'static str = "webhooks.prune_history";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let oldest = engine.clock.now() - limits::HISTORY_LIFE;
        let (before, most) = (DeliveryId::from_parts(oldest, [0; 10]), limits::PRUNE_ROWS);
        // Looked for before the writer's turn: what is past its time comes back only by a call that finds it gone.
        let mut tx = engine.db.read().await?;
        let past = sql::past_deliveries(&mut tx, before, oldest, most).await?;
        let deleted = sql::deleted_endpoints(&mut tx, ENDPOINTS_AT_ONCE).await?;
        tx.rollback().await?;
        let mut tx = engine.db.write().await?;
        let mut removed = sql::remove_deliveries(&mut tx, &past).await?;
        removed += sql::prune_stats(&mut tx, Hour::of(oldest).number(), most).await?;
        tx.commit().await?;
        for row in deleted {
            removed += forget_some(engine, (row.account_id, row.id), engine.clock.now()).await?;
        }
        Ok(turn(removed))
    }
}

/// Removes some of the history of an endpoint that was deleted, and at last the endpoint; answers how much.
async fn forget_some(
    engine: &Engine,
    endpoint: (AccountId, EndpointId),
    now: Timestamp,
) -> Result<u64, Problem> {
    let mut tx = engine.db.write().await?;
    let mut removed = sql::prune_deleted(&mut tx, endpoint, limits::PRUNE_ROWS).await?;
    if removed == 0 {
        // A call that was under way when it was deleted may still have made a delivery.
        removed = sql::forget_endpoint(&mut tx, endpoint.1, now - limits::DELETED_LIFE).await?;
    }
    tx.commit().await?;
    Ok(removed)
}

/// Removes the history of an endpoint that was just deleted.
pub(crate) async fn forget_history(engine: Arc<Engine>, account: AccountId, endpoint: EndpointId) {
    let mut tries_left = TRIES_MAX;
    while tries_left > 0 {
        match forget_some(&engine, (account, endpoint), engine.clock.now()).await {
            Ok(0) => return,
            Ok(_) => {}
            // The sender may hold a row.
            Err(problem) if problem.code() == Code::Unavailable => {
                tries_left -= 1;
                engine.clock.sleep(limits::WRITE_PAUSE).await;
            }
            Err(problem) => {
                tracing::error!(%endpoint, %problem, cause = ?problem.cause(), "The history of an endpoint cannot be removed");
                return;
            }
        }
    }
    tracing::warn!(%endpoint, "The history of a deleted endpoint stays until the next turn of the job");
}

/// Removes test inboxes whose day is over.
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
        Ok(turn(expired.len() as u64))
    }
}
