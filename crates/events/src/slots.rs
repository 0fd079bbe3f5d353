//! How many streams a credential, an account and a person have open, over all kinds and all servers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portico_engine::Engine;
use portico_engine::clock::Stopwatch;
use portico_kernel::{Code, Problem, RequestId, Timestamp, seconds};
use portico_store::StoreError;
use tokio::sync::{Notify, OnceCell, watch};

use crate::limits::{
    NODE_EVERY, NODE_LIFE, RETRY_WAIT, STREAMS_PER_ACCOUNT, STREAMS_PER_CREDENTIAL, STREAMS_PER_PERSON,
};
use crate::open_streams::{OpenStreams, StreamHolder};
use crate::pause;
use crate::sql::{self, StreamCounts};

/// Gives slots to streams, up to the limits of a credential, an account and a person. On SQLite there is no other server, and the
/// counts in memory are enough. On PostgreSQL each server stores its own counts, as totals and never as differences: so
/// a write that failed, or was made twice, is corrected by the next one, and the counts of a server that was killed
/// expire.
pub struct Slots {
    shared: bool,
    /// This server's id among the others, generated when it is first needed.
    node: OnceCell<String>,
    open: Mutex<OpenStreams>,
    /// Those whose count in the database may be out of date.
    unsaved: Mutex<BTreeSet<StreamHolder>>,
    wake: Notify,
    heartbeat: Mutex<Heartbeat>,
}

/// When this server last renewed its heartbeat, and when it could do so again after a longer failure.
#[derive(Default)]
struct Heartbeat {
    renewed_at: Option<Stopwatch>,
    recovered_at: Option<Stopwatch>,
}

/// The counts that are being saved; those that were not saved are marked again when this is dropped.
struct UnsavedCounts<'a> {
    slots: &'a Slots,
    holders: BTreeSet<StreamHolder>,
}

impl Drop for UnsavedCounts<'_> {
    fn drop(&mut self) {
        lock(&self.slots.unsaved).append(&mut self.holders);
    }
}

/// The slot of an open stream, until it is dropped.
pub struct Slot {
    slots: Arc<Slots>,
    holder: StreamHolder,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 429: the limit of streams is reached.
fn too_many(of: &'static str, limit: u32) -> Problem {
    let message =
        format!("This {of} already has {limit} streams, sockets and MQTT connections open, the maximum.");
    let metadata = [("limit", limit.to_string()), ("of", of.to_owned())];
    Problem::new(Code::RateLimited, message)
        .with_info("STREAM_LIMIT", "events", metadata)
        .retry_after(seconds(5))
}

/// Refuses when the counts are above a limit.
fn check(counts: &StreamCounts) -> Result<(), Problem> {
    if counts.credential > i64::from(STREAMS_PER_CREDENTIAL) {
        return Err(too_many("credential", STREAMS_PER_CREDENTIAL));
    }
    if counts.account > i64::from(STREAMS_PER_ACCOUNT) {
        return Err(too_many("account", STREAMS_PER_ACCOUNT));
    }
    if counts.person > i64::from(STREAMS_PER_PERSON) {
        return Err(too_many("person", STREAMS_PER_PERSON));
    }
    Ok(())
}

impl Slots {
    /// Slots of which none is taken; `shared` says that other servers may use the same database.
    pub fn new(shared: bool) -> Self {
        let (open, unsaved) = (Mutex::default(), Mutex::default());
        let (wake, heartbeat) = (Notify::new(), Mutex::default());
        Self { shared, node: OnceCell::new(), open, unsaved, wake, heartbeat }
    }

    /// Takes a slot for a stream of that holder, or refuses with 429.
    pub async fn take(self: &Arc<Self>, engine: &Arc<Engine>, holder: StreamHolder) -> Result<Slot, Problem> {
        if !self.shared {
            return self.take_locally(&StreamCounts::default(), holder);
        }
        // What is over the limit on this server alone needs no look at the others.
        check(&lock(&self.open).counts(&holder).plus(&StreamCounts::ONE))?;
        let (slots, engine) = (self.clone(), engine.clone());
        // In a task of its own, so that it finishes although the caller disconnects.
        let taking = tokio::spawn(async move { slots.take_shared(&engine, holder).await });
        taking.await.map_err(Problem::internal)?
    }

    /// The time after which a server's heartbeat must expire for the server to count as alive. When this server could not
    /// renew its own for a while, the others may not have been able to either: then all known servers count, until they
    /// have had time to.
    fn alive_after(&self, now: Timestamp) -> Timestamp {
        let heartbeat = lock(&self.heartbeat);
        let renewed = heartbeat.renewed_at.is_none_or(|renewed_at| renewed_at.elapsed() < NODE_EVERY * 2);
        let long_enough =
            heartbeat.recovered_at.is_none_or(|recovered_at| recovered_at.elapsed() > NODE_EVERY * 2);
        if renewed && long_enough { now } else { Timestamp::from_seconds(0) }
    }

    /// Notes that this server renewed its heartbeat.
    fn note_renewed(&self) {
        let mut heartbeat = lock(&self.heartbeat);
        if heartbeat.renewed_at.is_some_and(|renewed_at| renewed_at.elapsed() > NODE_EVERY * 2) {
            heartbeat.recovered_at = Some(Stopwatch::start());
        }
        heartbeat.renewed_at = Some(Stopwatch::start());
    }

    /// Takes a slot, if that is within the limits together with the counts of the other servers.
    fn take_locally(self: &Arc<Self>, others: &StreamCounts, holder: StreamHolder) -> Result<Slot, Problem> {
        let mut open = lock(&self.open);
        check(&open.counts(&holder).plus(others).plus(&StreamCounts::ONE))?;
        open.add(holder.clone());
        Ok(Slot { slots: self.clone(), holder })
    }

    /// Takes a slot within the limits over all servers, and saves this server's count. The account and the person are
    /// locked meanwhile. Should it fail, the slot is dropped, and the count saved again.
    async fn take_shared(self: &Arc<Self>, engine: &Engine, holder: StreamHolder) -> Result<Slot, Problem> {
        let node = self.node(engine).await?;
        let mut tx = engine.db.write().await?;
        let now = engine.clock.now();
        let alive_after = self.alive_after(now);
        let others = sql::count_elsewhere(&mut tx, &holder, node, now, alive_after).await?;
        let slot = self.take_locally(&others, holder)?;
        let held = lock(&self.open).held(&slot.holder);
        sql::set_count(&mut tx, &slot.holder, node, held).await?;
        tx.commit().await?;
        Ok(slot)
    }

    fn give_back(&self, holder: &StreamHolder) {
        lock(&self.open).remove(holder);
        if self.shared {
            lock(&self.unsaved).insert(holder.clone());
            self.wake.notify_one();
        }
    }

    async fn node(&self, engine: &Engine) -> Result<&String, StoreError> {
        self.node
            .get_or_try_init(|| async {
                let id: RequestId = engine.entropy.id(engine.clock.now());
                let node = id.to_string();
                let mut tx = engine.db.write().await?;
                sql::renew_node(&mut tx, &node, engine.clock.now() + NODE_LIFE).await?;
                tx.commit().await?;
                Ok(node)
            })
            .await
    }

    /// Saves the counts that have changed. If it is cancelled, they are saved the next time.
    async fn save_counts(&self, engine: &Engine) -> Result<(), StoreError> {
        // Taken before the counts are read: what changes from now on is marked again.
        let mut unsaved = UnsavedCounts { slots: self, holders: std::mem::take(&mut *lock(&self.unsaved)) };
        if unsaved.holders.is_empty() {
            return Ok(());
        }
        let node = self.node(engine).await?;
        let mut tx = engine.db.write().await?;
        // In the order of the set, so that two never wait for each other.
        for holder in &unsaved.holders {
            sql::lock_account(&mut tx, holder.account, engine.clock.now()).await?;
            let held = lock(&self.open).held(holder);
            sql::set_count(&mut tx, holder, node, held).await?;
        }
        tx.commit().await?;
        unsaved.holders.clear();
        Ok(())
    }

    /// Renews the heartbeat and saves changed counts, until `stop`.
    pub(crate) async fn run(&self, engine: &Arc<Engine>, mut stop: watch::Receiver<bool>) {
        if !self.shared {
            return;
        }
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await.map(drop);
        };
        let heartbeats = async {
            loop {
                if let Err(error) = self.renew_node(engine).await {
                    tracing::debug!(%error, "Failed to renew the heartbeat of this server");
                }
                pause(NODE_EVERY).await;
            }
        };
        tokio::select! {
            () = stopped => {}
            () = heartbeats => {}
            () = self.save_changes(engine) => {}
        }
    }

    /// Saves counts whenever they change; never returns.
    pub async fn save_changes(&self, engine: &Engine) {
        loop {
            self.wake.notified().await;
            while self.save_counts(engine).await.is_err() {
                pause(RETRY_WAIT).await;
            }
        }
    }

    /// Renews this server's heartbeat, and removes servers that expired long ago. Should this one have been removed, because
    /// it could not reach the database for long, it saves all its counts again.
    async fn renew_node(&self, engine: &Engine) -> Result<(), StoreError> {
        let (node, now) = (self.node(engine).await?, engine.clock.now());
        let mut tx = engine.db.write().await?;
        let known = sql::renew_node(&mut tx, node, now + NODE_LIFE).await?;
        if self.alive_after(now) == now {
            sql::remove_nodes(&mut tx, now - NODE_LIFE).await?;
        }
        tx.commit().await?;
        self.note_renewed();
        if !known {
            let all: Vec<_> = lock(&self.open).holders().cloned().collect();
            lock(&self.unsaved).extend(all);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Removes this server and its counts, so that clients that reconnect to another server find their slots free.
    pub async fn leave(&self, engine: &Engine) -> Result<(), StoreError> {
        let Some(node) = self.node.get() else { return Ok(()) };
        let mut tx = engine.db.write().await?;
        sql::remove_node(&mut tx, node).await?;
        tx.commit().await
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.give_back(&self.holder);
    }
}
