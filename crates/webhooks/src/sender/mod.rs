//! The sender: who sends what.
//!
//! A server claims accounts, not deliveries: one server at a time sends an account's deliveries, so that what is under
//! way to an endpoint and of an account can be counted in memory, and order needs nothing more than a queue. A claim is
//! a lease that a heartbeat keeps; a server that dies loses it within seconds, and another takes over.
//!
//! Each account has a courier, a task of its own ([`Courier`](courier::Courier)), which an event's commit hands its
//! deliveries to. Whatever is not handed over, because it was made elsewhere or is tried again, is found in the database:
//! by the courier's own clock, and twice a second by a look at everything that is due. What couriers find out goes to
//! one task that writes it, many results at once ([`results`]).

mod attempt;
mod courier;
mod mailbox;
mod receiver;
mod results;
mod run;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::BoxFuture;
use portico_engine::{Engine, Service};
use portico_kernel::{AccountId, DeliveryId, EndpointId, EventId, Problem, Timestamp};
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::model::Before;
use crate::{Webhooks, limits};

use mailbox::Mailbox;

/// A delivery that is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint: EndpointId,
    pub(crate) event: EventId,
    pub(crate) event_type: String,
    pub(crate) occurred_at: Timestamp,
    /// The event's data, as JSON.
    pub(crate) data: String,
    /// Attempts that were made so far.
    pub(crate) tries: i64,
    pub(crate) before: Before,
    pub(crate) next_at: Timestamp,
}

/// Sends deliveries as long as the server runs.
pub(crate) struct Sender {
    webhooks: Weak<Webhooks>,
    /// The couriers of the accounts that this server has claimed.
    couriers: Mutex<HashMap<AccountId, Arc<Mailbox>>>,
    /// Accounts that have something to send and no courier yet.
    wanted: Mutex<HashSet<AccountId>>,
    wake: Notify,
    /// Is the next look at everything to be at once?
    look_now: AtomicBool,
    looks: AtomicU64,
    /// Until when this server can be sure of its claims.
    claims: watch::Sender<Timestamp>,
    /// Moves whenever something came to an end; tests wait for it.
    progress: watch::Sender<u64>,
    /// Those who wait for the result of a delivery.
    waiting: Mutex<HashMap<DeliveryId, oneshot::Sender<()>>>,
    /// Places for attempts under way, and those of them that endpoints which are slow may take.
    places: Arc<Semaphore>,
    slow_places: Arc<Semaphore>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    pub(crate) fn new(webhooks: Weak<Webhooks>) -> Self {
        Self {
            webhooks,
            couriers: Mutex::default(),
            wanted: Mutex::default(),
            wake: Notify::new(),
            look_now: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            claims: watch::Sender::new(Timestamp::from_seconds(0)),
            progress: watch::Sender::new(0),
            waiting: Mutex::default(),
            places: Arc::new(Semaphore::new(limits::IN_FLIGHT_MAX)),
            slow_places: Arc::new(Semaphore::new(limits::SLOW_IN_FLIGHT_MAX)),
        }
    }

    /// Takes deliveries that were just committed.
    pub(crate) fn hand_over(&self, account: AccountId, deliveries: Vec<Due>) {
        // Under the lock, so that no courier is let go in between.
        match lock(&self.couriers).get(&account) {
            Some(mailbox) => mailbox.hand_over(deliveries),
            None => self.want(account),
        }
    }

    /// Looks at what the account has to send: something of it, or of its endpoints, has changed.
    pub(crate) fn look_at(&self, account: AccountId) {
        match lock(&self.couriers).get(&account) {
            Some(mailbox) => mailbox.look(),
            None => self.want(account),
        }
    }

    /// Ends when an attempt at the delivery is on record, or after a moment.
    pub(crate) fn attempted(
        self: &Arc<Self>,
        delivery: DeliveryId,
    ) -> impl Future<Output = ()> + Send + Sync + use<> {
        let (told, tell) = (oneshot::channel(), Waiting { sender: self.clone(), delivery });
        lock(&self.waiting).insert(delivery, told.0);
        async move {
            let _ = tokio::time::timeout(limits::TEST_WAIT_MAX, told.1).await;
            drop(tell);
        }
    }

    /// Waits, if it must, until this server is sure of its claims. One that stood still for long may have lost them, and
    /// finds out with its next heartbeat.
    async fn sure(&self, engine: &Engine) {
        let mut claims = self.claims.subscribe();
        // It lives as long as we do.
        let _ = claims.wait_for(|until| engine.clock.now() < *until).await;
    }

    /// Is this server sure of its claims now?
    fn is_sure(&self, engine: &Engine) -> bool {
        engine.clock.now() < *self.claims.borrow()
    }

    fn want(&self, account: AccountId) {
        lock(&self.wanted).insert(account);
        self.wake.notify_one();
    }

    fn moved(&self) {
        self.progress.send_modify(|moves| *moves = moves.wrapping_add(1));
    }

    /// Waits until nothing is under way and nothing is due.
    pub(crate) async fn settle(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let mut progress = self.progress.subscribe();
        let looks = self.looks.load(Ordering::SeqCst);
        for mailbox in lock(&self.couriers).values() {
            mailbox.look();
        }
        self.look_now.store(true, Ordering::SeqCst);
        self.wake.notify_one();
        let settling = async {
            while !(self.looks.load(Ordering::SeqCst) > looks && self.is_at_rest()) {
                if progress.changed().await.is_err() {
                    break;
                }
            }
        };
        let settled = tokio::time::timeout(engine.operation_time_max, settling).await;
        settled.map_err(|_| Problem::internal("the sender does not come to rest"))
    }

    fn is_at_rest(&self) -> bool {
        let metrics = self.webhooks.upgrade().map(|webhooks| webhooks.metrics.clone());
        lock(&self.wanted).is_empty()
            && metrics.is_none_or(|metrics| metrics.in_flight() == 0 && metrics.unwritten() == 0)
            && lock(&self.couriers).values().all(|mailbox| mailbox.is_at_rest())
    }
}

/// Somebody waits for the result of the delivery.
struct Waiting {
    sender: Arc<Sender>,
    delivery: DeliveryId,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.sender.waiting).remove(&self.delivery);
    }
}

impl Service for Sender {
    fn run(&self, engine: Arc<Engine>, stop: watch::Receiver<bool>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(webhooks) = self.webhooks.upgrade() {
                run::run(webhooks, engine, stop).await;
            }
        })
    }
}
