//! The sender: it sends the deliveries of accounts.
//!
//! A server claims accounts, not deliveries: one server at a time sends an account's deliveries, so that what is in
//! flight to an endpoint and of an account can be counted in memory, and order needs nothing more than a queue. A claim
//! is a lease that a heartbeat renews; a server that dies loses it within seconds, and another takes over.
//!
//! The [`supervisor`] claims accounts and starts a task for each, the [`AccountWorker`](account_worker::AccountWorker),
//! which the commit of an event hands its deliveries to. Whatever is not handed over, because it was made elsewhere or
//! is a retry, is found in the database: by the worker's own timer, and twice a second by the supervisor's poll for
//! everything that is due. Workers pass the results of their attempts to one task that writes many at once
//! ([`results`]).
//!
//! The way of a delivery:
//!
//! 1. `Outbox::fill` has inserted it in the commit of its event. `Sender::hand_over` then gives it to the account's
//!    worker, or asks the supervisor to claim the account and start one. The worker puts it into the queue of its
//!    endpoint (`EndpointQueue`).
//!    Every so often the deliveries that are pending are counted ([`backlog`]); those of an endpoint that has too many
//!    are held back, and inserted when there is room.
//! 2. `AccountWorker::start_attempts` starts as many attempts as the limits allow: first attempts before retries, an
//!    endpoint that does not answer with one slot instead of sixteen (`ConcurrencyLimit`), all slow endpoints together
//!    with at most half of the server's slots, and in a minute no more than the plan allows, of them few at hosts that
//!    have not taken anything yet ([`rates`]).
//! 3. `attempt`, while the server is sure of its claims, writes the envelope, signs it with the endpoint's keys (two
//!    for a day after a rotation) and posts it through `Egress::post`, which checks the address and gives up after 15
//!    seconds.
//! 4. `transition` (`model/transition.rs`) says what becomes of the delivery: delivered, tried again later, or failed.
//!    `results::write` stores up to 256 results in one transaction: each delivery whose claim is still valid, its
//!    attempt, the health of its endpoint, and the statistics.
//! 5. An answer of 410, or five days of failures, disables the endpoint in the same commit (`results::disable`), if it
//!    is still the endpoint that was called. Its pending deliveries end as failed; once it is enabled again they can
//!    be recovered.
//! 6. After a crash the rows are due as they were, and the next server claims the account and sends them. A receiver
//!    that got one twice knows it by its `webhook-id`.

mod account_worker;
mod attempt;
mod backlog;
mod endpoint_queue;
mod rates;
mod refresh_rest;
mod results;
mod supervisor;
mod worker_handle;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::BoxFuture;
use portico_engine::{Engine, Service};
use portico_kernel::{AccountId, Clock, DeliveryId, EndpointId, EventId, Problem, Timestamp};
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::model::{DeliveryState, QueueKind};
use crate::sql::PendingDeliveryRow;
use crate::{Webhooks, limits};

use worker_handle::WorkerHandle;

/// A delivery that is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct PendingDelivery {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint: EndpointId,
    pub(crate) event: EventId,
    pub(crate) event_type: String,
    pub(crate) occurred_at: Timestamp,
    /// The event's data, as JSON.
    pub(crate) data: String,
    /// All attempts so far, also those that were asked for by hand.
    pub(crate) tries: i64,
    pub(crate) state: DeliveryState,
    pub(crate) next_at: Timestamp,
}

impl PendingDelivery {
    /// The delivery of a row; `None` when its event was deleted.
    fn read(row: PendingDeliveryRow, queue: QueueKind) -> Option<Self> {
        Some(Self {
            id: row.id,
            endpoint: row.endpoint_id,
            event: row.event_id,
            event_type: row.event_type,
            occurred_at: row.occurred_at?,
            data: row.data?,
            tries: row.tries,
            state: DeliveryState { status: row.status, attempts: row.attempts, by_hand: row.by_hand, queue },
            next_at: row.next_at,
        })
    }
}

/// Sends deliveries as long as the server runs.
pub(crate) struct Sender {
    webhooks: Weak<Webhooks>,
    /// The workers of the accounts that this server has claimed.
    workers: Mutex<HashMap<AccountId, Arc<WorkerHandle>>>,
    /// Accounts that have something to send and no worker yet.
    unclaimed: Mutex<HashSet<AccountId>>,
    /// How many deliveries were made for each account since its backlog was counted,
    made: Mutex<HashMap<AccountId, usize>>,
    /// and the accounts whose backlog is to be counted, each once.
    uncounted: Mutex<VecDeque<AccountId>>,
    wake: Notify,
    /// Is the next poll for due deliveries to be at once?
    poll_now: AtomicBool,
    /// How many polls there have been.
    polls: AtomicU64,
    /// Until when this server can rely on its claims.
    claims_valid_until: watch::Sender<Timestamp>,
    /// Changes whenever something came to an end; tests wait for it.
    progress: watch::Sender<u64>,
    /// Callers who wait for the result of a delivery.
    waiters: Mutex<HashMap<DeliveryId, oneshot::Sender<()>>>,
    /// Slots for attempts in flight, and those of them that slow endpoints may take.
    slots: Arc<Semaphore>,
    slow_slots: Arc<Semaphore>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    pub(crate) fn new(webhooks: Weak<Webhooks>) -> Self {
        Self {
            webhooks,
            workers: Mutex::default(),
            unclaimed: Mutex::default(),
            made: Mutex::default(),
            uncounted: Mutex::default(),
            wake: Notify::new(),
            poll_now: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            claims_valid_until: watch::Sender::new(Timestamp::from_seconds(0)),
            progress: watch::Sender::new(0),
            waiters: Mutex::default(),
            slots: Arc::new(Semaphore::new(limits::IN_FLIGHT_MAX)),
            slow_slots: Arc::new(Semaphore::new(limits::SLOW_IN_FLIGHT_MAX)),
        }
    }

    /// Takes deliveries that were just committed.
    pub(crate) fn hand_over(&self, account: AccountId, deliveries: Vec<PendingDelivery>) {
        self.note_made(account, deliveries.len());
        // Under the lock, so that no worker is released in between.
        match lock(&self.workers).get(&account) {
            Some(worker) => worker.hand_over(deliveries),
            None => self.request_worker(account),
        }
    }

    /// Notes how many deliveries were made; after every so many the account's backlog is counted.
    pub(crate) fn note_made(&self, account: AccountId, count: usize) {
        let mut made = lock(&self.made);
        let since_counted = made.entry(account).or_default();
        *since_counted += count;
        if *since_counted >= limits::COUNTED_EVERY {
            made.remove(&account);
            drop(made);
            self.count_backlog(account);
        }
    }

    /// Counts the account's pending deliveries soon.
    pub(crate) fn count_backlog(&self, account: AccountId) {
        let mut uncounted = lock(&self.uncounted);
        if !uncounted.contains(&account) {
            uncounted.push_back(account);
        }
        drop(uncounted);
        self.wake.notify_one();
    }

    /// Takes some of the accounts whose backlog is to be counted, first come, first served; wakes the supervisor if there
    /// are more.
    fn take_uncounted(&self) -> Vec<AccountId> {
        let mut uncounted = lock(&self.uncounted);
        let count = uncounted.len().min(limits::COUNTED_AT_ONCE);
        let taken = uncounted.drain(..count).collect();
        if !uncounted.is_empty() {
            self.wake.notify_one();
        }
        taken
    }

    /// Reads the account's endpoints and deliveries again: something of them has changed.
    pub(crate) fn refresh(&self, account: AccountId) {
        match lock(&self.workers).get(&account) {
            Some(worker) => worker.refresh(),
            None => self.request_worker(account),
        }
    }

    /// Does the same when an endpoint of the account was changed.
    pub(crate) fn endpoint_changed(&self, account: AccountId, endpoint: EndpointId) {
        match lock(&self.workers).get(&account) {
            Some(worker) => worker.endpoint_changed(endpoint),
            None => self.request_worker(account),
        }
    }

    /// Resolves when the result of an attempt at the delivery is stored, or after a moment.
    pub(crate) fn await_attempt(
        self: &Arc<Self>,
        delivery: DeliveryId,
    ) -> impl Future<Output = ()> + Send + Sync + use<> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiters).insert(delivery, sender);
        let waiter = ResultWaiter { sender: self.clone(), delivery };
        async move {
            let _ = tokio::time::timeout(limits::TEST_WAIT_MAX, receiver).await;
            drop(waiter);
        }
    }

    /// Waits, if it must, until this server can rely on its claims. One that stood still for long may have lost them, and
    /// finds out with its next heartbeat. Never resolves for the worker of an account that is lost: what it has in flight
    /// ends with it.
    async fn wait_for_claims(&self, clock: &dyn Clock, worker: &WorkerHandle) {
        let mut valid_until = self.claims_valid_until.subscribe();
        // It lives as long as we do.
        let _ = valid_until.wait_for(|until| clock.now() < *until).await;
        // The heartbeat stops such a worker before it says that the other claims are valid.
        if worker.is_stopped() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns whether this server can rely on its claim on the worker's account now.
    fn has_valid_claim(&self, clock: &dyn Clock, worker: &WorkerHandle) -> bool {
        clock.now() < *self.claims_valid_until.borrow() && !worker.is_stopped()
    }

    fn request_worker(&self, account: AccountId) {
        lock(&self.unclaimed).insert(account);
        self.wake.notify_one();
    }

    fn notify_progress(&self) {
        self.progress.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits until nothing is in flight and nothing is due.
    pub(crate) async fn settle(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let mut progress = self.progress.subscribe();
        let polls = self.polls.load(Ordering::SeqCst);
        for worker in lock(&self.workers).values() {
            worker.refresh();
        }
        self.poll_now.store(true, Ordering::SeqCst);
        self.wake.notify_one();
        let settling = async {
            while !(self.polls.load(Ordering::SeqCst) > polls && self.is_idle()) {
                if progress.changed().await.is_err() {
                    break;
                }
            }
        };
        let settled = tokio::time::timeout(engine.operation_time_max, settling).await;
        settled.map_err(|_| Problem::internal("the sender did not become idle in time"))
    }

    fn is_idle(&self) -> bool {
        let metrics = self.webhooks.upgrade().map(|webhooks| webhooks.metrics.clone());
        lock(&self.unclaimed).is_empty()
            && lock(&self.uncounted).is_empty()
            && metrics.is_none_or(|metrics| metrics.is_settled())
            && lock(&self.workers).values().all(|worker| worker.is_waiting())
    }
}

/// A caller that waits for the result of a delivery; forgotten when it is dropped.
struct ResultWaiter {
    sender: Arc<Sender>,
    delivery: DeliveryId,
}

impl Drop for ResultWaiter {
    fn drop(&mut self) {
        lock(&self.sender.waiters).remove(&self.delivery);
    }
}

impl Service for Sender {
    fn run(&self, engine: Arc<Engine>, stop: watch::Receiver<bool>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(webhooks) = self.webhooks.upgrade() {
                supervisor::run(webhooks, engine, stop).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use portico_engine::clock::SystemClock;

    use super::worker_handle::WorkerMode;
    use super::*;

    #[test]
    fn an_attempt_of_an_account_that_is_lost_is_not_sent_when_the_other_claims_are_renewed() {
        let (sender, clock) = (Sender::new(Weak::new()), SystemClock);
        let (kept, lost) = (WorkerHandle::default(), WorkerHandle::default());
        let mut of_kept = Box::pin(sender.wait_for_claims(&clock, &kept));
        let mut of_lost = Box::pin(sender.wait_for_claims(&clock, &lost));
        assert!(of_kept.as_mut().now_or_never().is_none(), "no heartbeat yet");
        assert!(of_lost.as_mut().now_or_never().is_none());
        lost.set_mode(WorkerMode::Stop);
        sender.claims_valid_until.send_replace(clock.now() + limits::CLAIM_TRUST);
        assert!(of_kept.now_or_never().is_some());
        assert!(of_lost.now_or_never().is_none());
        assert!(sender.has_valid_claim(&clock, &kept) && !sender.has_valid_claim(&clock, &lost));
    }
}
