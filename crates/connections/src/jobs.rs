//! Jobs: what ends by itself, and what is looked after.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use portico_engine::{Ctx, Engine, Job, JobOutcome};
use portico_kernel::{ConnectionUseId, Problem};

use crate::calls::AccessError;
use crate::model::{Consumer, ConsumerKind};
use crate::sql::{self, GrantRow, IdleRow};
use crate::{Connections, grants, limits};

/// Removes uses whose time is over, and consumers that have not used anything for long.
pub(crate) struct PruneUses;

impl Job for PruneUses {
    const NAME: &'static str = "connections.prune_uses";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let now = engine.clock.now();
        let before = ConnectionUseId::from_parts(now - limits::HISTORY_LIFE, [0; 10]);
        let mut tx = engine.db.write().await?;
        let uses = sql::prune_uses(&mut tx, before, limits::PRUNE_ROWS).await?;
        let consumers = sql::prune_consumers(&mut tx, now - limits::USED_BY_LIFE, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        Ok(JobOutcome::after_batch(uses.max(consumers), limits::PRUNE_ROWS))
    }
}

/// Removes sign-ins that are no longer kept.
pub(crate) struct PruneSignIns;

impl Job for PruneSignIns {
    const NAME: &'static str = "connections.prune_sign_ins";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let before = engine.clock.now() - limits::SIGN_IN_KEPT;
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_sign_ins(&mut tx, before, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        Ok(JobOutcome::after_batch(removed, limits::PRUNE_ROWS))
    }
}

/// Revokes grants of keys and API tokens that were revoked. These can call nothing any more; their grants say so too.
pub(crate) struct EndGrants(pub(crate) Arc<Connections>);

impl EndGrants {
    async fn end(&self, engine: &Arc<Engine>, grant: GrantRow) -> Result<(), Problem> {
        let mut ctx = Ctx::platform(engine);
        ctx.set_account(grant.account_id);
        let GrantRow { account_id, connection_id, id, .. } = grant;
        grants::revoke(&self.0, &mut ctx, account_id, connection_id, id).await?;
        ctx.finish().await
    }
}

impl Job for EndGrants {
    const NAME: &'static str = "connections.end_grants";
    const EVERY: Duration = limits::GRANTS_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let mut after = String::new();
        loop {
            let mut tx = engine.db.read().await?;
            let rows = sql::unrevoked_grants(&mut tx, &after, limits::GRANTS_AT_ONCE).await?;
            let key = |row: &GrantRow| {
                let consumer = Consumer::parse(&row.consumer)?;
                (consumer.kind == ConsumerKind::Key).then_some(consumer.id)
            };
            let ids: Vec<_> = rows.iter().filter_map(key).collect();
            let ended = self.0.directory.ended_credentials(&mut tx, ids, engine.clock.now()).await?;
            tx.rollback();
            let Some(last) = rows.last() else { return Ok(JobOutcome::Idle) };
            after = last.id.to_string();
            for row in rows {
                if key(&row).is_some_and(|id| ended.contains(&id)) {
                    self.end(engine, row).await?;
                }
            }
        }
    }
}

/// Refreshes tokens that nobody has needed for a day, so that what they are refreshed with does not end.
pub(crate) struct RefreshIdle(pub(crate) Arc<Connections>);

impl RefreshIdle {
    async fn refresh(&self, engine: &Arc<Engine>, idle: IdleRow) -> Result<(), Problem> {
        let from = &mut engine.db.query();
        let Some(connection) = sql::connection(from, idle.account_id, idle.connection_id).await? else {
            return Ok(());
        };
        let row = sql::credential(from, &connection.credential_id).await?;
        let calls = &self.0.calls;
        match calls.refresh_idle(engine, &connection, row.clone()).await {
            Ok(()) => Ok(()),
            Err(AccessError::Store(error)) => Err(error.into()),
            Err(error) => {
                calls.lose_with(engine, &connection, row.as_ref(), &error).await;
                Ok(())
            }
        }
    }
}

impl Job for RefreshIdle {
    const NAME: &'static str = "connections.refresh_idle";
    const EVERY: Duration = limits::IDLE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let now = engine.clock.now();
        let before = now - limits::IDLE_REFRESH;
        // Each is tried once in a run: some cannot be refreshed, and the others are not to wait for them.
        let mut after = String::new();
        loop {
            let from = &mut engine.db.query();
            let idle = sql::idle_tokens(from, before, now, &after, limits::IDLE_AT_ONCE).await?;
            let Some(last) = idle.last() else { return Ok(JobOutcome::Idle) };
            after.clone_from(&last.id);
            for refreshed in join_all(idle.into_iter().map(|idle| self.refresh(engine, idle))).await {
                refreshed?;
            }
        }
    }
}

/// Tells those who listen on this server of changes that other servers made to what assistants see.
pub(crate) struct SpreadChanges(pub(crate) Arc<Connections>);

impl Job for SpreadChanges {
    const NAME: &'static str = "connections.spread_changes";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::CHANGES_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        self.0.spread_changes(engine).await?;
        Ok(JobOutcome::Idle)
    }
}
