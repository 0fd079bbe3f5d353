//! How many streams a credential and an account have open, over all kinds and all servers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portico_engine::Engine;
use portico_engine::clock::Stopwatch;
use portico_kernel::{AccountId, Code, Problem, RequestId, Timestamp, seconds};
use portico_store::StoreError;
use tokio::sync::{Notify, OnceCell, watch};

use crate::limits::{NODE_EVERY, NODE_LIFE, RETRY_WAIT, STREAMS_PER_ACCOUNT, STREAMS_PER_CREDENTIAL};
use crate::pause;
use crate::sql::{self, StreamCounts};

/// Gives slots to streams, up to the limits of a credential and an account. On SQLite there is no other server, and the
/// counts in memory are enough. On PostgreSQL each server stores its own counts, as totals and never as differences: so
/// a write that failed, or was made twice, is corrected by the next one, and the counts of a server that was killed
/// expire.
pub struct Slots {
    shared: bool,
    /// This server's id among the others, generated when it is first needed.
    node: OnceCell<String>,
    /// The open streams on this server, by account and credential.
    open: Mutex<HashMap<AccountId, HashMap<Arc<str>, u32>>>,
    /// The accounts and credentials whose count in the database may be out of date.
    unsaved: Mutex<BTreeSet<(AccountId, Arc<str>)>>,
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
    keys: BTreeSet<(AccountId, Arc<str>)>,
}

impl Drop for UnsavedCounts<'_> {
    fn drop(&mut self) {
        lock(&self.slots.unsaved).append(&mut self.keys);
    }
}

/// The slot of an open stream, until it is dropped.
pub struct Slot {
    slots: Arc<Slots>,
    account: AccountId,
    credential: Arc<str>,
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
    if counts.of_credential > i64::from(STREAMS_PER_CREDENTIAL) {
        return Err(too_many("credential", STREAMS_PER_CREDENTIAL));
    }
    if counts.of_account > i64::from(STREAMS_PER_ACCOUNT) {
        return Err(too_many("account", STREAMS_PER_ACCOUNT));
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

    /// Takes a slot for a stream of that credential, or refuses with 429.
    pub async fn take(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        account: AccountId,
        credential: &str,
    ) -> Result<Slot, Problem> {
        if !self.shared {
            return self.take_locally(&StreamCounts::default(), account, credential);
        }
        // What is over the limit on this server alone needs no look at the others.
        check(&self.count_here(account, credential).plus_one())?;
        let (slots, engine, credential) = (self.clone(), engine.clone(), credential.to_owned());
        // In a task of its own, so that it finishes although the caller disconnects.
        let taking = tokio::spawn(async move { slots.take_shared(&engine, account, &credential).await });
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
    fn take_locally(
        self: &Arc<Self>,
        others: &StreamCounts,
        account: AccountId,
        credential: &str,
    ) -> Result<Slot, Problem> {
        let mut open = lock(&self.open);
        let here =
            open.get(&account).map_or_else(StreamCounts::default, |of_account| count(of_account, credential));
        check(
            &StreamCounts {
                of_account: others.of_account + here.of_account,
                of_credential: others.of_credential + here.of_credential,
            }
            .plus_one(),
        )?;
        let of_account = open.entry(account).or_default();
        let known = of_account.get_key_value(credential).map(|(known, _)| known.clone());
        let credential = known.unwrap_or_else(|| credential.into());
        *of_account.entry(credential.clone()).or_default() += 1;
        Ok(Slot { slots: self.clone(), account, credential })
    }

    /// Takes a slot within the limits over all servers, and saves this server's count. The account is locked meanwhile.
    /// Should it fail, the slot is dropped, and the count saved again.
    async fn take_shared(
        self: &Arc<Self>,
        engine: &Engine,
        account: AccountId,
        credential: &str,
    ) -> Result<Slot, Problem> {
        let node = self.node(engine).await?;
        let mut tx = engine.db.write().await?;
        let now = engine.clock.now();
        let alive_after = self.alive_after(now);
        let others = sql::count_elsewhere(&mut tx, account, credential, node, now, alive_after).await?;
        let slot = self.take_locally(&others, account, credential)?;
        let here = self.count_here(account, credential);
        sql::set_count(&mut tx, account, credential, node, here.of_credential).await?;
        tx.commit().await?;
        Ok(slot)
    }

    fn count_here(&self, account: AccountId, credential: &str) -> StreamCounts {
        lock(&self.open)
            .get(&account)
            .map_or_else(StreamCounts::default, |of_account| count(of_account, credential))
    }

    fn give_back(&self, account: AccountId, credential: &Arc<str>) {
        let mut open = lock(&self.open);
        if let Some(of_account) = open.get_mut(&account) {
            if let Some(count) = of_account.get_mut(credential) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    of_account.remove(credential);
                }
            }
            if of_account.is_empty() {
                open.remove(&account);
            }
        }
        drop(open);
        if self.shared {
            lock(&self.unsaved).insert((account, credential.clone()));
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
        let mut unsaved = UnsavedCounts { slots: self, keys: std::mem::take(&mut *lock(&self.unsaved)) };
        if unsaved.keys.is_empty() {
            return Ok(());
        }
        let node = self.node(engine).await?;
        let mut tx = engine.db.write().await?;
        // In the order of the set, so that two never wait for each other.
        for (account, credential) in &unsaved.keys {
            sql::lock_account(&mut tx, *account, engine.clock.now()).await?;
            let here = self.count_here(*account, credential);
            sql::set_count(&mut tx, *account, credential, node, here.of_credential).await?;
        }
        tx.commit().await?;
        unsaved.keys.clear();
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
            let open = lock(&self.open);
            let all = open
                .iter()
                .flat_map(|(account, of)| of.keys().map(|credential| (*account, credential.clone())));
            lock(&self.unsaved).extend(all);
            drop(open);
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

fn count(of_account: &HashMap<Arc<str>, u32>, credential: &str) -> StreamCounts {
    StreamCounts {
        of_account: of_account.values().copied().map(i64::from).sum(),
        of_credential: of_account.get(credential).copied().unwrap_or(0).into(),
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.give_back(self.account, &self.credential);
    }
}
