//! SQLite: readers beside one writer whose commits are shared.
//!
//! A synced commit costs up to milliseconds, so callers share it. The writer's connection is a lane behind a fair
//! lock. Who comes first opens a transaction; each takes its guard behind a savepoint and leaves; the committer
//! stands in the same line, so it commits for everyone who was in line before it, and only then are they answered.
//! Whoever comes later rides with the next commit.
//!
//! Each statement is a message to the connection's own thread and back, so savepoints are not released one by one:
//! every guard sets its own, all of one name, of which the last counts, and the commit ends them all.

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Executor, Sqlite, Transaction};
use tokio::sync::{Mutex, Notify, OwnedMutexGuard, oneshot};
use tokio::task::JoinHandle;

use crate::StoreError;
use crate::dialect::Dialect;

/// Readers at once; each is a thread of its own.
const READERS_MAX: u32 = 8;
/// How long another process (an operator's command) may hold the file before we give up.
const BUSY_MAX: Duration = Duration::from_secs(10);

pub(crate) struct SqliteDb {
    readers: SqlitePool,
    lane: Arc<Mutex<Lane>>,
    work: Arc<Notify>,
    committer: JoinHandle<()>,
}

impl SqliteDb {
    pub(crate) async fn open(options: SqliteConnectOptions) -> Result<Self, StoreError> {
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_MAX)
            .foreign_keys(true)
            // What a savepoint may have to restore is kept in memory; otherwise it spills into a file after 64 KiB.
            .pragma("temp_store", "memory")
            .disable_statement_logging();
        // The writer comes first: it makes the file, which the readers may not.
        let connection = options.connect().await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .acquire_timeout(BUSY_MAX)
            .test_before_acquire(false)
            .connect_with(options.create_if_missing(false).read_only(true))
            .await?;
        let lane = Lane { connection, open: false, begun: false, dangling: false, riders: Vec::new() };
        let (lane, work) = (Arc::new(Mutex::new(lane)), Arc::new(Notify::new()));
        let committer = tokio::spawn(commit_for_all(lane.clone(), work.clone()));
        Ok(Self { readers, lane, work, committer })
    }

    pub(crate) async fn acquire(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        Ok(self.readers.acquire().await?)
    }

    pub(crate) async fn read(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        Ok(self.readers.begin_with(Dialect::Sqlite.begin_read()).await?)
    }

    /// Takes a guard. Whoever gives up waiting for it leaves the lane as it was, or in a state that the next one knows
    /// how to mend: see [`Lane::begin`].
    pub(crate) async fn write(&self) -> Result<WriteGuard, StoreError> {
        let lane = self.lane.clone().lock_owned().await;
        // From here on the guard's end calls the committer, even when it never comes to a savepoint.
        let mut guard = WriteGuard { lane, work: self.work.clone(), ended: true };
        guard.lane.take_back_dangling().await;
        guard.lane.begin().await?;
        // Given up here, the savepoint may be there or not. It is empty, and the next guard sets its own.
        guard.lane.run("savepoint guard").await?;
        guard.ended = false;
        Ok(guard)
    }

    /// Commits what is in the lane, folds the log into the file, and closes it.
    pub(crate) async fn close(&self) {
        let mut lane = self.lane.lock().await;
        lane.settle().await;
        self.readers.close().await;
        if let Err(error) = lane.run("pragma wal_checkpoint(truncate)").await {
            tracing::warn!(%error, "Failed to checkpoint the write-ahead log; the next start will");
        }
    }
}

impl Drop for SqliteDb {
    fn drop(&mut self) {
        self.committer.abort();
    }
}

/// The writer's connection and who rides with its open transaction.
struct Lane {
    connection: SqliteConnection,
    /// Is a transaction open?
    open: bool,
    /// Was one begun or given up by someone who did not wait for it? Then it may be open or not.
    begun: bool,
    /// Did a guard end without a word, its savepoint still open?
    dangling: bool,
    /// Those whose guard is over and who wait for the commit.
    riders: Vec<oneshot::Sender<Result<(), StoreError>>>,
}

impl Lane {
    async fn run(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.connection.execute(sqlx::query(sql)).await?;
        Ok(())
    }

    /// Opens a transaction, unless one is open. A statement runs to its end on the connection's own thread even when
    /// its caller goes away, so what was begun and not waited for is ended first; nobody rides along with it.
    async fn begin(&mut self) -> Result<(), StoreError> {
        if self.open {
            return Ok(());
        }
        self.end_begun().await;
        self.begun = true;
        let begun = self.run("begin immediate").await;
        self.begun = false;
        self.open = begun.is_ok();
        begun
    }

    /// Makes sure that no transaction is open of which nobody knows.
    async fn end_begun(&mut self) {
        if self.begun {
            // It may be over already; what counts is that none is open afterwards.
            let _ = self.run("rollback").await;
            self.begun = false;
        }
    }

    /// Undoes a guard that ended without a word. When that fails the whole transaction is given up, and the lane is
    /// clean either way.
    async fn take_back_dangling(&mut self) {
        if self.dangling {
            let _ = self.take_turn_back().await;
            // Only now: whoever gives up in between leaves it to the next one.
            self.dangling = false;
        }
    }

    /// Undoes the last guard, back to its own savepoint; to do so twice does no harm. SQLite ends the whole transaction
    /// by itself on some failures (a full disk); then the savepoint is gone, and with it the work of everyone who rides
    /// along.
    async fn take_turn_back(&mut self) -> Result<(), StoreError> {
        let undone = self.run("rollback to guard").await;
        if let Err(error) = &undone {
            self.abandon(&StoreError::unavailable(error.to_string())).await;
        }
        undone
    }

    /// Ends the transaction without a trace and tells everyone who rode along.
    async fn abandon(&mut self, error: &StoreError) {
        self.open = false;
        self.begun = true;
        self.answer(&Err(error.clone()));
        self.end_begun().await;
    }

    /// Commits for everyone who rides along.
    async fn settle(&mut self) {
        self.take_back_dangling().await;
        self.end_begun().await;
        if !self.open {
            return;
        }
        match self.run("commit").await {
            Ok(()) => {
                self.open = false;
                self.answer(&Ok(()));
            }
            Err(error) => self.abandon(&StoreError::unavailable(error.to_string())).await,
        }
    }

    fn answer(&mut self, outcome: &Result<(), StoreError>) {
        for rider in self.riders.drain(..) {
            // A rider that went away has nobody to tell; its work stands all the same.
            let _ = rider.send(outcome.clone());
        }
    }
}

async fn commit_for_all(lane: Arc<Mutex<Lane>>, work: Arc<Notify>) {
    loop {
        work.notified().await;
        lane.lock().await.settle().await;
    }
}

/// One caller's guard at the writer.
pub(crate) struct WriteGuard {
    lane: OwnedMutexGuard<Lane>,
    work: Arc<Notify>,
    ended: bool,
}

impl WriteGuard {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.lane.connection
    }

    /// Leaves the lane and waits for the commit that holds this guard.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        let (rider, outcome) = oneshot::channel();
        self.lane.riders.push(rider);
        self.ended = true;
        drop(self);
        let closed = |_| Err(StoreError::unavailable("the database was closed before the commit"));
        outcome.await.unwrap_or_else(closed)
    }

    pub(crate) async fn rollback(mut self) -> Result<(), StoreError> {
        let undone = self.lane.take_turn_back().await;
        self.ended = true;
        undone
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        if !self.ended {
            self.lane.dangling = true;
        }
        self.work.notify_one();
    }
}
