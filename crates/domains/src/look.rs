//! The platform's own looks: the queue `domains.look`, with one item for each domain, which has the domain's id.
//!
//! An item says nothing but that the domain is to be looked at; when that is due stands in the domain's row (`next_look_at`),
//! and what a look finds moves the domain as it stands when that is written. So an item that comes early, late or twice does
//! no harm, and neither does a server that dies in the middle of a look: its claim runs out, and another one looks.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use portico_dns::{Authority, Busy, Look, Verdict, Zone};
use portico_engine::queue::{QueueItem, WorkResult, Worker};
use portico_engine::{Ctx, Engine, Job, JobOutcome};
use portico_kernel::{DomainId, Problem};

use crate::metrics::Metrics;
use crate::model::{Cause, Status};
use crate::sql::{self, DomainRow};
use crate::{Domains, limits};

/// Looks at the domains that are due.
pub(crate) struct LookAgain(pub(crate) Arc<Domains>);

impl Worker for LookAgain {
    const QUEUE: &'static str = "domains.look";
    const PARALLEL: usize = limits::LOOKS_AT_ONCE;
    const PER_SECOND: usize = limits::LOOKS_PER_SECOND;
    const LEASE: Duration = limits::LOOK_LEASE;

    async fn run(&self, engine: &Arc<Engine>, item: &QueueItem) -> WorkResult {
        let Ok(id) = item.id.parse() else { return WorkResult::GiveUp };
        match self.0.look_again(engine, id).await {
            Ok(result) => result,
            Err(problem) => {
                let cause = problem.cause();
                tracing::error!(domain = %id, %problem, ?cause, "Failed to record a look at a domain");
                // It is due for as long as it was not looked at, so it is never given up.
                WorkResult::RepeatAt(engine.clock.now() + limits::RETRY_WAIT)
            }
        }
    }
}

impl Domains {
    /// Looks at the domain, if it is due.
    async fn look_again(&self, engine: &Arc<Engine>, id: DomainId) -> Result<WorkResult, Problem> {
        let Some(row) = sql::domain_by_id(&mut engine.db.query(), id).await? else {
            return Ok(WorkResult::Done);
        };
        let Some(due_at) = row.next_look_at else { return Ok(WorkResult::Done) };
        let now = engine.clock.now();
        if due_at > now {
            return Ok(WorkResult::RepeatAt(due_at));
        }
        let is_over = row.status != Status::Verified && row.state().is_expired(now);
        let look = if is_over { Ok(None) } else { self.look_unharmed(&row).await.map(Some) };
        let Ok(look) = look else {
            tracing::warn!("Too many records are looked for, so some domains are looked at later");
            return Ok(WorkResult::RepeatAt(engine.clock.now() + limits::RETRY_WAIT));
        };
        if look.as_ref().is_some_and(|look| look.verdict == Verdict::Unreachable) {
            return self.note_unreachable(engine, id).await;
        }
        let mut ctx = Ctx::platform(engine);
        let found = sql::lock_domain_by_id(ctx.tx().await?, id).await?;
        // It was removed or added anew while resolvers were asked; or somebody looked meanwhile, and the next look is at
        // another time now.
        let Some(mut row) = found else { return Ok(WorkResult::Done) };
        if row.next_look_at != Some(due_at) {
            return Ok(row.next_look_at.map_or(WorkResult::Done, WorkResult::RepeatAt));
        }
        ctx.set_account(row.account_id);
        match look {
            Some(look) => self.apply(&mut ctx, &mut row, Cause::Job, &look).await?,
            None => self.expire(&mut ctx, &mut row).await?,
        }
        ctx.finish().await?;
        Ok(row.next_look_at.map_or(WorkResult::Done, WorkResult::RepeatAt))
    }

    /// Looks for the record. Strangers choose what their servers answer; should an answer ever make us panic, that is
    /// logged, and nobody knows how the record stands.
    async fn look_unharmed(&self, row: &DomainRow) -> Result<Look, Busy> {
        let looking = self.look(&row.name, row.scope, &row.token);
        AssertUnwindSafe(looking).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(domain = %row.id, "A look at a domain panicked");
            Ok(Look {
                verdict: Verdict::Unclear,
                authority: Authority::NotReached,
                zone: Zone::default(),
                answers: Vec::new(),
                hint: None,
                found: 0,
                needed: 0,
                asked: 0,
            })
        })
    }

    /// No resolver answered, which says nothing about the domain: it stays as it is, and due.
    async fn note_unreachable(&self, engine: &Engine, id: DomainId) -> Result<WorkResult, Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.write().await?;
        sql::note_unreachable(&mut tx, id, now).await?;
        tx.commit().await?;
        tracing::warn!("No resolver answers, so domains are not looked at");
        Ok(WorkResult::RepeatAt(now + limits::UNREACHABLE_WAIT))
    }
}

/// Counts the domains that are due, for the metrics.
pub(crate) struct CountDue(pub(crate) Arc<Metrics>);

impl Job for CountDue {
    const NAME: &'static str = "domains.count_due";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::COUNT_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let due = sql::due(&mut engine.db.query(), engine.clock.now()).await?;
        self.0.set_due(due);
        Ok(JobOutcome::Idle)
    }
}
