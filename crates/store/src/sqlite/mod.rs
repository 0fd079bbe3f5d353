//! SQLite: readers beside one writer, each in place; commits and checkpoints on threads of their own.

mod connection;
mod reader;
mod writer;

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::StoreError;
use connection::SqliteConnection;
use reader::Readers;
use writer::Lane;

pub(crate) use connection::Collect;
pub(crate) use reader::Reader;
pub(crate) use writer::WriteGuard;

/// Readers at once.
const READERS_MAX: u32 = 8;
/// How long a caller waits for a reader.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);
/// Each time that the write-ahead log has so many pages more, they are copied into the file.
const CHECKPOINT_PAGES: i32 = 1_000;
/// With so many, writers wait until all are copied, so that the log begins anew.
const LOG_PAGES_MAX: i32 = 2_000;
/// The length to which a log is cut that had to grow longer: so many pages of 4 KiB.
const LOG_BYTES_MAX: i64 = LOG_PAGES_MAX as i64 * 4096;
/// How long writers wait for those who still read from a log that is to begin anew. A longer report lets it grow.
const LOG_READERS_PATIENCE: Duration = Duration::from_millis(50);

pub(crate) struct SqliteDb {
    readers: Readers,
    lane: Arc<Mutex<Lane>>,
    guard_ended: SyncSender<()>,
}

impl SqliteDb {
    pub(crate) async fn open(file: &Path) -> Result<Self, StoreError> {
        let of_file = file.to_path_buf();
        // The writer comes first: it makes the file, which the readers may not.
        let (mut writer, mut checkpointer) = writer::on_thread(move || {
            Ok((SqliteConnection::writer(&of_file)?, SqliteConnection::writer(&of_file)?))
        })
        .await?;
        let (log_is_long, long_logs) = sync_channel(1);
        let (mut last, mut next) = (0, CHECKPOINT_PAGES);
        writer.after_commit(move |pages| {
            if pages < last {
                next = CHECKPOINT_PAGES;
            }
            last = pages;
            if pages >= next {
                next = pages + CHECKPOINT_PAGES;
                // A checkpoint that was asked for and has not begun will do.
                let _ = log_is_long.try_send(());
            }
        })?;
        let lane = Arc::new(Mutex::new(Lane::new(writer)));
        let of_checkpoints = Arc::downgrade(&lane);
        spawn("checkpoints", move || checkpoint(&mut checkpointer, &long_logs, &of_checkpoints))?;
        let (guard_ended, ends) = sync_channel(1);
        let of_commits = lane.clone();
        spawn("commits", move || writer::commit_for_all(&of_commits, &ends))?;
        Ok(Self { readers: Readers::new(file.to_path_buf()), lane, guard_ended })
    }

    /// A reader whose statements each see the newest state.
    pub(crate) async fn acquire(&self) -> Result<Reader, StoreError> {
        self.readers.acquire().await
    }

    /// A reader that sees one state of the database.
    pub(crate) async fn read(&self) -> Result<Reader, StoreError> {
        let mut reader = self.readers.acquire().await?;
        reader.begin()?;
        Ok(reader)
    }

    pub(crate) async fn write(&self) -> Result<WriteGuard, StoreError> {
        WriteGuard::take(self.lane.clone(), self.guard_ended.clone()).await
    }

    /// Commits what is in the lane, folds the log into the file, and closes it.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        let mut lane = self.lane.clone().lock_owned().await;
        let closed = writer::on_thread(move || {
            lane.close();
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::warn!(%error, "Failed to close the database");
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop).map_err(StoreError::unavailable)
}

/// Copies the write-ahead log into the file whenever it is long, beside the writer. Its pages are used again once all of
/// them were copied and nobody reads them, so when it has become too long the writer waits for that.
fn checkpoint(connection: &mut SqliteConnection, long_logs: &Receiver<()>, lane: &Weak<Mutex<Lane>>) {
    while long_logs.recv().is_ok() {
        let done = match connection.checkpoint() {
            Ok(pages) if pages > LOG_PAGES_MAX => {
                let Some(lane) = lane.upgrade() else { return };
                let mut lane = lane.blocking_lock();
                lane.settle();
                connection.restart_log(LOG_READERS_PATIENCE)
            }
            done => done.map(drop),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "Failed to checkpoint the write-ahead log; it is tried again when the log has grown");
        }
    }
}

/// The statements in `sqlite_master` of a database in memory in which each of `scripts` ran.
pub(crate) fn schema_after<'s>(
    scripts: impl Iterator<Item = &'s str>,
    select: &'static str,
) -> Result<Vec<crate::Row>, StoreError> {
    let mut connection = SqliteConnection::in_memory()?;
    for script in scripts {
        connection.script(script)?;
    }
    connection.run(select, &[])
}
