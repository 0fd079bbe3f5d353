//! Connections that stay: who holds them, and what ends them.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use futures_util::future::BoxFuture;
use portico_engine::input::{Fields, Node};
use portico_engine::{ACCOUNT_VARIABLE, Engine, EntryPoint, Service, Spec};
use portico_events::limits::STREAM_LIFE_MAX;
use portico_events::{Events, Slot, StreamHolder};
use portico_identity::Identity;
use portico_identity::verify::{CredentialHolder, refused};
use portico_kernel::{AccountId, Code, Problem, Sleep, Timestamp, seconds};
use tokio::sync::{Notify, watch};

use crate::client_ids::ClientIds;
use crate::connection_limits::ConnectionLimits;
use crate::credential::Credential;
use crate::on_wake::OnWake;
use crate::tls::Certificates;
use crate::transport::{Refusals, Transport, wait};
use crate::turns::CallTurns;
use crate::unread::UnreadAnswers;

/// How often it is asked whether each credential is still valid.
const SWEEP_EVERY: Duration = Duration::from_millis(500);
/// After so many of these it is looked whether the files of certificates have changed.
const SWEEPS_PER_LOOK: u32 = 4;
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

/// Why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The credential was revoked, or the person left the team.
    Revoked,
    /// The key, the API token or the app's permission has come to its end.
    Expired,
    /// It has lasted as long as it may.
    Old,
    /// The server is stopping, or has stood still for long.
    Drain,
}

impl EndReason {
    /// The same as a refusal; `None` for an end after which the client just comes back.
    pub(crate) fn problem(self) -> Option<Problem> {
        match self {
            Self::Revoked | Self::Expired => Some(refused()),
            Self::Old | Self::Drain => None,
        }
    }
}

/// Every connection that stays on this server.
pub struct Connections {
    identity: Arc<Identity>,
    /// The log and the slots.
    pub(crate) events: Arc<Events>,
    /// The MQTT clients among them, by name.
    pub(crate) client_ids: ClientIds,
    open: DashMap<u64, Arc<ConnectionState>>,
    next_id: AtomicU64,
    count: watch::Sender<u64>,
    /// How many there may be, of these and of all others.
    pub limits: Arc<ConnectionLimits>,
    /// What the listeners with TLS show.
    pub certificates: Arc<Certificates>,
    /// The turns of tenants.
    pub(crate) turns: CallTurns,
    /// What of their answers is not read.
    pub(crate) unread: Arc<UnreadAnswers>,
    /// When credentials, and memberships, were last checked, in microseconds.
    swept: AtomicI64,
    members: AtomicI64,
}

struct ConnectionState {
    credential: Credential,
    account: AccountId,
    opened_at: Timestamp,
    end: OnceLock<EndReason>,
    wake: Notify,
    /// Has it ended by itself?
    over: AtomicBool,
    /// The connection beneath, where that does not look at `end` while its peer takes nothing.
    transport: Option<Transport>,
}

/// A connection that stays. It has its slot until it is dropped.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    id: u64,
    state: Arc<ConnectionState>,
    /// Resolves when it is to be ended.
    end: OnWake<Pin<Box<dyn Future<Output = EndReason> + Send>>>,
    /// Of what came over it.
    pub(crate) refusals: Refusals,
    _slot: Slot,
}

impl Connections {
    /// No connections yet. With a database that `is_remote` calls mostly wait for it, so more of them run at once.
    pub fn new(
        identity: Arc<Identity>,
        events: Arc<Events>,
        limits: Arc<ConnectionLimits>,
        is_remote: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            identity,
            events,
            client_ids: ClientIds::default(),
            open: DashMap::new(),
            next_id: AtomicU64::new(0),
            count: watch::Sender::new(0),
            limits,
            certificates: Arc::default(),
            unread: Arc::default(),
            turns: CallTurns::of_machine(is_remote),
            swept: AtomicI64::new(0),
            members: AtomicI64::new(0),
        })
    }

    /// Takes a slot for a connection of `credential` to `account`, or refuses with 429.
    pub(crate) async fn open(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        credential: &Credential,
        account: AccountId,
        transport: Option<Transport>,
    ) -> Result<Connection, Problem> {
        let CredentialHolder { person, ends_at } =
            self.identity.holder(engine, credential.verified()).await?;
        let holder =
            StreamHolder { account, credential: credential.caller().subject.as_str().into(), person };
        let slot = self.events.slots.take(engine, holder).await?;
        let now = engine.clock.now();
        let credential_left = ends_at.map(|end| end.since(now)).filter(|left| *left < STREAM_LIFE_MAX);
        let (left, ends_why) =
            credential_left.map_or((STREAM_LIFE_MAX, EndReason::Old), |left| (left, EndReason::Expired));
        let (end, wake) = (OnceLock::new(), Notify::new());
        let over = AtomicBool::new(false);
        let (credential, opened_at) = (credential.clone(), now);
        let state = Arc::new(ConnectionState { credential, account, opened_at, end, wake, over, transport });
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.open.insert(id, state.clone());
        self.count.send_modify(|count| *count += 1);
        let end = state.clone().until_end(engine.clock.sleep(left), ends_why);
        Ok(Connection {
            connections: self.clone(),
            id,
            state,
            end: OnWake::new(Box::pin(end)),
            refusals: Refusals::default(),
            _slot: slot,
        })
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
            tracing::warn!(%error, "Failed to release the stream slots of this server");
        }
    }

    async fn end_all(&self) {
        let all: Vec<_> = self.open.iter().map(|entry| entry.value().clone()).collect();
        let number = u32::try_from(all.len()).unwrap_or(u32::MAX).max(1);
        let span = (DRAIN_EACH * number).clamp(DRAIN_LEAST, DRAIN_MOST);
        for state in all {
            state.end(EndReason::Drain);
            wait(span / number).await;
        }
        // Those that came in while this went on.
        self.open.iter().for_each(|entry| entry.value().end(EndReason::Drain));
        let mut count = self.count.subscribe();
        let closed = count.wait_for(|count| *count == 0);
        if tokio::time::timeout(DRAIN_CALLS_MAX, closed).await.is_err() {
            tracing::warn!("Some streams did not end in time and were cut off");
        }
    }

    /// Ends the connections whose credentials are no longer valid.
    async fn sweep(&self, engine: &Arc<Engine>) {
        let now = engine.clock.now();
        let before = Timestamp::from_micros(self.swept.swap(now.as_micros(), Ordering::Relaxed));
        let stood_still = now.since(before) > STOOD_STILL_MAX;
        let due = now.as_micros() - self.members.load(Ordering::Relaxed) >= MEMBERS_EVERY;
        if due {
            self.members.store(now.as_micros(), Ordering::Relaxed);
        }
        let mut persons = Vec::new();
        for entry in &self.open {
            let state = entry.value();
            match self.identity.is_credential_valid(state.credential.verified(), now) {
                Ok(false) => state.end(EndReason::Revoked),
                Ok(true) if stood_still && state.opened_at <= before => state.end(EndReason::Drain),
                Ok(true) if due && state.may_leave() => persons.push(state.clone()),
                // While it cannot be known nobody new is admitted, and who is there stays.
                Ok(true) | Err(_) => {}
            }
        }
        for state in persons {
            if !state.is_member(engine).await {
                state.end(EndReason::Revoked);
            }
        }
    }
}

impl Service for Connections {
    fn run(&self, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut sweeps = 0_u32;
            while !*stop.borrow() {
                self.sweep(&engine).await;
                if sweeps.is_multiple_of(SWEEPS_PER_LOOK) && !self.certificates.is_empty() {
                    // In a thread of its own, because the files may be far away.
                    let certificates = self.certificates.clone();
                    let _ = tokio::task::spawn_blocking(move || certificates.look()).await;
                }
                sweeps = sweeps.wrapping_add(1);
                tokio::select! {
                    () = wait(SWEEP_EVERY) => {}
                    _ = stop.changed() => {}
                }
            }
        })
    }
}

impl ConnectionState {
    fn end(self: &Arc<Self>, why: EndReason) {
        if self.end.set(why).is_err() {
            return;
        }
        // Kept for whoever does not wait yet.
        self.wake.notify_one();
        if let Some(transport) = self.transport.clone() {
            let state = self.clone();
            tokio::spawn(async move {
                wait(END_TIME_MAX).await;
                // One that has ended in order may carry other requests by now.
                if !state.over.load(Ordering::Relaxed) {
                    transport.cut.notify_one();
                }
            });
        }
    }

    /// Waits until it is to be ended, at the latest when `ends` resolves, and says why.
    async fn until_end(self: Arc<Self>, mut ends: Sleep, ends_why: EndReason) -> EndReason {
        loop {
            if let Some(end) = self.end.get() {
                return *end;
            }
            tokio::select! {
                () = self.wake.notified() => {}
                () = ends.as_mut() => {
                    let _ = self.end.set(ends_why);
                }
            }
        }
    }

    /// Is it a person's, who may leave the team?
    fn may_leave(&self) -> bool {
        let caller = self.credential.caller();
        caller.key.is_none() && (caller.role.is_some() || caller.org != Some(self.account))
    }

    async fn is_member(&self, engine: &Arc<Engine>) -> bool {
        const ANY: Spec = Spec::get("events", "/");
        let account = Node::Texts(vec![self.account.to_string()]);
        let path = Fields::from([(ACCOUNT_VARIABLE.to_owned(), account)]);
        let admitted = engine.admit(&ANY, EntryPoint::Api, self.credential.caller().clone(), &path).await;
        !admitted.is_err_and(|problem| problem.code() == Code::Forbidden)
    }
}

impl Connection {
    /// Who holds it.
    pub(crate) fn credential(&self) -> &Credential {
        &self.state.credential
    }

    /// The account whose events it carries.
    pub(crate) fn account(&self) -> AccountId {
        self.state.account
    }

    /// Waits until it is to be ended, and says why. Asked again afterwards, it says the same.
    pub(crate) async fn ended(&mut self) -> EndReason {
        match self.state.end.get() {
            Some(end) => *end,
            None => (&mut self.end).await,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        self.connections.open.remove(&self.id);
        self.connections.count.send_modify(|count| *count -= 1);
    }
}

/// 503 for a stream whose log cannot be read.
pub(crate) fn log_unreadable(error: &portico_store::StoreError) -> Problem {
    tracing::warn!(%error, "Failed to read the event log; a stream ends");
    Problem::unavailable("The events cannot be read right now.", seconds(1))
}
