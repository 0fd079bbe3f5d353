//! The one writer of SQLite, whose commits are shared.
//!
//! A synced commit costs up to milliseconds, so callers share it. The writer's connection is a lane behind a fair lock. Who
//! comes first opens a transaction, whoever comes after them a savepoint in it; each works and leaves; the committer, on a
//! thread of its own, stands in the same line, so it commits for everyone who was in line before it, and only then are they answered.
//! Whoever comes later rides with the next commit.
//!
//! Statements run where the caller stands, so there is no moment at which one was begun and nobody waits for it: whoever
//! goes away between two of them drops the guard, which takes back what it did. One that runs on a thread takes the guard
//! with it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::task::spawn_blocking;

use super::connection::{Collect, SqliteConnection};
use crate::{Arg, StoreError};

/// The writer's connection and who rides with its open transaction.
pub(super) struct Lane {
    connection: SqliteConnection,
    /// Is a transaction open?
    open: bool,
    /// Those whose guard is over and who wait for the commit.
    riders: Vec<oneshot::Sender<Result<(), StoreError>>>,
}

impl Lane {
    pub(super) fn new(connection: SqliteConnection) -> Self {
        Self { connection, open: false, riders: Vec::new() }
    }

    /// Opens a transaction, unless one is open, for the next guard. Returns `None` when another process holds the file.
    fn try_begin(&mut self) -> Result<Option<Undo>, StoreError> {
        if !self.open {
            self.open = self.connection.try_control("begin immediate")?;
        }
        self.open.then(|| self.set_undo()).transpose()
    }

    /// The same on a thread, where it waits for the other process.
    fn begin(&mut self) -> Result<Undo, StoreError> {
        self.connection.control("begin immediate")?;
        self.open = true;
        self.set_undo()
    }

    /// Sees to it that the work of the next guard can be taken back. A savepoint is not for nothing: SQLite copies each page
    /// that is written behind it. Who is alone in the transaction needs none.
    fn set_undo(&mut self) -> Result<Undo, StoreError> {
        if self.riders.is_empty() {
            return Ok(Undo::Transaction);
        }
        self.connection.control("savepoint guard")?;
        Ok(Undo::Savepoint)
    }

    /// Undoes the last guard. SQLite ends the whole transaction by itself on some failures (a full disk); then the savepoint
    /// is gone, and with it the work of everyone who rides along.
    fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Nothing => {}
            Undo::Transaction => self.roll_back(),
            Undo::Savepoint => {
                if let Err(error) = self.connection.script("rollback to guard; release guard") {
                    self.abandon(&error);
                }
            }
        }
    }

    /// Ends the transaction without a trace and tells everyone who rode along.
    fn abandon(&mut self, error: &StoreError) {
        self.answer(&Err(StoreError::unavailable(error.to_string())));
        self.roll_back();
    }

    fn roll_back(&mut self) {
        if self.connection.in_transaction() {
            // It may end by itself meanwhile; what counts is that none is open afterwards.
            let _ = self.connection.script("rollback");
        }
        self.open = false;
    }

    /// Commits for everyone who rides along.
    pub(super) fn settle(&mut self) {
        if !self.open {
            return;
        }
        match self.connection.control("commit") {
            Ok(()) => {
                self.open = false;
                self.answer(&Ok(()));
            }
            Err(error) => self.abandon(&error),
        }
    }

    fn answer(&mut self, outcome: &Result<(), StoreError>) {
        for rider in self.riders.drain(..) {
            // A rider that went away has nobody to tell; its work stands all the same.
            let _ = rider.send(outcome.clone());
        }
    }

    /// Commits what there is, and folds the log into the file.
    pub(super) fn close(&mut self) {
        self.settle();
        if let Err(error) = self.connection.script("pragma wal_checkpoint(truncate)") {
            tracing::warn!(%error, "Failed to checkpoint the write-ahead log; the next start will");
        }
    }
}

/// Commits whenever a guard has ended, until nobody is left who could begin one.
pub(super) fn commit_for_all(lane: &Mutex<Lane>, guards_ended: &Receiver<()>) {
    while guards_ended.recv().is_ok() {
        lane.blocking_lock().settle();
    }
}

/// What takes back the work of a guard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    /// There is none to be taken back.
    Nothing,
    /// The end of the transaction, since nobody else rides with it.
    Transaction,
    /// A savepoint, behind the work of those who do.
    Savepoint,
}

/// One caller's guard at the writer.
pub(crate) struct WriteGuard {
    lane: OwnedMutexGuard<Lane>,
    guard_ended: SyncSender<()>,
    undo: Undo,
}

impl WriteGuard {
    /// Takes a guard once everyone before has left.
    pub(super) async fn take(
        lane: Arc<Mutex<Lane>>,
        guard_ended: SyncSender<()>,
    ) -> Result<Self, StoreError> {
        // From here on the guard's end calls the committer, even when nothing is begun.
        let mut guard = Self { lane: lane.lock_owned().await, guard_ended, undo: Undo::Nothing };
        if let Some(undo) = guard.lane.try_begin()? {
            guard.undo = undo;
            return Ok(guard);
        }
        on_thread(move || {
            guard.undo = guard.lane.begin()?;
            Ok(guard)
        })
        .await
    }

    /// Runs a statement. Gives the guard back with what came of it; whoever goes away meanwhile gave it up.
    pub(crate) async fn run<T: Collect + Send + 'static>(
        mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> (Result<T, StoreError>, Option<Self>) {
        if let Some(done) = self.lane.connection.try_run(sql, &args).transpose() {
            return (done, Some(self));
        }
        let running = on_thread(move || {
            let done = self.lane.connection.run(sql, &args);
            Ok((done, self))
        });
        match running.await {
            Ok((done, guard)) => (done, Some(guard)),
            Err(error) => (Err(error), None),
        }
    }

    /// Runs several statements that take no arguments.
    pub(crate) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.lane.connection.script(sql)
    }

    /// Leaves the lane and waits for the commit that holds this guard.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        if self.undo == Undo::Savepoint {
            self.lane.connection.control("release guard")?;
        } else if !self.lane.connection.in_transaction() {
            return Err(StoreError::unavailable("the database ended the transaction by itself"));
        }
        self.undo = Undo::Nothing;
        let (rider, outcome) = oneshot::channel();
        self.lane.riders.push(rider);
        drop(self);
        let closed = |_| Err(StoreError::unavailable("the database was closed before the commit"));
        outcome.await.unwrap_or_else(closed)
    }
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        self.lane.take_back(self.undo);
        // A committer that was called and has not come yet will commit this too.
        let _ = self.guard_ended.try_send(());
    }
}

/// Runs `work` on a thread on which it may wait.
pub(super) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    spawn_blocking(work).await.map_err(StoreError::unavailable)?
}
