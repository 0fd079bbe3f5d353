//! Jobs: loops that look at state, take no input, and may always run again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use portico_kernel::{EventId, Problem};
use tokio::sync::watch;

use crate::{Engine, idempotency, sql, timed_out};

/// What a turn of a job found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing more to do for now.
    Idle,
    /// More of the same; run again at once.
    Again,
}

/// A job.
pub trait Job: Send + Sync + 'static {
    /// `area.what`.
    const NAME: &'static str;
    /// How long to wait after an idle turn.
    const EVERY: Duration;

    /// One bounded piece of work.
    fn turn(&self, engine: &Arc<Engine>) -> impl Future<Output = Result<Turn, Problem>> + Send;
}

type TurnOf = Box<dyn Fn(Arc<Engine>) -> BoxFuture<'static, Result<Turn, Problem>> + Send + Sync>;

/// A job as the registry holds it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    every: Duration,
    pub(crate) turn: TurnOf,
}

impl Entry {
    pub(crate) fn new<J: Job>(job: J) -> Self {
        let job = Arc::new(job);
        let turn = move |engine| {
            let job = job.clone();
            async move { job.turn(&engine).await }.boxed()
        };
        Self { name: J::NAME, every: J::EVERY, turn: Box::new(turn) }
    }

    /// Runs until `stop` says so. A turn that fails or takes too long is tried again after the usual wait.
    pub(crate) async fn run(&self, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let turn = (self.turn)(engine.clone());
            let turn = tokio::time::timeout(engine.operation_time_max, turn).await;
            match turn.unwrap_or_else(|_| Err(timed_out())) {
                Ok(Turn::Again) => continue,
                Ok(Turn::Idle) => {}
                Err(problem) => {
                    tracing::error!(job = self.name, %problem, cause = ?problem.cause(), "A job failed");
                }
            }
            tokio::select! {
                () = engine.clock.sleep(self.every) => {}
                _ = stop.changed() => {}
            }
        }
    }
}

/// Work that goes on as long as the server does: it is started with the jobs, told to stop, and waited for.
pub trait Service: Send + Sync + 'static {
    /// Runs until `stop` turns true, and then ends in order, within seconds.
    fn run(&self, engine: Arc<Engine>, stop: watch::Receiver<bool>) -> BoxFuture<'_, ()>;
}

/// Removes events whose time is over.
pub(crate) struct PruneEvents;

impl PruneEvents {
    const BATCH_MAX: i64 = 500;
    /// Two days more than a delivery is on record, so that whatever is sent again last still finds its event.
    const LIFE: Duration = Duration::from_hours(32 * 24);
}

impl Job for PruneEvents {
    const NAME: &'static str = "engine.prune_events";
    const EVERY: Duration = Duration::from_mins(5);

    async fn turn(&self, engine: &Arc<Engine>) -> Result<Turn, Problem> {
        let before = EventId::from_parts(engine.clock.now() - Self::LIFE, [0; 10]);
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_events(&mut tx, before, Self::BATCH_MAX).await?;
        tx.commit().await?;
        Ok(if removed == Self::BATCH_MAX.unsigned_abs() { Turn::Again } else { Turn::Idle })
    }
}

/// Removes kept answers whose day is over.
pub(crate) struct PruneIdempotency;

impl PruneIdempotency {
    const BATCH_MAX: i64 = 500;
}

impl Job for PruneIdempotency {
    const NAME: &'static str = "engine.prune_idempotency";
    const EVERY: Duration = Duration::from_mins(5);

    async fn turn(&self, engine: &Arc<Engine>) -> Result<Turn, Problem> {
        let removed = idempotency::prune(engine, engine.clock.now(), Self::BATCH_MAX).await?;
        Ok(if removed == Self::BATCH_MAX.unsigned_abs() { Turn::Again } else { Turn::Idle })
    }
}
