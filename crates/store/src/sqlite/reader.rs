//! Readers of SQLite, beside the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::connection::{Collect, SqliteConnection};
use super::writer::on_thread;
use super::{ACQUIRE_MAX, READERS_MAX};
use crate::dialect::Dialect;
use crate::{Arg, StoreError};

/// Connections that only read. They are opened when they are needed and kept.
pub(super) struct Readers {
    file: PathBuf,
    idle: Arc<Mutex<Vec<SqliteConnection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, idle: Arc::default(), permits: Arc::new(Semaphore::new(READERS_MAX as usize)) }
    }

    /// Takes a connection, in the order of asking.
    pub(super) async fn acquire(&self) -> Result<Reader, StoreError> {
        let acquiring = timeout(ACQUIRE_MAX, self.permits.clone().acquire_owned());
        let permit = acquiring.await.map_err(|_| StoreError::unavailable("every reader is busy"))?;
        let permit = permit.map_err(|_| StoreError::unavailable("the database is closed"))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => SqliteConnection::reader(&self.file)?,
        };
        Ok(Reader(Some(Held { connection, idle: self.idle.clone(), _permit: permit })))
    }

    /// Waits for those who read, and closes their connections.
    pub(super) async fn close(&self) {
        // Held until nobody is given one any more. It fails when it was closed before.
        let _all = self.permits.acquire_many(READERS_MAX).await;
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A reader's connection, given back when it is dropped. `None` while a statement of it runs on a thread.
pub(crate) struct Reader(Option<Held>);

struct Held {
    connection: SqliteConnection,
    idle: Arc<Mutex<Vec<SqliteConnection>>>,
    _permit: OwnedSemaphorePermit,
}

impl Reader {
    /// Begins a transaction, which sees one state of the database and ends when the reader is dropped.
    pub(super) fn begin(&mut self) -> Result<(), StoreError> {
        let held = self.0.as_mut().ok_or_else(gone)?;
        held.connection.control(Dialect::Sqlite.begin_read())
    }

    /// Runs a statement; returns what `T` says about it.
    pub(crate) async fn run<T: Collect + Send + 'static>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> Result<T, StoreError> {
        let mut held = self.0.take().ok_or_else(gone)?;
        if let Some(done) = held.connection.try_run(sql, &args).transpose() {
            self.0 = Some(held);
            return done;
        }
        let stop = held.connection.stop_on_drop();
        let (done, held) = on_thread(move || {
            let done = held.connection.run(sql, &args);
            Ok((done, held))
        })
        .await?;
        stop.disarm();
        self.0 = Some(held);
        done
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(mut held) = self.0.take() else { return };
        // One whose transaction does not end is closed.
        if !held.connection.in_transaction() || held.connection.control("rollback").is_ok() {
            held.idle.lock().unwrap_or_else(PoisonError::into_inner).push(held.connection);
        }
    }
}

fn gone() -> StoreError {
    StoreError::fault("a statement of this reader was cut off")
}
