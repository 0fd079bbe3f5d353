//! What happens to accounts by itself.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Engine, Job, Turn};
use portico_kernel::Problem;

use crate::{limits, sql};

/// Erases accounts whose grace is over: a few rows at a time, the account itself last, so that it may be interrupted
/// anywhere and go on later.
pub(crate) struct EraseAccounts;

impl Job for EraseAccounts {
    const NAME: &'static str = "accounts.erase";
    const EVERY: Duration = limits::ERASURE_EVERY;

    async fn turn(&self, engine: &Arc<Engine>) -> Result<Turn, Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.read().await?;
        let due = sql::due_for_erasure(&mut tx, now).await?;
        tx.rollback().await?;
        let Some(account) = due else { return Ok(Turn::Idle) };
        let mut tx = engine.db.write().await?;
        if engine.registry.erase_some(&mut tx, account, limits::ERASURE_ROWS).await? == 0 {
            sql::delete_account(&mut tx, account).await?;
            tracing::info!(%account, "Erased an account");
        }
        tx.commit().await?;
        Ok(Turn::Again)
    }
}
