//! A courier: sends the deliveries of one account.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{AccountId, DeliveryId, EndpointId, Problem, Timestamp};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};

use super::attempt::{Done, attempt};
use super::mailbox::{Mailbox, News, Order};
use super::receiver::{Receiver, Target};
use super::results::Finished;
use super::{Due, Sender};
use crate::model::{self, Before, Ended, Lane, Outcome};
use crate::sql::{self, DueRow, EndpointRow};
use crate::{Webhooks, limits};

/// Sends the deliveries of one account.
pub(super) struct Courier {
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    account: AccountId,
    mailbox: Arc<Mailbox>,
    results: mpsc::UnboundedSender<Finished>,
    receivers: HashMap<EndpointId, Receiver>,
    /// When the endpoints were last read.
    read_at: Timestamp,
    attempts: JoinSet<Done>,
    under_way: HashMap<Id, (EndpointId, DeliveryId)>,
    /// What was written last: it may have been read, and sent, before it was handed over.
    written: VecDeque<DeliveryId>,
    unwritten: usize,
    /// Is the database to be looked at?
    look: bool,
    /// When something is due that is not yet.
    next_at: Option<Timestamp>,
}

impl Courier {
    pub(super) fn new(
        webhooks: Arc<Webhooks>,
        engine: Arc<Engine>,
        account: AccountId,
        mailbox: Arc<Mailbox>,
        results: mpsc::UnboundedSender<Finished>,
    ) -> Self {
        let read_at = engine.clock.now();
        Self {
            webhooks,
            engine,
            account,
            mailbox,
            results,
            receivers: HashMap::new(),
            read_at,
            attempts: JoinSet::new(),
            under_way: HashMap::new(),
            written: VecDeque::new(),
            unwritten: 0,
            look: true,
            next_at: None,
        }
    }

    fn sender(&self) -> &Sender {
        &self.webhooks.sender
    }

    /// Sends until it is told to end.
    pub(super) async fn run(mut self) {
        loop {
            let (news, order) = self.mailbox.take();
            self.take_in(news);
            match order {
                Order::Leave => return,
                Order::Finish if self.attempts.is_empty() => return,
                // What is found now is the next server's.
                Order::Finish => (self.look, self.next_at) = (false, None),
                Order::Send => {
                    if let Err(problem) = self.work().await {
                        // The database cannot be asked; the next look at everything tries again.
                        let account = self.account;
                        tracing::warn!(%account, %problem, cause = ?problem.cause(), "Deliveries cannot be read");
                        (self.look, self.next_at) = (false, None);
                    }
                }
            }
            self.wait().await;
        }
    }

    fn take_in(&mut self, news: News) {
        self.look |= news.look;
        self.unwritten = self.unwritten.saturating_sub(news.written.len());
        for id in news.written {
            for receiver in self.receivers.values_mut() {
                receiver.written(id);
            }
            self.written.push_back(id);
        }
        self.written.drain(..self.written.len().saturating_sub(limits::HANDED_MAX));
        for due in news.handed {
            if self.written.contains(&due.id) {
                continue;
            }
            match self.receivers.get_mut(&due.endpoint) {
                Some(receiver) => receiver.hand_over(due),
                // Its endpoint is newer than what is known.
                None => self.look = true,
            }
        }
    }

    /// Reads what is to be read, and begins what may begin.
    async fn work(&mut self) -> Result<(), Problem> {
        let now = self.engine.clock.now();
        if self.next_at.is_some_and(|next| next <= now) {
            self.look = true;
        }
        if self.look {
            self.look = false;
            self.read_endpoints(now).await?;
            self.read_agenda(now).await?;
        } else if now.since(self.read_at) >= limits::ENDPOINTS_LIFE
            && self.receivers.values().any(Receiver::is_busy)
        {
            self.read_endpoints(now).await?;
        }
        loop {
            self.read_lanes(now).await?;
            if !self.begin_some() {
                return Ok(());
            }
        }
    }

    /// Reads the account's endpoints, and forgets what was read of those that have changed.
    async fn read_endpoints(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut rows: HashMap<_, _> = sql::endpoints(&mut self.engine.db.query(), self.account)
            .await?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        self.read_at = now;
        // One that is gone stays as long as something is under way to it.
        self.receivers.retain(|id, receiver| rows.contains_key(id) || receiver.in_flight() > 0);
        for (id, receiver) in &mut self.receivers {
            match rows.remove(id) {
                Some(row) if row.version == receiver.target.row.version && !overlap_ended(receiver, now) => {}
                Some(row) => {
                    receiver.target = target(&self.engine, row, now);
                    receiver.forget_queued();
                }
                None => {
                    receiver.forget_queued();
                    let row = EndpointRow { enabled: false, ..receiver.target.row.clone() };
                    receiver.target = Arc::new(Target { row, keys: Vec::new() });
                }
            }
        }
        for (id, row) in rows {
            self.receivers.insert(id, Receiver::new(target(&self.engine, row, now)));
        }
        Ok(())
    }

    /// Finds out what waits in which lane, and ends what waits for endpoints that take nothing.
    async fn read_agenda(&mut self, now: Timestamp) -> Result<(), Problem> {
        let agenda = sql::agenda(&mut self.engine.db.query(), self.account).await?;
        self.next_at = None;
        for row in agenda {
            match self.receivers.get_mut(&row.endpoint_id) {
                // What is under way is written first: the two would wait for each other's rows.
                Some(receiver) if !receiver.target.row.enabled && receiver.is_busy() => {
                    self.due_at(now + limits::LOOK_EVERY);
                }
                Some(receiver) if receiver.target.row.enabled && row.next_at <= now => {
                    receiver.expect(Lane::from_number(row.lane));
                }
                Some(receiver) if receiver.target.row.enabled => self.due_at(row.next_at),
                Some(_) => self.end_pending(row.endpoint_id).await?,
                None => {
                    let mut query = self.engine.db.query();
                    match sql::endpoint(&mut query, row.endpoint_id).await? {
                        // It was made since the endpoints were read.
                        Some(_) => self.look = true,
                        // It was deleted, and what waits for it goes with it.
                        None => self.due_at(now + limits::LOOK_EVERY),
                    }
                }
            }
        }
        Ok(())
    }

    fn due_at(&mut self, at: Timestamp) {
        self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
    }

    /// Ends some of what waits for an endpoint that takes nothing. The rest is for the next look, which comes at once:
    /// others have their turn in between.
    async fn end_pending(&mut self, endpoint: EndpointId) -> Result<(), Problem> {
        let mut tx = self.engine.db.write().await?;
        let ended = sql::end_pending(&mut tx, self.account, endpoint, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        self.look |= ended == limits::PRUNE_ROWS.unsigned_abs();
        Ok(())
    }

    async fn read_lanes(&mut self, now: Timestamp) -> Result<(), Problem> {
        let usable = self.receivers.iter().filter(|(_, receiver)| receiver.is_usable());
        let lanes: Vec<_> = usable
            .flat_map(|(id, receiver)| receiver.to_read().into_iter().map(|(lane, most)| (*id, lane, most)))
            .collect();
        for (endpoint, lane, most) in lanes {
            let place = (self.account, endpoint);
            let rows = sql::due(&mut self.engine.db.query(), place, lane, now, most).await?;
            let full = i64::try_from(rows.len()).is_ok_and(|read| read == most);
            let mut read = Vec::with_capacity(rows.len());
            for row in rows {
                let id = row.id;
                match due(row, lane) {
                    Some(due) => read.push(due),
                    None => self.end_one(id).await?,
                }
            }
            let later =
                self.receivers.get_mut(&endpoint).and_then(|receiver| receiver.read(lane, read, full, now));
            if let Some(later) = later {
                self.due_at(later);
            }
        }
        Ok(())
    }

    /// Ends a delivery whose event is gone: there is nothing left to send.
    async fn end_one(&self, id: DeliveryId) -> Result<(), Problem> {
        tracing::error!(account = %self.account, delivery = %id, "A delivery's event is gone");
        let mut tx = self.engine.db.write().await?;
        sql::end_one(&mut tx, id).await?;
        Ok(tx.commit().await?)
    }

    /// Begins as many attempts as may be under way, one endpoint after the other; answers whether it began any.
    fn begin_some(&mut self) -> bool {
        let fair = (limits::ACCOUNT_IN_FLIGHT_MAX / self.receivers.len().max(1)).max(1);
        let mut begun = false;
        loop {
            let mut again = false;
            for (id, receiver) in &mut self.receivers {
                let in_flight = self.attempts.len();
                if in_flight >= limits::ACCOUNT_IN_FLIGHT_MAX
                    || self.unwritten + in_flight >= limits::UNWRITTEN_MAX
                {
                    return begun;
                }
                // More than its share only while half of the places are free, the account's and the server's.
                let roomy = in_flight < limits::ACCOUNT_IN_FLIGHT_MAX / 2;
                let most = if roomy { limits::ENDPOINT_IN_FLIGHT_MAX } else { fair };
                let crowded = self.webhooks.sender.places.available_permits() < limits::IN_FLIGHT_MAX / 2;
                let most = if crowded { most.min(limits::CROWDED_IN_FLIGHT) } else { most };
                let Some(due) = receiver.next(most) else { continue };
                let delivery = due.id;
                let task = in_its_place(
                    (self.webhooks.clone(), self.engine.clone(), self.account),
                    receiver.target.clone(),
                    due,
                    receiver.is_slow(),
                );
                self.under_way.insert(self.attempts.spawn(task).id(), (*id, delivery));
                (begun, again) = (true, true);
            }
            if !again {
                return begun;
            }
        }
    }

    /// Waits for something new.
    async fn wait(&mut self) {
        let idle = self.attempts.is_empty()
            && self.unwritten == 0
            && self.next_at.is_none()
            && !self.receivers.values().any(Receiver::is_busy);
        let now = self.engine.clock.now();
        if self.attempts.is_empty() && !self.look {
            self.mailbox.rest(idle.then_some(now));
            self.sender().moved();
        }
        if self.look {
            while let Some(ended) = self.attempts.try_join_next_with_id() {
                self.ended(ended);
            }
            return tokio::task::yield_now().await;
        }
        let engine = self.engine.clone();
        let due = async {
            match self.next_at {
                Some(next) => engine.clock.sleep(next.since(now)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.mailbox.notified() => {}
            () = due => {}
            Some(ended) = self.attempts.join_next_with_id() => {
                self.ended(ended);
                while let Some(ended) = self.attempts.try_join_next_with_id() {
                    self.ended(ended);
                }
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, Done), JoinError>) {
        let task = match &ended {
            Ok((task, _)) => *task,
            Err(error) => error.id(),
        };
        let Some((endpoint, delivery)) = self.under_way.remove(&task) else { return };
        let Some(receiver) = self.receivers.get_mut(&endpoint) else { return };
        let Ok((_, mut done)) = ended else {
            tracing::error!(account = %self.account, %delivery, "An attempt came to no end");
            receiver.lost(delivery);
            return;
        };
        let outcome = done.ended.outcome;
        receiver.ended(delivery, outcome, done.duration_ms);
        // An endpoint that was changed meanwhile is not the one that is gone.
        done.ended.gone &= done.version == receiver.target.row.version;
        if done.ended.gone {
            receiver.is_gone(delivery);
        }
        let chance = u32::from_ne_bytes(self.engine.entropy.bytes());
        let after = model::after(done.due.before, done.ended, chance);
        let if_not_gone = model::after(done.due.before, Ended { gone: false, ..done.ended }, chance);
        if let Some(next) = if_not_gone.next_at {
            self.due_at(next);
        }
        self.webhooks.metrics.attempted(outcome == Outcome::Delivered);
        self.webhooks.metrics.to_write(1);
        self.unwritten += 1;
        // It ends after every courier.
        let _ = self.results.send(Finished::new(&self.engine, self.account, done, (after, if_not_gone)));
    }
}

/// Has a day gone by since the secret was rotated?
fn overlap_ended(receiver: &Receiver, now: Timestamp) -> bool {
    receiver.target.keys.len() > 1 && receiver.target.row.old_secret_until.is_some_and(|until| until <= now)
}

fn target(engine: &Engine, row: EndpointRow, now: Timestamp) -> Arc<Target> {
    let keys = row.keys(engine, now);
    Arc::new(Target { row, keys })
}

/// The delivery that was read; nothing when its event is gone.
fn due(row: DueRow, lane: Lane) -> Option<Due> {
    Some(Due {
        id: row.id,
        endpoint: row.endpoint_id,
        event: row.event_id,
        event_type: row.event_type,
        occurred_at: row.occurred_at?,
        data: row.data?,
        tries: row.tries,
        before: Before { status: row.status, attempts: row.attempts, lane },
        next_at: row.next_at,
    })
}

/// An attempt that waits for its place: endpoints that are slow share a part of them.
async fn in_its_place(
    (webhooks, engine, account): (Arc<Webhooks>, Arc<Engine>, AccountId),
    target: Arc<Target>,
    due: Due,
    slow: bool,
) -> Done {
    let sender = webhooks.sender.clone();
    // Neither is ever closed.
    let _slow = if slow { sender.slow_places.acquire().await.ok() } else { None };
    let _place = sender.places.acquire().await.ok();
    sender.sure(&engine).await;
    let _counted = webhooks.metrics.begin();
    attempt(&webhooks, &engine, account, &target, due).await
}
