//! Jobs: loops that look at state, take no input, and may always run again.
//!
//! A job that looks after the database is shared: it is an item of a queue, and one server runs it at a time. One that
//! looks after what a server holds in memory runs on every server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use portico_kernel::{EventId, Problem};
use portico_store::StoreError;
use tokio::sync::watch;

use crate::queue::{NewItem, Queue, WorkResult};
use crate::{Engine, idempotency, sql, timed_out};

/// How a run of a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// Nothing more to do for now.
    Idle,
    /// Nothing more to do for now, and the run was so much work that the next is to wait at least this long.
    Rest(Duration),
    /// More of the same; run again at once.
    MoreWork,
}

impl JobOutcome {
    /// After a run that handles at most `limit` rows: a full batch means that there may be more.
    pub fn after_batch(rows: u64, limit: i64) -> Self {
        if rows >= limit.unsigned_abs() { Self::MoreWork } else { Self::Idle }
    }
}

/// A job.
pub trait Job: Send + Sync + 'static {
    /// `area.what`.
    const NAME: &'static str;
    /// Does every server run it, because it looks after what the server holds in memory?
    const ON_EVERY_SERVER: bool = false;
    /// How long to wait after an idle run.
    const EVERY: Duration;

    /// One bounded piece of work.
    fn run_once(&self, engine: &Arc<Engine>) -> impl Future<Output = Result<JobOutcome, Problem>> + Send;
}

type RunOnce = Box<dyn Fn(Arc<Engine>) -> BoxFuture<'static, Result<JobOutcome, Problem>> + Send + Sync>;

/// A job as the registry holds it.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) on_every_server: bool,
    every: Duration,
    run_once: RunOnce,
}

impl Entry {
    pub(crate) fn new<J: Job>(job: J) -> Self {
        let job = Arc::new(job);
        let run_once = move |engine| {
            let job = job.clone();
            async move { job.run_once(&engine).await }.boxed()
        };
        let (name, every, on_every_server) = (J::NAME, J::EVERY, J::ON_EVERY_SERVER);
        Self { name, on_every_server, every, run_once: Box::new(run_once) }
    }

    /// Runs it once, within the time that an operation may take.
    pub(crate) async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let running = tokio::time::timeout(engine.operation_time_max, (self.run_once)(engine.clone()));
        running.await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Runs it once; returns how long to wait before the next run. One that fails is tried again after the usual wait.
    pub(crate) async fn run_and_log(&self, engine: &Arc<Engine>) -> Duration {
        match self.run_once(engine).await {
            Ok(JobOutcome::MoreWork) => Duration::ZERO,
            Ok(JobOutcome::Idle) => self.every,
            Ok(JobOutcome::Rest(rest)) => self.every.max(rest),
            Err(problem) => {
                tracing::error!(job = self.name, %problem, cause = ?problem.cause(), "A job failed");
                self.every
            }
        }
    }

    /// Runs on this server until `stop` turns true.
    pub(crate) async fn run(&self, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let wait = self.run_and_log(&engine).await;
            if wait.is_zero() {
                continue;
            }
            tokio::select! {
                () = engine.clock.sleep(wait) => {}
                _ = stop.changed() => {}
            }
        }
    }
}

/// How often a shared job that finds more work is run before its item goes back to the queue.
const RUNS_MAX: usize = 20;

/// Puts every shared job into its queue, due at once, unless it is there already.
pub(crate) async fn enqueue(engine: &Engine, jobs: &[Arc<Entry>]) -> Result<(), StoreError> {
    let now = engine.clock.now();
    let mut tx = engine.db.write().await?;
    for job in jobs {
        let item = NewItem { id: format!("job:{}", job.name), account: None, payload: &[], due_at: now };
        sql::queue::insert(&mut tx, job.name, &item, now).await?;
        // A server whose clock was ahead, or a release with longer waits, may have put it off for too long.
        sql::queue::pull_forward(&mut tx, &item.id, now, now + job.every).await?;
    }
    tx.commit().await
}

/// The queue of a shared job: its one item is due again after each run.
pub(crate) fn queue(job: Arc<Entry>) -> Arc<Queue> {
    Arc::new(Queue::repeating(job.name, move |engine| {
        let job = job.clone();
        async move {
            let mut wait = job.run_and_log(&engine).await;
            for _ in 1..RUNS_MAX {
                if !wait.is_zero() {
                    break;
                }
                wait = job.run_and_log(&engine).await;
            }
            WorkResult::RepeatAt(engine.clock.now() + wait)
        }
        .boxed()
    }))
}

/// Work that goes on as long as the server does: it is started with the jobs, told to stop, and waited for.
pub trait Service: Send + Sync + 'static {
    /// Runs until `stop` turns true, and then ends in order, within seconds.
    fn run(&self, engine: Arc<Engine>, stop: watch::Receiver<bool>) -> BoxFuture<'_, ()>;
}

/// Removes queue items that were given up, once they have been on record for a month.
pub(crate) struct PruneQueues;

impl PruneQueues {
    const BATCH_MAX: i64 = 500;
    const LIFE: Duration = Duration::from_hours(30 * 24);
}

impl Job for PruneQueues {
    const NAME: &'static str = "engine.prune_queues";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let before = engine.clock.now() - Self::LIFE;
        let mut tx = engine.db.write().await?;
        let removed = sql::queue::prune_failed(&mut tx, before, Self::BATCH_MAX).await?;
        tx.commit().await?;
        Ok(JobOutcome::after_batch(removed, Self::BATCH_MAX))
    }
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
        Ok(JobOutcome::after_batch(removed, Self::BATCH_MAX))
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
        Ok(JobOutcome::after_batch(removed, Self::BATCH_MAX))
    }
}
