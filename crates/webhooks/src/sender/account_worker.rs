//! The worker of one account: it sends the account's deliveries.

mod reading;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use portico_engine::Engine;
use portico_engine::clock::Stopwatch;
use portico_kernel::{AccountId, DeliveryId, EndpointId, Problem, Timestamp};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};

use super::Sender;
use super::attempt::{FinishedAttempt, attempt_in_slot};
use super::endpoint_queue::EndpointQueue;
use super::rates::Rates;
use super::refresh_rest::RefreshRest;
use super::results::AttemptRecord;
use super::worker_handle::{WorkerHandle, WorkerInbox, WorkerMode};
use crate::model::{AttemptOutcome, Outcome, transition};
use crate::{Webhooks, limits};

/// Sends the deliveries of one account.
pub(super) struct AccountWorker {
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    account: AccountId,
    handle: Arc<WorkerHandle>,
    results: mpsc::UnboundedSender<AttemptRecord>,
    queues: HashMap<EndpointId, EndpointQueue>,
    /// When the endpoints were last read.
    endpoints_read_at: Timestamp,
    attempts: JoinSet<FinishedAttempt>,
    in_flight: HashMap<Id, (EndpointId, DeliveryId)>,
    /// The deliveries whose results were stored last: one may have been read, and sent, before it was handed over.
    recently_stored: VecDeque<DeliveryId>,
    /// Results that are not stored yet.
    unstored: usize,
    /// Are the endpoints and the due deliveries to be read again?
    refresh: bool,
    rest: RefreshRest,
    /// When the next delivery is due that is not due yet.
    next_at: Option<Timestamp>,
    rates: Rates,
}

impl AccountWorker {
    pub(super) fn new(
        webhooks: Arc<Webhooks>,
        engine: Arc<Engine>,
        account: AccountId,
        handle: Arc<WorkerHandle>,
        results: mpsc::UnboundedSender<AttemptRecord>,
    ) -> Self {
        let endpoints_read_at = engine.clock.now();
        Self {
            webhooks,
            engine,
            account,
            handle,
            results,
            queues: HashMap::new(),
            endpoints_read_at,
            attempts: JoinSet::new(),
            in_flight: HashMap::new(),
            recently_stored: VecDeque::new(),
            unstored: 0,
            refresh: true,
            rest: RefreshRest::default(),
            next_at: None,
            rates: Rates::default(),
        }
    }

    fn sender(&self) -> &Sender {
        &self.webhooks.sender
    }

    /// Sends until it is told to end.
    pub(super) async fn run(mut self) {
        loop {
            let (inbox, mode) = self.handle.take();
            self.process(inbox);
            match mode {
                WorkerMode::Stop => return,
                WorkerMode::Drain if self.attempts.is_empty() => return,
                // The next server reads what is due.
                WorkerMode::Drain => (self.refresh, self.next_at) = (false, None),
                WorkerMode::Run => {
                    if let Err(problem) = self.work().await {
                        // The supervisor's next poll makes it try again.
                        let account = self.account;
                        tracing::warn!(%account, %problem, cause = ?problem.cause(), "Failed to read due deliveries");
                        (self.refresh, self.next_at) = (false, None);
                    }
                }
            }
            self.wait().await;
        }
    }

    fn process(&mut self, inbox: WorkerInbox) {
        self.refresh |= inbox.refresh;
        self.unstored = self.unstored.saturating_sub(inbox.stored.len());
        for id in inbox.stored {
            for queue in self.queues.values_mut() {
                queue.result_stored(id);
            }
            self.recently_stored.push_back(id);
        }
        self.recently_stored.drain(..self.recently_stored.len().saturating_sub(limits::HANDED_OVER_MAX));
        // Before what was committed: that may have been made after the change.
        self.mark_stale(inbox.changed);
        for delivery in inbox.committed {
            if self.recently_stored.contains(&delivery.id) {
                continue;
            }
            match self.queues.get_mut(&delivery.endpoint) {
                Some(queue) => queue.hand_over(delivery),
                // Its endpoint was created after the endpoints were read.
                None => self.refresh = true,
            }
        }
    }

    fn mark_stale(&mut self, changed: HashSet<EndpointId>) {
        for id in changed {
            if let Some(queue) = self.queues.get_mut(&id) {
                queue.mark_stale();
            }
        }
    }

    /// Reads what is to be read, and starts the attempts that may start.
    async fn work(&mut self) -> Result<(), Problem> {
        let now = self.engine.clock.now();
        if self.next_at.is_some_and(|next| next <= now) {
            self.refresh = true;
        }
        if self.refresh && self.rest.is_over() {
            let watch = Stopwatch::start();
            self.refresh = false;
            self.rates.read_plan(&self.engine, self.account, now).await?;
            self.read_endpoints(now).await?;
            self.read_queue_heads(now).await?;
            self.rest.begin(&watch);
        } else if now.since(self.endpoints_read_at) >= limits::ENDPOINTS_LIFE
            && self.queues.values().any(EndpointQueue::is_busy)
        {
            self.read_endpoints(now).await?;
        }
        loop {
            self.read_queues(now).await?;
            // A delivery that was just read may have been made after a change that came after the endpoints were read.
            self.mark_stale(self.handle.take_changed());
            let (started, later) = self.start_attempts(now);
            if let Some(at) = later {
                self.due_at(at);
            }
            if !started {
                return Ok(());
            }
        }
    }

    fn due_at(&mut self, at: Timestamp) {
        self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
    }

    /// Starts as many attempts as the limits allow, one endpoint after the other, that with the fewest attempts first;
    /// returns whether it started any, and when a rate allows more.
    fn start_attempts(&mut self, now: Timestamp) -> (bool, Option<Timestamp>) {
        let fair_share = (limits::ACCOUNT_IN_FLIGHT_MAX / self.queues.len().max(1)).max(1);
        let (mut started, mut later) = (false, None);
        let mut order: Vec<_> = self.queues.iter().map(|(id, queue)| (queue.started(), *id)).collect();
        order.sort_unstable();
        loop {
            let mut again = false;
            for (_, id) in &order {
                let Some(queue) = self.queues.get_mut(id) else { continue };
                let in_flight = self.attempts.len();
                if in_flight >= limits::ACCOUNT_IN_FLIGHT_MAX
                    || self.unstored + in_flight >= limits::UNWRITTEN_MAX
                {
                    return (started, later);
                }
                // More than its share only while half of the slots are free, the account's and the server's.
                let roomy = in_flight < limits::ACCOUNT_IN_FLIGHT_MAX / 2;
                let share = if roomy { limits::ENDPOINT_IN_FLIGHT_MAX } else { fair_share };
                let crowded = self.webhooks.sender.slots.available_permits() < limits::IN_FLIGHT_MAX / 2;
                let share = if crowded { share.min(limits::CROWDED_IN_FLIGHT) } else { share };
                let rate_allows_at =
                    queue.has_next().then(|| self.rates.next_at(&queue.target, now)).flatten();
                if let Some(at) = rate_allows_at {
                    later = Some(later.map_or(at, |later: Timestamp| later.min(at)));
                    continue;
                }
                let Some(delivery) = queue.next(share) else { continue };
                self.rates.add(&queue.target, now);
                let delivery_id = delivery.id;
                let task = attempt_in_slot(
                    self.webhooks.clone(),
                    self.engine.clone(),
                    self.account,
                    self.handle.clone(),
                    queue.target.clone(),
                    delivery,
                    queue.is_slow(),
                );
                self.in_flight.insert(self.attempts.spawn(task).id(), (*id, delivery_id));
                (started, again) = (true, true);
            }
            if !again {
                return (started, later);
            }
        }
    }

    /// Waits for something new.
    async fn wait(&mut self) {
        let idle = self.attempts.is_empty()
            && self.unstored == 0
            && self.next_at.is_none()
            && !self.queues.values().any(EndpointQueue::is_busy);
        let now = self.engine.clock.now();
        if self.attempts.is_empty() && !self.refresh {
            self.handle.set_waiting(idle.then(|| self.rates.idle_since(now)));
            self.sender().notify_progress();
        }
        if self.refresh && self.rest.is_over() {
            while let Some(ended) = self.attempts.try_join_next_with_id() {
                self.attempt_ended(ended);
            }
            return tokio::task::yield_now().await;
        }
        let engine = self.engine.clone();
        let refresh = self.refresh;
        let due = async {
            match self.next_at.filter(|_| !refresh) {
                Some(next) => engine.clock.sleep(next.since(now)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.handle.notified() => {}
            () = due => {}
            () = self.rest.over(), if refresh => {}
            Some(ended) = self.attempts.join_next_with_id() => {
                self.attempt_ended(ended);
                while let Some(ended) = self.attempts.try_join_next_with_id() {
                    self.attempt_ended(ended);
                }
            }
        }
    }

    fn attempt_ended(&mut self, ended: Result<(Id, FinishedAttempt), JoinError>) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let Some((endpoint, delivery)) = self.in_flight.remove(&task) else { return };
        let Some(queue) = self.queues.get_mut(&endpoint) else { return };
        let Ok((_, mut attempt)) = ended else {
            tracing::error!(account = %self.account, %delivery, "Delivery attempt panicked");
            queue.attempt_lost(delivery);
            return;
        };
        let outcome = attempt.outcome.result.outcome;
        queue.attempt_ended(delivery, outcome, attempt.duration_ms);
        // An answer says nothing about an endpoint that was changed meanwhile.
        let is_current = attempt.endpoint_version == queue.target.row.version;
        if is_current {
            self.rates.note(&queue.target, outcome == Outcome::Delivered, attempt.outcome.ended_at);
        }
        attempt.outcome.gone &= is_current;
        if attempt.outcome.gone {
            queue.mark_gone(delivery);
        }
        let (state, chance) = (attempt.delivery.state, u32::from_ne_bytes(self.engine.entropy.bytes()));
        let next = transition(state, attempt.outcome, chance);
        let next_if_not_gone = transition(state, AttemptOutcome { gone: false, ..attempt.outcome }, chance);
        if let Some(at) = next_if_not_gone.next_at {
            self.due_at(at);
        }
        self.webhooks.metrics.attempted(outcome == Outcome::Delivered);
        self.webhooks.metrics.to_write(1);
        self.unstored += 1;
        let record = AttemptRecord::new(&self.engine, self.account, attempt, next, next_if_not_gone);
        // The writer ends after every worker.
        let _ = self.results.send(record);
    }
}
