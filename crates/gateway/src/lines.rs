//! Connections that stay: who holds them, and what ends them.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use futures_util::future::BoxFuture;
use portico_engine::input::{Fields, Node};
use portico_engine::{ACCOUNT_VARIABLE, Engine, EntryPoint, Service, Spec};
use portico_events::limits::STREAM_LIFE_MAX;
use portico_events::{Events, Slot};
use portico_identity::Identity;
use portico_identity::verify::refused;
use portico_kernel::{AccountId, Code, Problem, Sleep, Timestamp, seconds};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::Connection;
use crate::mqtt::Clients;
use crate::server::wait;
use crate::tokens::Bearer;

/// How often it is asked whether each credential still stands.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// How often it is asked whether a person still belongs to the team.
const MEMBERS_EVERY: i64 = 2_000_000;
/// A server that stood still for longer cannot know what was revoked meanwhile.
const STOOD_STILL_MAX: Duration = Duration::from_mins(10);
/// How long a connection may take to end in order before it is cut.
const END_TIME_MAX: Duration = Duration::from_millis(500);
/// How long calls that are under way may take to end when the server stops.
const DRAIN_CALLS_MAX: Duration = Duration::from_secs(33);
/// Over how long connections are ended when the server stops: the least, the most, and how much for each.
const DRAIN_LEAST: Duration = Duration::from_secs(1);
const DRAIN_MOST: Duration = Duration::from_secs(10);
const DRAIN_EACH: Duration = Duration::from_millis(2);

/// Connections whose holder is not known yet.
const UNNAMED_MAX: usize = 1024;

/// Why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The credential was revoked, or the person left the team.
    Revoked,
    /// The API token has come to its end.
    Expired,
    /// It has lasted as long as it may.
    Old,
    /// The server is stopping, or has stood still for long.
    Drain,
}

impl End {
    /// The same as a refusal; nothing for an end after which the client just comes back.
    pub(crate) fn problem(self) -> Option<Problem> {
        match self {
            Self::Revoked | Self::Expired => Some(refused()),
            Self::Old | Self::Drain => None,
        }
    }
}

/// Every connection that stays on this server.
pub struct Lines {
    identity: Arc<Identity>,
    /// The log and the places.
    pub(crate) events: Arc<Events>,
    /// The MQTT clients among them, by name.
    pub(crate) clients: Clients,
    open: DashMap<u64, Arc<State>>,
    names: AtomicU64,
    count: watch::Sender<u64>,
    unnamed: Arc<Semaphore>,
    /// When it was last asked whether the credentials stand, and the members belong, in microseconds.
    swept: AtomicI64,
    members: AtomicI64,
}

struct State {
    bearer: Bearer,
    account: AccountId,
    end: OnceLock<End>,
    wake: Notify,
    /// Has it ended by itself?
    over: AtomicBool,
    /// The connection beneath, where that does not look at `end` while its peer takes nothing.
    connection: Option<Connection>,
}

/// A connection that stays. It has its place until it is dropped.
pub(crate) struct Line {
    lines: Arc<Lines>,
    name: u64,
    state: Arc<State>,
    ends: Sleep,
    ends_why: End,
    _place: Slot,
}

impl Lines {
    /// No connections yet.
    pub fn new(identity: Arc<Identity>, events: Arc<Events>) -> Arc<Self> {
        Arc::new(Self {
            identity,
            events,
            clients: Clients::default(),
            open: DashMap::new(),
            names: AtomicU64::new(0),
            count: watch::Sender::new(0),
            unnamed: Arc::new(Semaphore::new(UNNAMED_MAX)),
            swept: AtomicI64::new(0),
            members: AtomicI64::new(0),
        })
    }

    /// Takes a place for a connection of `bearer` to `account`, or refuses with 429.
    pub(crate) async fn open(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        bearer: &Bearer,
        account: AccountId,
        connection: Option<Connection>,
    ) -> Result<Line, Problem> {
        let place = self.events.slots.take(engine, account, &bearer.caller().subject).await?;
        let now = engine.clock.now();
        let credential_left = bearer.ends().map(|end| end.since(now)).filter(|left| *left < STREAM_LIFE_MAX);
        let (left, ends_why) =
            credential_left.map_or((STREAM_LIFE_MAX, End::Old), |left| (left, End::Expired));
        let (end, wake) = (OnceLock::new(), Notify::new());
        let over = AtomicBool::new(false);
        let state = Arc::new(State { bearer: bearer.clone(), account, end, wake, over, connection });
        let name = self.names.fetch_add(1, Ordering::Relaxed);
        self.open.insert(name, state.clone());
        self.count.send_modify(|count| *count += 1);
        Ok(Line { lines: self.clone(), name, state, ends: engine.clock.sleep(left), ends_why, _place: place })
    }

    /// A place for a connection whose holder is not known yet. There are not many, and none has one for long.
    pub(crate) fn unnamed(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = |_| Problem::unavailable("Too many connections wait to say who they are.", seconds(1));
        self.unnamed.clone().try_acquire_owned().map_err(busy)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Ends every connection, a few at a time, so that those who come back do not come at once; returns when all are
    /// closed, or soon after.
    pub async fn drain(&self, engine: &Engine) {
        tokio::select! {
            () = self.events.slots.save_changes(engine) => {}
            () = self.end_all() => {}
        }
        if let Err(error) = self.events.slots.leave(engine).await {
            tracing::warn!(%error, "Other servers could not be told that this one has no streams any more");
        }
    }

    async fn end_all(&self) {
        let all: Vec<_> = self.open.iter().map(|entry| entry.value().clone()).collect();
        let number = u32::try_from(all.len()).unwrap_or(u32::MAX).max(1);
        let span = (DRAIN_EACH * number).clamp(DRAIN_LEAST, DRAIN_MOST);
        for state in all {
            state.end(End::Drain);
            wait(span / number).await;
        }
        // Those that came in while this went on.
        self.open.iter().for_each(|entry| entry.value().end(End::Drain));
        let mut count = self.count.subscribe();
        let closed = count.wait_for(|count| *count == 0);
        if tokio::time::timeout(DRAIN_CALLS_MAX, closed).await.is_err() {
            tracing::warn!("Some streams did not end in time and were cut off");
        }
    }

    /// Ends the connections whose credentials do not stand any more.
    async fn sweep(&self, engine: &Arc<Engine>) {
        let now = engine.clock.now();
        let before = self.swept.swap(now.as_micros(), Ordering::Relaxed);
        let stood_still = before != 0 && now.since(Timestamp::from_micros(before)) > STOOD_STILL_MAX;
        let due = now.as_micros() - self.members.load(Ordering::Relaxed) >= MEMBERS_EVERY;
        if due {
            self.members.store(now.as_micros(), Ordering::Relaxed);
        }
        let mut persons = Vec::new();
        for entry in &self.open {
            let state = entry.value();
            match self.identity.is_credential_valid(state.bearer.verified(), now) {
                Ok(false) => state.end(End::Revoked),
                Ok(true) if stood_still => state.end(End::Drain),
                Ok(true) if due && state.is_members() => persons.push(state.clone()),
                // While it cannot be known nobody new is admitted, and who is there stays.
                Ok(true) | Err(_) => {}
            }
        }
        for state in persons {
            if !state.belongs(engine).await {
                state.end(End::Revoked);
            }
        }
    }
}

impl Service for Lines {
    fn run(&self, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while !*stop.borrow() {
                self.sweep(&engine).await;
                tokio::select! {
                    () = wait(SWEEP_EVERY) => {}
                    _ = stop.changed() => {}
                }
            }
        })
    }
}

impl State {
    fn end(self: &Arc<Self>, why: End) {
        if self.end.set(why).is_err() {
            return;
        }
        // Kept for whoever does not wait yet.
        self.wake.notify_one();
        if let Some(connection) = self.connection.clone() {
            let state = self.clone();
            tokio::spawn(async move {
                wait(END_TIME_MAX).await;
                // One that has ended in order may carry other requests by now.
                if !state.over.load(Ordering::Relaxed) {
                    connection.cut();
                }
            });
        }
    }

    /// Is it a person's, who may leave the team?
    fn is_members(&self) -> bool {
        let caller = self.bearer.caller();
        caller.key.is_none() && (caller.role.is_some() || caller.org != Some(self.account))
    }

    async fn belongs(&self, engine: &Arc<Engine>) -> bool {
        const ANY: Spec = Spec::get("events", "/");
        let account = Node::Texts(vec![self.account.to_string()]);
        let path = Fields::from([(ACCOUNT_VARIABLE.to_owned(), account)]);
        let admitted = engine.admit(&ANY, EntryPoint::Api, self.bearer.caller().clone(), &path).await;
        !admitted.is_err_and(|problem| problem.code() == Code::Forbidden)
    }
}

impl Line {
    /// Who holds it.
    pub(crate) fn bearer(&self) -> &Bearer {
        &self.state.bearer
    }

    /// The account whose events it carries.
    pub(crate) fn account(&self) -> AccountId {
        self.state.account
    }

    /// Waits until it is to be ended, and says why. Asked again afterwards, it says the same.
    pub(crate) async fn ended(&mut self) -> End {
        loop {
            if let Some(end) = self.state.end.get() {
                return *end;
            }
            tokio::select! {
                () = self.state.wake.notified() => {}
                () = self.ends.as_mut() => {
                    let _ = self.state.end.set(self.ends_why);
                }
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        self.lines.open.remove(&self.name);
        self.lines.count.send_modify(|count| *count -= 1);
    }
}

/// 503 for a stream whose log cannot be read.
pub(crate) fn log_unreadable(error: &portico_store::StoreError) -> Problem {
    tracing::warn!(%error, "A stream ended because the log of events cannot be read");
    Problem::unavailable("The events cannot be read right now.", seconds(1))
}
