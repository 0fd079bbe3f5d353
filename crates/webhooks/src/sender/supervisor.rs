//! The supervisor of workers: it claims accounts, renews its claims, and polls for due deliveries.

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

use super::account_worker::AccountWorker;
use super::results::{self, AttemptRecord};
use super::worker_handle::{WorkerHandle, WorkerMode};
use super::{Sender, backlog, lock};
use crate::{Webhooks, limits, sql};

/// However long a poll takes, the next comes after so long.
const POLL_EVERY_MAX: Duration = Duration::from_secs(10);

/// Returns whether something that is done every so often is due; also when the clock was set back.
fn is_due(at: Timestamp, now: Timestamp, every: Duration) -> bool {
    at <= now || at.since(now) > 2 * every
}

/// Claims accounts and runs their workers.
struct Supervisor {
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    /// The name of this server's claims; another one with every start.
    claim: String,
    workers: JoinSet<()>,
    accounts: HashMap<Id, AccountId>,
    results: mpsc::UnboundedSender<AttemptRecord>,
    poll_at: Timestamp,
    poll_every: Duration,
    heartbeat_at: Timestamp,
}

/// Sends until `stop` turns true; then drains what is in flight, or leaves it to the next server.
pub(super) async fn run(webhooks: Arc<Webhooks>, engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    let claim = hex(&engine.entropy.bytes::<16>());
    let (results, to_write) = mpsc::unbounded_channel();
    let writer = results::write(webhooks.clone(), engine.clone(), claim.clone(), to_write, stop.clone());
    let writer = tokio::spawn(writer);
    let now = engine.clock.now();
    let mut supervisor = Supervisor {
        webhooks,
        engine,
        claim,
        workers: JoinSet::new(),
        accounts: HashMap::new(),
        results,
        poll_at: now,
        poll_every: limits::POLL_EVERY,
        heartbeat_at: now,
    };
    supervisor.clear_stale_claims().await;
    while !*stop.borrow() {
        if let Err(problem) = supervisor.tick().await {
            tracing::warn!(%problem, cause = ?problem.cause(), "Failed to poll for due deliveries");
        }
        supervisor.sender().notify_progress();
        supervisor.wait(&mut stop).await;
    }
    supervisor.shut_down(writer).await;
}

impl Supervisor {
    fn sender(&self) -> &Sender {
        &self.webhooks.sender
    }

    /// On SQLite there is no other server: every claim is that of a server that has ended.
    async fn clear_stale_claims(&self) {
        let clearing = async {
            if self.engine.db.file().is_some() {
                let mut tx = self.engine.db.write().await?;
                sql::delete_all_claims(&mut tx).await?;
                tx.commit().await?;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = clearing.await {
            // They expire.
            tracing::warn!(%error, "Failed to clear stale claims; they will expire");
        }
    }

    async fn tick(&mut self) -> Result<(), Problem> {
        let now = self.engine.clock.now();
        if is_due(self.heartbeat_at, now, limits::HEARTBEAT_EVERY) {
            self.heartbeat_at = now + limits::HEARTBEAT_EVERY;
            self.heartbeat(now).await?;
            let held = sql::accounts_with_holds(&mut self.engine.db.query()).await?;
            for account in held {
                self.sender().count_backlog(account);
            }
        }
        let polls = self.sender().poll_now.swap(false, Ordering::SeqCst)
            || is_due(self.poll_at, now, self.poll_every);
        if polls {
            self.poll(now).await?;
        }
        self.claim_accounts(now).await?;
        self.balance_backlogs(now).await?;
        if polls {
            self.sender().polls.fetch_add(1, Ordering::SeqCst);
        }
        self.release_idle(now).await
    }

    /// Finds every account with due deliveries that no other server has claimed.
    async fn poll(&mut self, now: Timestamp) -> Result<(), Problem> {
        let watch = Stopwatch::start();
        // Should it fail, not at once again.
        self.poll_at = now + limits::POLL_EVERY;
        let due = sql::due_accounts(&mut self.engine.db.query(), &self.claim, now).await?;
        self.poll_every = (watch.elapsed() * limits::POLL_REST).clamp(limits::POLL_EVERY, POLL_EVERY_MAX);
        self.poll_at = now + self.poll_every;
        for account in due {
            self.sender().refresh(account);
        }
        Ok(())
    }

    /// Counts the backlogs of accounts that made many deliveries, and of those that have some held back.
    async fn balance_backlogs(&mut self, now: Timestamp) -> Result<(), Problem> {
        for account in self.sender().take_uncounted() {
            if backlog::balance(&self.engine, account, now).await? {
                self.sender().refresh(account);
                // There may be room for more of them.
                self.sender().count_backlog(account);
            }
        }
        Ok(())
    }

    /// Renews the claims. A worker whose claim was lost must stop: another server sends.
    async fn heartbeat(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut kept = HashSet::new();
        if !lock(&self.sender().workers).is_empty() {
            let mut tx = self.engine.db.write().await?;
            kept.extend(sql::renew_claims(&mut tx, &self.claim, now + limits::CLAIM_LIFE).await?);
            tx.commit().await?;
        }
        lock(&self.sender().workers).retain(|account, handle| {
            let ours = kept.contains(account);
            if !ours {
                tracing::warn!(%account, "Lost the claim on an account to another server");
                handle.set_mode(WorkerMode::Stop);
            }
            ours
        });
        self.sender().claims_valid_until.send_replace(now + limits::CLAIM_TRUST);
        Ok(())
    }

    /// Claims the accounts that have something to send, and starts a worker for each.
    async fn claim_accounts(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut unclaimed: Vec<_> = lock(&self.sender().unclaimed).drain().collect();
        unclaimed.retain(|account| !lock(&self.sender().workers).contains_key(account));
        if unclaimed.is_empty() {
            return Ok(());
        }
        // Always in the same order, so that two servers never wait for each other.
        unclaimed.sort();
        let mut tx = self.engine.db.write().await?;
        let until = now + limits::CLAIM_LIFE;
        let claimed = sql::claim_accounts(&mut tx, &unclaimed, &self.claim, until, now).await?;
        tx.commit().await?;
        for account in claimed {
            let handle = Arc::new(WorkerHandle::default());
            lock(&self.sender().workers).insert(account, handle.clone());
            let (webhooks, engine, results) =
                (self.webhooks.clone(), self.engine.clone(), self.results.clone());
            let worker = AccountWorker::new(webhooks, engine, account, handle, results);
            let task = self.workers.spawn(worker.run());
            self.accounts.insert(task.id(), account);
        }
        Ok(())
    }

    /// Releases accounts that had nothing to send for a while.
    async fn release_idle(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut idle = Vec::new();
        lock(&self.sender().workers).retain(|account, handle| {
            let is_idle = handle.is_idle(now);
            if is_idle {
                handle.set_mode(WorkerMode::Stop);
                lock(&self.webhooks.sender.made).remove(account);
                idle.push(*account);
            }
            !is_idle
        });
        if idle.is_empty() {
            return Ok(());
        }
        let mut tx = self.engine.db.write().await?;
        for account in idle {
            sql::release_claim(&mut tx, &self.claim, account).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn wait(&mut self, stop: &mut watch::Receiver<bool>) {
        let now = self.engine.clock.now();
        let next = self.poll_at.min(self.heartbeat_at).since(now);
        let next = next.clamp(Duration::from_millis(1), limits::HEARTBEAT_EVERY);
        let webhooks = self.webhooks.clone();
        tokio::select! {
            () = webhooks.sender.wake.notified() => {}
            () = self.engine.clock.sleep(next) => {}
            _ = stop.changed() => {}
            Some(ended) = self.workers.join_next_with_id() => self.worker_ended(ended),
        }
    }

    /// Notes that a worker has ended. If it panicked, the next poll starts another one for its account.
    fn worker_ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        match ended {
            Ok((task, ())) => drop(self.accounts.remove(&task)),
            Err(error) => {
                tracing::error!(%error, "Delivery worker panicked");
                if let Some(account) = self.accounts.remove(&error.id()) {
                    lock(&self.sender().workers).remove(&account);
                }
            }
        }
    }

    /// Shuts down in order: starts no more attempts, waits for those in flight, stores their results, and releases the
    /// claims.
    async fn shut_down(mut self, writer: JoinHandle<()>) {
        let set_mode = |supervisor: &Self, mode| {
            for handle in lock(&supervisor.sender().workers).values() {
                handle.set_mode(mode);
            }
        };
        set_mode(&self, WorkerMode::Drain);
        let draining = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(limits::DRAIN_TIME_MAX, draining).await.is_err() {
            tracing::info!("Stopping with deliveries in flight; the next server sends them again");
            set_mode(&self, WorkerMode::Stop);
            while self.workers.join_next().await.is_some() {}
        }
        mem::take(&mut *lock(&self.sender().workers));
        let Self { engine, claim, results, .. } = self;
        drop(results);
        // It ends with the last result.
        let _ = writer.await;
        let releasing = async {
            let mut tx = engine.db.write().await?;
            sql::release_claims(&mut tx, &claim).await?;
            tx.commit().await
        };
        if let Err(error) = releasing.await {
            tracing::warn!(%error, "Failed to release claims; they will expire");
        }
    }
}
