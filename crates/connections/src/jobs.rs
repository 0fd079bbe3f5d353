//! Jobs: what ends by itself, and what is looked after.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use portico_engine::{Ctx, Engine, Job, JobOutcome};
use portico_kernel::{ConnectionUseId, Problem};

use crate::calls::AccessError;
use crate::model::{Consumer, ConsumerKind};
use crate::sql::{self, GrantRow, IdleRow};
use crate::{Connections, grants, limits};

/// Removes uses whose time is over, grants that ended as long ago, and consumers that have not used anything for long.
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
        let grants = sql::prune_grants(&mut tx, now - limits::HISTORY_LIFE, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        Ok(JobOutcome::after_batch(uses.max(consumers).max(grants), limits::PRUNE_ROWS))
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
pub(crate) struct EndGrants {
    connections: Arc<Connections>,
    position: Position,
}

/// Where a job goes on that looks at one batch in a run.
#[derive(Default)]
struct Position(Mutex<String>);

impl Position {
    fn get(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes the last of a batch; one that is not full was the last batch, and the next begins anew.
    fn note(&self, last: Option<String>, rows: usize, limit: i64) -> JobOutcome {
        let outcome = JobOutcome::after_batch(rows as u64, limit);
        let next = last.filter(|_| outcome == JobOutcome::MoreWork).unwrap_or_default();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = next;
        outcome
    }
}

impl EndGrants {
    pub(crate) fn new(connections: &Arc<Connections>) -> Self {
        Self { connections: connections.clone(), position: Position::default() }
    }

    async fn end(&self, engine: &Arc<Engine>, grant: GrantRow) -> Result<(), Problem> {
        let mut ctx = Ctx::platform(engine);
        ctx.set_account(grant.account_id);
        let GrantRow { account_id, connection_id, id, .. } = grant;
        grants::revoke(&self.connections, &mut ctx, account_id, connection_id, id).await?;
        ctx.finish().await
    }
}

impl Job for EndGrants {
    const NAME: &'static str = "connections.end_grants";
    const EVERY: Duration = limits::GRANTS_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let mut tx = engine.db.read().await?;
        let now = engine.clock.now();
        let rows = sql::standing_grants(&mut tx, &self.position.get(), now, limits::GRANTS_AT_ONCE).await?;
        let key = |row: &GrantRow| {
            let consumer = Consumer::parse(&row.consumer)?;
            (consumer.kind == ConsumerKind::Key).then_some(consumer.id)
        };
        let ids: Vec<_> = rows.iter().filter_map(key).collect();
        let ended = self.connections.directory.ended_credentials(&mut tx, ids, now).await?;
        tx.rollback();
        let last = rows.last().map(|row| row.id.to_string());
        let outcome = self.position.note(last, rows.len(), limits::GRANTS_AT_ONCE);
        for row in rows {
            if key(&row).is_some_and(|id| ended.contains(&id)) {
                self.end(engine, row).await?;
            }
        }
        Ok(outcome)
    }
}

/// Refreshes tokens that nobody has needed for a day, so that what they are refreshed with does not end.
pub(crate) struct RefreshIdle {
    connections: Arc<Connections>,
    position: Position,
}

impl RefreshIdle {
    pub(crate) fn new(connections: &Arc<Connections>) -> Self {
        Self { connections: connections.clone(), position: Position::default() }
    }

    async fn refresh(&self, engine: &Arc<Engine>, idle: IdleRow) -> Result<(), Problem> {
        let from = &mut engine.db.query();
        let Some(connection) = sql::connection(from, idle.account_id, idle.connection_id).await? else {
            return Ok(());
        };
        let row = sql::credential(from, &connection.credential_id).await?;
        let calls = &self.connections.calls;
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
        let (from, after) = (&mut engine.db.query(), self.position.get());
        let idle = sql::idle_tokens(from, before, now, &after, limits::IDLE_AT_ONCE).await?;
        // Each is tried once in a round: some cannot be refreshed, and the others are not to wait for them.
        let last = idle.last().map(|last| last.id.clone());
        let outcome = self.position.note(last, idle.len(), limits::IDLE_AT_ONCE);
        for refreshed in join_all(idle.into_iter().map(|idle| self.refresh(engine, idle))).await {
            refreshed?;
        }
        Ok(outcome)
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
