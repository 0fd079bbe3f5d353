//! Work that waits: items in the database, each claimed by one server at a time.
//!
//! An area adds an item in the transaction of what it is about ([`enqueue`]), and a [`Worker`] does it later, outside of
//! any transaction. A server claims items that are due, renews each claim while it works, and ends an item only if the
//! claim is still its own. When a server dies, its claims run out and another server takes the items over; so an item is
//! done at least once, and a worker must bear to be run twice.
//!
//! Shared jobs are items too (`jobs.rs`).

mod pace;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use portico_kernel::{AccountId, Problem, Timestamp, hex};
use portico_store::{StoreError, Tx};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::sql::queue as sql;
pub use crate::sql::queue::PROBE;
use crate::{Engine, JobOutcome, Metric};
use pace::Pace;

/// How often a server looks for items that are due.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// How long a claim lasts without being renewed, unless the worker says otherwise.
const LEASE: Duration = Duration::from_secs(30);

/// An item that was tried so often without an end, because its worker panicked or its server died each time, is given up.
const ATTEMPTS_MAX: i64 = 50;

/// Does the items of one queue.
pub trait Worker: Send + Sync + 'static {
    /// The queue's name, `area.verb`.
    const QUEUE: &'static str;
    /// How many items a server works on at once.
    const PARALLEL: usize;
    /// How many items a server begins in a second, where that matters to whoever it asks.
    const PER_SECOND: usize = usize::MAX;
    /// How long a claim lasts without being renewed: so long an item of a dead server waits.
    const LEASE: Duration = LEASE;

    /// Can items be done now? Until then they wait.
    fn is_ready(&self) -> bool {
        true
    }

    /// Does one item, outside of any transaction. Dropped in the middle when the claim is lost.
    fn run(&self, engine: &Arc<Engine>, item: &QueueItem) -> impl Future<Output = WorkResult> + Send;
}

/// An item that was claimed.
#[derive(Debug, Clone)]
pub struct QueueItem {
    /// The item's id.
    pub id: String,
    /// What the area put into it.
    pub payload: Vec<u8>,
    /// How often it was tried, this time included.
    pub attempts: i64,
    /// When it was added.
    pub created_at: Timestamp,
}

/// An item to be added.
pub struct NewItem<'a> {
    /// Its id; an item that is there already stays as it is.
    pub id: String,
    /// Whose it is; it is erased with the account.
    pub account: Option<AccountId>,
    /// What the worker needs to know, sealed where it is secret.
    pub payload: &'a [u8],
    /// When it is due.
    pub due_at: Timestamp,
}

/// How the work on an item ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkResult {
    /// It is done, and goes.
    Done,
    /// It failed, and is tried again at this time.
    RetryAt(Timestamp),
    /// It is done for now, and due again at this time.
    RepeatAt(Timestamp),
    /// It failed for good. The item stays on record without its payload.
    GiveUp,
}

/// Adds an item to the queue of `W`, in the transaction of what it is about.
pub async fn enqueue<W: Worker>(tx: &mut Tx, item: NewItem<'_>, now: Timestamp) -> Result<(), StoreError> {
    sql::insert(tx, W::QUEUE, &item, now).await
}

/// The same, also where the item is there already, or was given up: it is due at that time alone. Work on it that is under
/// way loses its claim, and is dropped.
pub async fn reschedule<W: Worker>(tx: &mut Tx, item: NewItem<'_>, now: Timestamp) -> Result<(), StoreError> {
    sql::reschedule(tx, W::QUEUE, &item, now).await
}

/// Claims what is due of the worker's queue, as much as may run at once, and does it now.
pub async fn run_due<W: Worker>(worker: Arc<W>, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
    Arc::new(Queue::new(worker)).run_due(engine).await
}

type Run = Box<dyn Fn(Arc<Engine>, Arc<QueueItem>) -> BoxFuture<'static, WorkResult> + Send + Sync>;

/// A queue as the registry holds it, its worker's type erased.
pub(crate) struct Queue {
    pub(crate) name: &'static str,
    parallel: usize,
    pace: Pace,
    lease: Duration,
    /// Is it a job, which is due again and again?
    repeats: bool,
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    run: Run,
    numbers: Numbers,
}

#[derive(Default)]
struct Numbers {
    due: AtomicI64,
    oldest_seconds: AtomicI64,
    in_flight: AtomicI64,
    failed: AtomicU64,
    claims_lost: AtomicU64,
}

impl Queue {
    pub(crate) fn new<W: Worker>(worker: Arc<W>) -> Self {
        let ready = worker.clone();
        Self {
            name: W::QUEUE,
            parallel: W::PARALLEL,
            pace: Pace::new(W::PER_SECOND),
            lease: W::LEASE,
            repeats: false,
            is_ready: Box::new(move || ready.is_ready()),
            run: Box::new(move |engine, item| {
                let worker = worker.clone();
                async move { worker.run(&engine, &item).await }.boxed()
            }),
            numbers: Numbers::default(),
        }
    }

    /// A queue of one item, which is due again and again.
    pub(crate) fn repeating(
        name: &'static str,
        run: impl Fn(Arc<Engine>) -> BoxFuture<'static, WorkResult> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            parallel: 1,
            pace: Pace::new(usize::MAX),
            lease: LEASE,
            repeats: true,
            is_ready: Box::new(|| true),
            run: Box::new(move |engine, _| run(engine)),
            numbers: Numbers::default(),
        }
    }

    /// What the queue counts of itself.
    pub(crate) fn metrics(&self) -> [Metric; 5] {
        let (of, numbers) = (("queue", self.name), &self.numbers);
        let load = |value: &AtomicI64| value.load(Ordering::Relaxed);
        let count = |value: &AtomicU64| value.load(Ordering::Relaxed);
        [
            Metric::gauge("queue_due", "Items that are due and not claimed", load(&numbers.due)).label(of),
            Metric::gauge(
                "queue_oldest_seconds",
                "How long the oldest due item has waited",
                load(&numbers.oldest_seconds),
            )
            .label(of),
            Metric::gauge("queue_in_flight", "Items being worked on", load(&numbers.in_flight)).label(of),
            Metric::counter("queue_failed", "Runs of items that failed", count(&numbers.failed)).label(of),
            Metric::counter(
                "queue_claims_lost",
                "Claims that another server took over",
                count(&numbers.claims_lost),
            )
            .label(of),
        ]
    }

    /// How many items may be begun now.
    fn room(&self, now: Timestamp) -> i64 {
        let in_flight = usize::try_from(self.numbers.in_flight.load(Ordering::Relaxed)).unwrap_or(0);
        let room = self.parallel.saturating_sub(in_flight).min(self.pace.room(now));
        i64::try_from(room).unwrap_or(i64::MAX)
    }

    /// Claims up to `limit` items that are due.
    async fn claim(self: &Arc<Self>, engine: &Engine, limit: i64) -> Result<Vec<Claim>, Problem> {
        let id = hex(&engine.entropy.bytes::<16>());
        let mut tx = engine.db.write().await?;
        let now = engine.clock.now();
        let items = sql::claim(&mut tx, self.name, &id, now, now + self.lease, limit).await?;
        tx.commit().await?;
        self.pace.note(now, items.len());
        let claim = |item| Claim { queue: self.clone(), id: id.clone(), item: Arc::new(item) };
        Ok(items.into_iter().map(claim).collect())
    }

    /// Claims what is due, as much as may run at once, and works on it until it is done.
    pub(crate) async fn run_due(self: &Arc<Self>, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        if !(self.is_ready)() {
            return Ok(JobOutcome::Idle);
        }
        let room = self.room(engine.clock.now());
        if room == 0 {
            return Ok(JobOutcome::Idle);
        }
        let claims = self.claim(engine, room).await?;
        let more = i64::try_from(claims.len()) == Ok(room);
        join_all(claims.into_iter().map(|claim| claim.work(engine.clone()))).await;
        Ok(if more { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}

/// The right to work on an item, and to end it.
struct Claim {
    queue: Arc<Queue>,
    id: String,
    item: Arc<QueueItem>,
}

/// Counts an item as in flight for as long as it lives, however its task ends.
struct InFlight(Arc<Queue>);

impl InFlight {
    fn new(queue: &Arc<Queue>) -> Self {
        queue.numbers.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(queue.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.numbers.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Claim {
    /// Works on the item and ends it. The claim is renewed meanwhile; once it is lost, the work is dropped.
    fn work(self, engine: Arc<Engine>) -> impl Future<Output = ()> + Send + 'static {
        // Before the task runs, so that no more is claimed than may run.
        let in_flight = InFlight::new(&self.queue);
        async move {
            let _in_flight = in_flight;
            let (queue, item) = (self.queue.name, self.item.id.as_str());
            let running = std::panic::AssertUnwindSafe((self.queue.run)(engine.clone(), self.item.clone()));
            let worn_out = !self.queue.repeats && self.item.attempts > ATTEMPTS_MAX;
            let result = tokio::select! {
                biased;
                () = std::future::ready(()), if worn_out => Ok(WorkResult::GiveUp),
                result = running.catch_unwind() => result,
                () = self.renew(&engine) => return self.lost(),
            };
            let Ok(result) = result else {
                tracing::error!(
                    queue,
                    item,
                    "Queue worker panicked; the item is tried again when its claim runs out"
                );
                self.queue.numbers.failed.fetch_add(1, Ordering::Relaxed);
                return;
            };
            if matches!(result, WorkResult::RetryAt(_) | WorkResult::GiveUp) {
                self.queue.numbers.failed.fetch_add(1, Ordering::Relaxed);
            }
            match self.end(&engine, result).await {
                Ok(true) => {}
                Ok(false) => self.lost(),
                Err(error) => tracing::error!(queue, item, %error, "Failed to end a queue item"),
            }
        }
    }

    fn lost(&self) {
        self.queue.numbers.claims_lost.fetch_add(1, Ordering::Relaxed);
        let (queue, item) = (self.queue.name, self.item.id.as_str());
        tracing::warn!(
            queue,
            item,
            "Lost the claim of a queue item: to another server, or because it is due anew"
        );
    }

    /// Renews the claim in time, again and again; resolves once it is lost.
    async fn renew(&self, engine: &Engine) {
        loop {
            engine.clock.sleep(self.queue.lease / 3).await;
            let renewed = async {
                let mut tx = engine.db.write().await?;
                let until = engine.clock.now() + self.queue.lease;
                let ours = sql::renew(&mut tx, &self.item.id, &self.id, until).await?;
                tx.commit().await?;
                Ok::<_, StoreError>(ours)
            };
            match renewed.await {
                Ok(true) => {}
                Ok(false) => return,
                // The database is away for everybody; the next renewal may come in time.
                Err(error) => {
                    tracing::warn!(%error, queue = self.queue.name, "Failed to renew the claim of a queue item");
                }
            }
        }
    }

    /// Ends the item, if the claim is still ours.
    async fn end(&self, engine: &Engine, result: WorkResult) -> Result<bool, StoreError> {
        let mut tx = engine.db.write().await?;
        let ours = match result {
            WorkResult::Done => sql::remove(&mut tx, &self.item.id, &self.id).await?,
            WorkResult::RetryAt(at) => {
                sql::put_off(&mut tx, &self.item.id, &self.id, at, self.item.attempts).await?
            }
            WorkResult::RepeatAt(at) => sql::put_off(&mut tx, &self.item.id, &self.id, at, 0).await?,
            WorkResult::GiveUp => sql::give_up(&mut tx, &self.item.id, &self.id, engine.clock.now()).await?,
        };
        tx.commit().await?;
        Ok(ours)
    }
}

/// Works on the queues until `stop` turns true; then lets the items under way end.
pub(crate) async fn run(engine: Arc<Engine>, queues: Vec<Arc<Queue>>, mut stop: watch::Receiver<bool>) {
    let (mut tasks, mut due) = (JoinSet::new(), BTreeSet::new());
    let mut poll = engine.clock.sleep(Duration::ZERO);
    while !*stop.borrow() {
        let looked = tokio::select! {
            () = &mut poll => {
                poll = engine.clock.sleep(POLL_EVERY);
                look(&engine, &queues).await.map(|found| due = found)
            }
            // A queue that was full may go on at once.
            Some(_) = tasks.join_next() => Ok(()),
            _ = stop.changed() => continue,
        };
        let begun = match looked {
            Ok(()) => begin_due(&engine, &queues, &mut due, &mut tasks).await,
            Err(problem) => Err(problem),
        };
        if let Err(problem) = begun {
            tracing::error!(%problem, cause = ?problem.cause(), "Failed to claim queue items");
        }
    }
    while tasks.join_next().await.is_some() {}
}

/// Returns the names of the queues of which something is due, and notes how much.
async fn look(engine: &Engine, queues: &[Arc<Queue>]) -> Result<BTreeSet<String>, Problem> {
    let now = engine.clock.now();
    let rows = sql::due(engine.db.query(), now).await?;
    for queue in queues {
        let row = rows.iter().find(|row| row.queue == queue.name);
        let oldest = row.map_or(0, |row| i64::try_from(now.since(row.oldest).as_secs()).unwrap_or(i64::MAX));
        queue.numbers.due.store(row.map_or(0, |row| row.items), Ordering::Relaxed);
        queue.numbers.oldest_seconds.store(oldest, Ordering::Relaxed);
    }
    Ok(rows.into_iter().map(|row| row.queue).collect())
}

/// Claims what is due and begins to work on it, as far as there is room. A queue of which less was found than there was
/// room for has nothing more that is due.
async fn begin_due(
    engine: &Arc<Engine>,
    queues: &[Arc<Queue>],
    due: &mut BTreeSet<String>,
    tasks: &mut JoinSet<()>,
) -> Result<(), Problem> {
    for queue in queues {
        let room = queue.room(engine.clock.now());
        if !due.contains(queue.name) || room == 0 || !(queue.is_ready)() {
            continue;
        }
        let claims = queue.claim(engine, room).await?;
        if i64::try_from(claims.len()).unwrap_or(i64::MAX) < room {
            due.remove(queue.name);
        }
        for claim in claims {
            tasks.spawn(claim.work(engine.clone()));
        }
    }
    Ok(())
}
