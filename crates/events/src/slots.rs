//! How many streams a credential and an account have open, over all kinds and all servers.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portico_engine::Engine;
use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::{AccountId, Clock, Code, Problem, RequestId, Timestamp, seconds};
use portico_store::StoreError;
use tokio::sync::{Notify, OnceCell, watch};

use crate::limits::{NODE_EVERY, NODE_LIFE, RETRY_WAIT, STREAMS_PER_ACCOUNT, STREAMS_PER_CREDENTIAL};
use crate::sql::{self, Held};

/// Gives places to streams. On SQLite this server is the only one and its own count is the truth. Beside others each
/// server writes its own count down, as it is and never as a difference: so what could not be written, or was written
/// twice, is right again with the next time, and a server that is killed is soon forgotten with all it held.
pub struct Slots {
    shared: bool,
    /// This server's name among the others, made when it is first needed.
    node: OnceCell<String>,
    held: Mutex<HashMap<AccountId, HashMap<Arc<str>, u32>>>,
    /// Whose count the database may not have as it is.
    changed: Mutex<BTreeSet<(AccountId, Arc<str>)>>,
    wake: Notify,
    /// When this server last said that it is there, and until when the others may not have been able to.
    sure: Mutex<Sure>,
}

#[derive(Default)]
struct Sure {
    kept_at: Option<Stopwatch>,
    again_at: Option<Stopwatch>,
}

/// What is being written down; what was not goes back.
struct Changed<'a> {
    places: &'a Slots,
    keys: BTreeSet<(AccountId, Arc<str>)>,
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        lock(&self.places.changed).append(&mut self.keys);
    }
}

/// A place that a stream has, until it is dropped.
pub struct Slot {
    places: Arc<Slots>,
    account: AccountId,
    credential: Arc<str>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 429: there are as many streams as there may be.
fn too_many(of: &'static str, limit: u32) -> Problem {
    let words =
        format!("There are {limit} streams, sockets and MQTT connections open for this {of} already.");
    let metadata = [("limit", limit.to_string()), ("of", of.to_owned())];
    Problem::new(Code::RateLimited, words)
        .with_info("STREAM_LIMIT", "events", metadata)
        .retry_after(seconds(5))
}

/// Refuses when there would be more than there may be.
fn check(held: &Held) -> Result<(), Problem> {
    if held.of_credential > i64::from(STREAMS_PER_CREDENTIAL) {
        return Err(too_many("credential", STREAMS_PER_CREDENTIAL));
    }
    if held.of_account > i64::from(STREAMS_PER_ACCOUNT) {
        return Err(too_many("account", STREAMS_PER_ACCOUNT));
    }
    Ok(())
}

impl Slots {
    /// Slots of which none is taken; `shared` says that other servers may use the same database.
    pub fn new(shared: bool) -> Self {
        let (held, changed) = (Mutex::default(), Mutex::default());
        let (wake, sure) = (Notify::new(), Mutex::default());
        Self { shared, node: OnceCell::new(), held, changed, wake, sure }
    }

    /// Takes a place for a stream of that credential, or refuses with 429.
    pub async fn take(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        account: AccountId,
        credential: &str,
    ) -> Result<Slot, Problem> {
        if !self.shared {
            return self.take_beside(&Held::default(), account, credential);
        }
        // What is too much already here need not be asked for everywhere.
        check(&self.held_here(account, credential).and_one())?;
        let (places, engine, credential) = (self.clone(), engine.clone(), credential.to_owned());
        // In a task of its own: what was begun is finished though the caller goes away.
        let taking = tokio::spawn(async move { places.take_everywhere(&engine, account, &credential).await });
        taking.await.map_err(Problem::internal)?
    }

    /// Until when a server must have said that it is there, to count. When this one could not say it for a while, the
    /// others may not have been able to either: then all that are known count, until they had time to.
    fn alive_after(&self, now: Timestamp) -> Timestamp {
        let sure = lock(&self.sure);
        let kept = sure.kept_at.is_none_or(|kept_at| kept_at.elapsed() < NODE_EVERY * 2);
        let long_enough = sure.again_at.is_none_or(|again_at| again_at.elapsed() > NODE_EVERY * 2);
        if kept && long_enough { now } else { Timestamp::from_seconds(0) }
    }

    /// Notes that this server could say that it is there.
    fn note_kept(&self) {
        let mut sure = lock(&self.sure);
        if sure.kept_at.is_some_and(|kept_at| kept_at.elapsed() > NODE_EVERY * 2) {
            sure.again_at = Some(Stopwatch::start());
        }
        sure.kept_at = Some(Stopwatch::start());
    }

    /// Takes a place if that is not too much beside what others hold.
    fn take_beside(
        self: &Arc<Self>,
        others: &Held,
        account: AccountId,
        credential: &str,
    ) -> Result<Slot, Problem> {
        let mut held = lock(&self.held);
        let here = held.get(&account).map_or_else(Held::default, |of_account| count(of_account, credential));
        check(
            &Held {
                of_account: others.of_account + here.of_account,
                of_credential: others.of_credential + here.of_credential,
            }
            .and_one(),
        )?;
        let of_account = held.entry(account).or_default();
        let known = of_account.get_key_value(credential).map(|(known, _)| known.clone());
        let credential = known.unwrap_or_else(|| credential.into());
        *of_account.entry(credential.clone()).or_default() += 1;
        Ok(Slot { places: self.clone(), account, credential })
    }

    /// Takes a place beside what the other servers hold, and writes down what this one does. Nobody else counts in the
    /// account meanwhile. Should it fail, the place is dropped, and the count written down anew.
    async fn take_everywhere(
        self: &Arc<Self>,
        engine: &Engine,
        account: AccountId,
        credential: &str,
    ) -> Result<Slot, Problem> {
        let node = self.node(engine).await?;
        let mut tx = engine.db.write().await?;
        let now = engine.clock.now();
        let alive_after = self.alive_after(now);
        let others = sql::count_held(&mut tx, account, credential, node, (now, alive_after)).await?;
        let place = self.take_beside(&others, account, credential)?;
        let here = self.held_here(account, credential);
        sql::hold(&mut tx, account, credential, node, here.of_credential).await?;
        tx.commit().await?;
        Ok(place)
    }

    fn held_here(&self, account: AccountId, credential: &str) -> Held {
        lock(&self.held).get(&account).map_or_else(Held::default, |of_account| count(of_account, credential))
    }

    fn give_back(&self, account: AccountId, credential: &Arc<str>) {
        let mut held = lock(&self.held);
        if let Some(of_account) = held.get_mut(&account) {
            if let Some(count) = of_account.get_mut(credential) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    of_account.remove(credential);
                }
            }
            if of_account.is_empty() {
                held.remove(&account);
            }
        }
        drop(held);
        if self.shared {
            lock(&self.changed).insert((account, credential.clone()));
            self.wake.notify_one();
        }
    }

    async fn node(&self, engine: &Engine) -> Result<&String, StoreError> {
        self.node
            .get_or_try_init(|| async {
                let id: RequestId = engine.entropy.id(engine.clock.now());
                let node = id.to_string();
                let mut tx = engine.db.write().await?;
                sql::keep_node(&mut tx, &node, engine.clock.now() + NODE_LIFE).await?;
                tx.commit().await?;
                Ok(node)
            })
            .await
    }

    /// Writes down what has changed. Given up half-way, it is written the next time.
    async fn settle(&self, engine: &Engine) -> Result<(), StoreError> {
        // Taken before the counts are read: what changes from now on is noted again.
        let mut changed = Changed { places: self, keys: std::mem::take(&mut *lock(&self.changed)) };
        if changed.keys.is_empty() {
            return Ok(());
        }
        let node = self.node(engine).await?;
        let mut tx = engine.db.write().await?;
        // In the order of the set, so that two never wait for each other.
        for (account, credential) in &changed.keys {
            sql::lock_account(&mut tx, *account, engine.clock.now()).await?;
            let here = self.held_here(*account, credential);
            sql::hold(&mut tx, *account, credential, node, here.of_credential).await?;
        }
        tx.commit().await?;
        changed.keys.clear();
        Ok(())
    }

    /// Keeps the database's count true, until `stop`.
    pub(crate) async fn run(&self, engine: &Arc<Engine>, mut stop: watch::Receiver<bool>) {
        if !self.shared {
            return;
        }
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop).await.map(drop);
        };
        let keeping = async {
            loop {
                if let Err(error) = self.keep_node(engine).await {
                    tracing::debug!(%error, "Other servers could not be told that this one is there");
                }
                SystemClock.sleep(NODE_EVERY).await;
            }
        };
        tokio::select! {
            () = stopped => {}
            () = keeping => {}
            () = self.settling(engine) => {}
        }
    }

    /// Writes down whatever changes, for ever.
    pub async fn settling(&self, engine: &Engine) {
        loop {
            self.wake.notified().await;
            while self.settle(engine).await.is_err() {
                SystemClock.sleep(RETRY_WAIT).await;
            }
        }
    }

    /// Says that this server is there, and forgets those that have long been gone. Should it have been forgotten itself,
    /// because the database or it was away, it writes down anew all that it holds.
    async fn keep_node(&self, engine: &Engine) -> Result<(), StoreError> {
        let (node, now) = (self.node(engine).await?, engine.clock.now());
        let mut tx = engine.db.write().await?;
        let known = sql::keep_node(&mut tx, node, now + NODE_LIFE).await?;
        if self.alive_after(now) == now {
            sql::remove_nodes(&mut tx, now - NODE_LIFE).await?;
        }
        tx.commit().await?;
        self.note_kept();
        if !known {
            let held = lock(&self.held);
            let all = held
                .iter()
                .flat_map(|(account, of)| of.keys().map(|credential| (*account, credential.clone())));
            lock(&self.changed).extend(all);
            drop(held);
            self.wake.notify_one();
        }
        Ok(())
    }

    /// This server holds nothing any more: whoever comes back elsewhere finds its place free.
    pub async fn leave(&self, engine: &Engine) -> Result<(), StoreError> {
        let Some(node) = self.node.get() else { return Ok(()) };
        let mut tx = engine.db.write().await?;
        sql::remove_node(&mut tx, node).await?;
        tx.commit().await
    }
}

fn count(of_account: &HashMap<Arc<str>, u32>, credential: &str) -> Held {
    Held {
        of_account: of_account.values().copied().map(i64::from).sum(),
        of_credential: of_account.get(credential).copied().unwrap_or(0).into(),
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.places.give_back(self.account, &self.credential);
    }
}
