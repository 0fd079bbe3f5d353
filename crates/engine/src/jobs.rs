//! Jobs: loops that look at state, take no input, and may always run again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use portico_kernel::{EventId, Problem};
use tokio::sync::watch;

use crate::{Engine, idempotency, sql, timed_out};

/// How a run of a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// Nothing more to do for now.
    Idle,
    /// More of the same; run again at once.
    MoreWork,
}

/// A job.
pub trait Job: Send + Sync + 'static {
    /// `area.what`.
    const NAME: &'static str;
    /// How long to wait after an idle run.
    const EVERY: Duration;

    /// One bounded piece of work.
    fn run_once(&self, engine: &Arc<Engine>) -> impl Future<Output = Result<JobOutcome, Problem>> + Send;
}

type RunOnce = Box<dyn Fn(Arc<Engine>) -> BoxFuture<'static, Result<JobOutcome, Problem>> + Send + Sync>;

/// A job as the registry holds it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    every: Duration,
    pub(crate) run_once: RunOnce,
}

impl Entry {
    pub(crate) fn new<J: Job>(job: J) -> Self {
        let job = Arc::new(job);
        let run_once = move |engine| {
            let job = job.clone();
            async move { job.run_once(&engine).await }.boxed()
        };
        Self { name: J::NAME, every: J::EVERY, run_once: Box::new(run_once) }
    }

    /// Runs until `stop` says so. A run that fails or takes too long is tried again after the usual wait.
    pub(crate) async fn run(&self, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let running = (self.run_once)(engine.clone());
            let running = tokio::time::timeout(engine.operation_time_max, running).await;
            match running.unwrap_or_else(|_| Err(timed_out())) {
                Ok(JobOutcome::MoreWork) => continue,
                Ok(JobOutcome::Idle) => {}
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

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let before = EventId::from_parts(engine.clock.now() - Self::LIFE, [0; 10]);
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_events(&mut tx, before, Self::BATCH_MAX).await?;
        tx.commit().await?;
        Ok(if removed == Self::BATCH_MAX.unsigned_abs() { JobOutcome::MoreWork } else { JobOutcome::Idle })
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

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let removed = idempotency::prune(engine, engine.clock.now(), Self::BATCH_MAX).await?;
        Ok(if removed == Self::BATCH_MAX.unsigned_abs() { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}
