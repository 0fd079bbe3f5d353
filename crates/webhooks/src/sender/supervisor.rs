//! The loop that claims accounts, keeps its claims, and looks for what is due.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portico_engine::Engine;
use portico_engine::clock::Stopwatch;
use portico_kernel::{AccountId, Problem, Timestamp, hex};
use portico_store::StoreError;
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};

use super::courier::Courier;
use super::mailbox::{Mailbox, Order};
use super::results::{self, Finished};
use super::{Sender, lock};
use crate::{Webhooks, limits, sql};

/// However long a look takes, the next comes after so long.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Is it time for what is done every so often? Also when the clock was set back.
fn is_time(at: Timestamp, now: Timestamp, every: Duration) -> bool {
    at <= now || at.since(now) > 2 * every
}

/// What the loop holds.
struct Run {
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    /// This server's name for its claims; another one with every start.
    claim: String,
    couriers: JoinSet<()>,
    accounts: HashMap<Id, AccountId>,
    results: mpsc::UnboundedSender<Finished>,
    look_at: Timestamp,
    look_rest: Duration,
    heartbeat_at: Timestamp,
}

/// Sends until `stop` turns true; then finishes what is under way, or leaves it to the next server.
pub(super) async fn run(webhooks: Arc<Webhooks>, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let claim = hex(&engine.entropy.bytes::<16>());
    let (results, finished) = mpsc::unbounded_channel();
    let writer = results::write(webhooks.clone(), engine.clone(), claim.clone(), finished, stop.clone());
    let writer = tokio::spawn(writer);
    let now = engine.clock.now();
    let mut run = Run {
        webhooks,
        engine,
        claim,
        couriers: JoinSet::new(),
        accounts: HashMap::new(),
        results,
        look_at: now,
        look_rest: limits::LOOK_EVERY,
        heartbeat_at: now,
    };
    run.forget_claims().await;
    while !*stop.borrow() {
        if let Err(problem) = run.turn().await {
            tracing::warn!(%problem, cause = ?problem.cause(), "What is to be sent cannot be read");
        }
        run.sender().moved();
        run.wait(&mut stop).await;
    }
    run.end(writer).await;
}

impl Run {
    fn sender(&self) -> &Sender {
        &self.webhooks.sender
    }

    /// On SQLite nobody else sends: what is claimed was claimed by a server that is gone.
    async fn forget_claims(&self) {
        let forgetting = async {
            if self.engine.db.file().is_some() {
                let mut tx = self.engine.db.write().await?;
                sql::forget_claims(&mut tx).await?;
                tx.commit().await?;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = forgetting.await {
            // They end by themselves.
            tracing::warn!(%error, "The claims of the server before could not be taken over at once");
        }
    }

    async fn turn(&mut self) -> Result<(), Problem> {
        let now = self.engine.clock.now();
        if is_time(self.heartbeat_at, now, limits::HEARTBEAT_EVERY) {
            self.heartbeat_at = now + limits::HEARTBEAT_EVERY;
            self.heartbeat(now).await?;
        }
        let looks = self.sender().look_now.swap(false, Ordering::SeqCst)
            || is_time(self.look_at, now, self.look_rest);
        if looks {
            self.look(now).await?;
        }
        self.claim_wanted(now).await?;
        if looks {
            self.sender().looks.fetch_add(1, Ordering::SeqCst);
        }
        self.retire(now).await
    }

    /// Looks for everything that is due and that nobody else sends.
    async fn look(&mut self, now: Timestamp) -> Result<(), Problem> {
        let watch = Stopwatch::start();
        // Should it fail, not at once again.
        self.look_at = now + limits::LOOK_EVERY;
        let due = sql::due_accounts(&mut self.engine.db.query(), &self.claim, now).await?;
        self.look_rest = (watch.elapsed() * limits::LOOK_REST).clamp(limits::LOOK_EVERY, LONGEST_REST);
        self.look_at = now + self.look_rest;
        for account in due {
            self.sender().look_at(account);
        }
        Ok(())
    }

    /// Says that the claims still stand. A courier whose claim does not must leave: another server sends.
    async fn heartbeat(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut kept = HashSet::new();
        if !lock(&self.sender().couriers).is_empty() {
            let mut tx = self.engine.db.write().await?;
            kept.extend(sql::keep_claims(&mut tx, &self.claim, now + limits::CLAIM_LIFE).await?);
            tx.commit().await?;
        }
        lock(&self.sender().couriers).retain(|account, mailbox| {
            let ours = kept.contains(account);
            if !ours {
                tracing::warn!(%account, "Another server took over the deliveries of an account");
                mailbox.order(Order::Leave);
            }
            ours
        });
        self.sender().claims.send_replace(now + limits::CLAIM_TRUST);
        Ok(())
    }

    /// Claims the accounts that have something to send, and gives each a courier.
    async fn claim_wanted(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut wanted: Vec<_> = lock(&self.sender().wanted).drain().collect();
        wanted.retain(|account| !lock(&self.sender().couriers).contains_key(account));
        if wanted.is_empty() {
            return Ok(());
        }
        // Always in the same order, so that two servers never wait for each other.
        wanted.sort();
        let mut tx = self.engine.db.write().await?;
        let until = now + limits::CLAIM_LIFE;
        let claimed = sql::claim(&mut tx, &wanted, &self.claim, until, now).await?;
        tx.commit().await?;
        for account in claimed {
            let mailbox = Arc::new(Mailbox::default());
            lock(&self.sender().couriers).insert(account, mailbox.clone());
            let (webhooks, engine, results) =
                (self.webhooks.clone(), self.engine.clone(), self.results.clone());
            let courier = Courier::new(webhooks, engine, account, mailbox, results);
            let task = self.couriers.spawn(courier.run());
            self.accounts.insert(task.id(), account);
        }
        Ok(())
    }

    /// Lets go of accounts that had nothing to send for a while.
    async fn retire(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut idle = Vec::new();
        lock(&self.sender().couriers).retain(|account, mailbox| {
            let is_idle = mailbox.is_idle(now);
            if is_idle {
                mailbox.order(Order::Leave);
                idle.push(*account);
            }
            !is_idle
        });
        if idle.is_empty() {
            return Ok(());
        }
        let mut tx = self.engine.db.write().await?;
        for account in idle {
            sql::release(&mut tx, &self.claim, account).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn wait(&mut self, stop: &mut watch::Receiver<bool>) {
        let now = self.engine.clock.now();
        let next = self.look_at.min(self.heartbeat_at).since(now);
        let next = next.clamp(Duration::from_millis(1), limits::HEARTBEAT_EVERY);
        let webhooks = self.webhooks.clone();
        tokio::select! {
            () = webhooks.sender.wake.notified() => {}
            () = self.engine.clock.sleep(next) => {}
            _ = stop.changed() => {}
            Some(ended) = self.couriers.join_next_with_id() => self.left(ended),
        }
    }

    /// A courier is gone. If nobody told it to go, the next look gives its account another one.
    fn left(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((task, ())) => drop(self.accounts.remove(&task)),
            Err(error) => {
                tracing::error!(%error, "A courier came to no end");
                if let Some(account) = self.accounts.remove(&error.id()) {
                    lock(&self.sender().couriers).remove(&account);
                }
            }
        }
    }

    /// Ends in order: begins nothing more, waits for what is under way, writes what came of it, and lets go.
    async fn end(mut self, writer: JoinHandle<()>) {
        let order = |run: &Self, order| {
            for mailbox in lock(&run.sender().couriers).values() {
                mailbox.order(order);
            }
        };
        order(&self, Order::Finish);
        let finishing = async { while self.couriers.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::DRAIN_TIME_MAX, finishing).await.is_err() {
            tracing::info!("Deliveries under way are left to the next server");
            order(&self, Order::Leave);
            while self.couriers.join_next().await.is_some() {}
        }
        mem::take(&mut *lock(&self.sender().couriers));
        let Self { engine, claim, results, .. } = self;
        drop(results);
        // It ends with the last result.
        let _ = writer.await;
        let releasing = async {
            let mut tx = engine.db.write().await?;
            sql::release_all(&mut tx, &claim).await?;
            tx.commit().await
        };
        if let Err(error) = releasing.await {
            tracing::warn!(%error, "Claims could not be let go; they end by themselves");
        }
    }
}
