//! The area's jobs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portico_engine::clock::Stopwatch;
use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{Problem, Timestamp};

use crate::lease::RATE_LIMIT_PREFIX;
use crate::{Metering, limits, sql};

/// Counts the records of the journal in the database.
pub(crate) struct Count(pub(crate) Arc<Metering>);

impl Job for Count {
    const NAME: &'static str = "metering.count";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::COUNT_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        self.0.journal()?.prepare();
        let watch = Stopwatch::start();
        Ok(match self.0.flush_some(engine).await? {
            limits::BATCH_RECORDS_MAX.. => JobOutcome::MoreWork,
            limits::REST_RECORDS.. => {
                JobOutcome::Rest((watch.elapsed() * limits::REST_TIMES).min(limits::REST_MAX))
            }
            _ => JobOutcome::Idle,
        })
    }
}

/// Releases what was recalled, writes this server's heartbeat, and evicts idle accounts and keys.
pub(crate) struct KeepLeases {
    metering: Arc<Metering>,
    seen_at: Mutex<Option<Timestamp>>,
    evicted_at: Mutex<Option<Timestamp>>,
}

impl KeepLeases {
    pub(crate) fn new(metering: &Arc<Metering>) -> Self {
        Self { metering: metering.clone(), seen_at: Mutex::default(), evicted_at: Mutex::default() }
    }
}

/// Has `every` passed since `last`? If so, `last` becomes `now`.
fn is_due(last: &Mutex<Option<Timestamp>>, now: Timestamp, every: Duration) -> bool {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    // A clock that was set back must not stop it.
    let due = last.is_none_or(|last| last > now || now.since(last) >= every);
    if due {
        *last = Some(now);
    }
    due
}

impl Job for KeepLeases {
    const NAME: &'static str = "metering.keep_leases";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::RECALL_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let (metering, now) = (&self.metering, engine.clock.now());
        metering.answer_recalls(engine).await?;
        if metering.shared && is_due(&self.seen_at, now, limits::SEEN_EVERY) {
            let mut tx = engine.db.write().await?;
            sql::see_journal(&mut tx, metering.holder()?, now).await?;
            tx.commit().await?;
        }
        if is_due(&self.evicted_at, now, limits::TIDY_EVERY) {
            metering.evict_idle(engine, now).await?;
        }
        Ok(JobOutcome::Idle)
    }
}

/// Removes expired requests, budgets and shares of rate limits, and the leases of dead servers.
pub(crate) struct Prune(pub(crate) Arc<Metering>);

impl Job for Prune {
    const NAME: &'static str = "metering.prune";
    const EVERY: Duration = limits::PRUNE_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_blocks(&mut tx, now - limits::REQUESTS_LIFE, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        let mut tx = engine.db.write().await?;
        sql::prune_budgets(&mut tx, now - limits::REQUESTS_LIFE).await?;
        tx.commit().await?;
        let mut tx = engine.db.write().await?;
        sql::prune_leases(&mut tx, RATE_LIMIT_PREFIX, now - limits::IDLE_LIFE).await?;
        tx.commit().await?;
        let mut tx = engine.db.write().await?;
        sql::prune_locks(&mut tx, RATE_LIMIT_PREFIX).await?;
        tx.commit().await?;
        if self.0.shared {
            let mut tx = engine.db.write().await?;
            sql::release_dead(&mut tx, now - limits::DEAD_LIFE).await?;
            tx.commit().await?;
        }
        Ok(if removed == limits::PRUNE_ROWS.unsigned_abs() { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}
