//! A connection to SQLite, whose statements run where the caller stands.
//!
//! A statement takes microseconds, less than handing it to another thread would. What may take longer has no place on an
//! async thread, where everybody else would wait for it, so SQLite counts the steps of each statement. One that only
//! reads is stopped after [`STEPS_MAX`] and runs again on a thread of its own. One that writes cannot be stopped without
//! losing its transaction; it is remembered by its text, and goes to a thread the next time.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::wal::CheckpointMode;
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql, ffi};

use super::LOG_BYTES_MAX;
use crate::placeholders::{matches, numbers, placeholders};
use crate::row::Cell;
use crate::{Arg, Row, StoreError};

/// How long another process (an operator's command) may hold the file before we give up.
const BUSY_MAX: Duration = Duration::from_secs(10);
/// After so many steps of a statement they are counted once.
const STEPS_AT_ONCE: i32 = 1_000;
/// How often they are counted before a statement is too long for an async thread: after about 100 µs.
const STEPS_MAX: u32 = 4;
/// Statements that each connection keeps prepared: more than there are texts.
const PREPARED_MAX: usize = 2_048;
/// Primary result codes of a database that is busy, locked, full, read-only or failing to read or write.
const UNUSABLE: [i32; 7] = [
    ffi::SQLITE_BUSY,
    ffi::SQLITE_LOCKED,
    ffi::SQLITE_READONLY,
    ffi::SQLITE_IOERR,
    ffi::SQLITE_FULL,
    ffi::SQLITE_CANTOPEN,
    ffi::SQLITE_PROTOCOL,
];

/// A connection, and what it knows about the statements that ran on it.
pub(super) struct SqliteConnection {
    /// Never locked: it makes a connection that may be lent, which it may not be by itself. In a
    /// box because readers move with each call.
    connection: Box<Mutex<Connection>>,
    steps: Arc<Steps>,
    /// Texts of statements that wrote, and took long the last time.
    long: HashSet<&'static str>,
}

/// The steps of the statement that runs.
struct Steps {
    counted: AtomicU32,
    limit: AtomicU32,
    /// Does nobody wait for the statement any longer?
    abandoned: AtomicBool,
}

/// Stops the statement that runs on a thread, also if it has yet to begin, when whoever waits for it goes away.
pub(super) struct StopOnDrop(Option<Arc<Steps>>);

impl StopOnDrop {
    /// The statement has ended by itself.
    pub(super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(steps) = self.0.take() {
            steps.abandoned.store(true, Ordering::Relaxed);
        }
    }
}

/// What statements of a connection touched or returned.
pub(crate) trait Collect: Sized {
    fn collect(statement: &mut CachedStatement<'_>, connection: &Connection) -> rusqlite::Result<Self>;
}

/// The number of rows that were touched.
impl Collect for u64 {
    fn collect(statement: &mut CachedStatement<'_>, connection: &Connection) -> rusqlite::Result<Self> {
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
        Ok(connection.changes())
    }
}

impl Collect for Vec<Row> {
    fn collect(statement: &mut CachedStatement<'_>, _: &Connection) -> rusqlite::Result<Self> {
        let columns: Arc<[Box<str>]> = statement.column_names().map(Box::from).collect();
        let mut found = statement.raw_query();
        let mut rows = Self::new();
        while let Some(row) = found.next()? {
            let cells = (0..columns.len()).map(|at| cell(at, row.get_ref(at)?));
            rows.push(Row::new(&columns, cells.collect::<rusqlite::Result<_>>()?));
        }
        Ok(rows)
    }
}

fn cell(at: usize, value: ValueRef<'_>) -> rusqlite::Result<Cell> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(int) => Cell::Int(int),
        // No column of ours holds a fraction: whoever reads it as a number is told.
        ValueRef::Real(real) => Cell::Text(real.to_string()),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|error| rusqlite::Error::Utf8Error(at, error))?;
            Cell::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    })
}

impl ToSql for Arg {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Int(Some(int)) => ValueRef::Integer(*int),
            Self::Bool(Some(value)) => ValueRef::Integer(i64::from(*value)),
            Self::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Self::Text(None) | Self::Int(None) | Self::Bool(None) | Self::Bytes(None) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl SqliteConnection {
    /// Opens the file for writing, and makes it if there is none.
    pub(super) fn writer(file: &Path) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = Self::open(file, flags)?;
        // Checkpoints have a thread of their own. A log that grew longer than it should is cut when it begins anew.
        connection.script(&format!(
            "pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 0; \
             pragma journal_size_limit = {LOG_BYTES_MAX}"
        ))?;
        Ok(connection)
    }

    /// Opens the file for reading.
    pub(super) fn reader(file: &Path) -> Result<Self, StoreError> {
        Self::open(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn open(file: &Path, flags: OpenFlags) -> Result<Self, StoreError> {
        let connection = Connection::open_with_flags(file, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        Self::new(connection)
    }

    /// An empty database that goes with its connection.
    pub(super) fn in_memory() -> Result<Self, StoreError> {
        Self::new(Connection::open_in_memory()?)
    }

    fn new(mut connection: Connection) -> Result<Self, StoreError> {
        connection.busy_timeout(BUSY_MAX)?;
        // What a savepoint may have to restore is kept in memory; otherwise it spills into a file after 64 KiB.
        connection.execute_batch("pragma foreign_keys = on; pragma temp_store = memory")?;
        connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
        // A plan that looks at the values of its parameters is made anew at each use: a bound `limit` is enough for that, and
        // it takes many times as long as most statements.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let steps = Arc::new(Steps {
            counted: AtomicU32::new(0),
            limit: AtomicU32::new(u32::MAX),
            abandoned: AtomicBool::new(false),
        });
        let counting = steps.clone();
        connection.progress_handler(STEPS_AT_ONCE, Some(move || counting.count()))?;
        Ok(Self { connection: Box::new(Mutex::new(connection)), steps, long: HashSet::new() })
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with the number of pages in the write-ahead log after each commit.
    pub(super) fn after_commit(
        &mut self,
        mut act: impl FnMut(i32) + Send + 'static,
    ) -> Result<(), StoreError> {
        let act = move |_: &mut Wal, pages| {
            act(pages);
            Ok(())
        };
        Ok(self.connection().wal_hook(Some(act))?)
    }

    /// Runs a statement in place. `None` when it takes longer than an async thread may wait; then nothing of it was done.
    pub(super) fn try_run<T: Collect>(
        &mut self,
        sql: &'static str,
        args: &[Arg],
    ) -> Result<Option<T>, StoreError> {
        match self.collect(sql, args, STEPS_MAX)? {
            Err(error) if code(&error) == Some(ffi::SQLITE_INTERRUPT) => Ok(None),
            done => Ok(done?),
        }
    }

    /// Runs a statement on a thread on which it may take long.
    pub(super) fn run<T: Collect>(&mut self, sql: &'static str, args: &[Arg]) -> Result<T, StoreError> {
        self.long.remove(sql);
        let done = self.collect(sql, args, u32::MAX)??;
        done.ok_or_else(|| StoreError::fault("a statement was to be moved to another thread twice"))
    }

    /// Runs a statement, which is stopped after `limit` if it only reads, and not begun if it writes and took longer the
    /// last time.
    fn collect<T: Collect>(
        &mut self,
        sql: &'static str,
        args: &[Arg],
        limit: u32,
    ) -> Result<rusqlite::Result<Option<T>>, StoreError> {
        // Preparing a statement takes steps too, of which those of the one before would be counted.
        self.steps.begin(u32::MAX);
        let connection = self.connection.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(sql)?;
        bind(&mut statement, sql, args)?;
        let writes = !statement.readonly();
        if writes && self.long.contains(sql) {
            return Ok(Ok(None));
        }
        self.steps.begin(if writes { u32::MAX } else { limit });
        let collected = T::collect(&mut statement, connection);
        if writes && self.steps.were_many() {
            self.long.insert(sql);
        }
        Ok(collected.map(Some))
    }

    /// Runs a statement that says where a transaction begins or ends.
    pub(super) fn control(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.steps.begin(u32::MAX);
        self.connection().prepare_cached(sql)?.raw_execute()?;
        Ok(())
    }

    /// The same without waiting for another process that holds the file; returns whether none did.
    pub(super) fn try_control(&mut self, sql: &'static str) -> Result<bool, StoreError> {
        self.steps.begin(u32::MAX);
        let connection = self.connection();
        connection.busy_timeout(Duration::ZERO)?;
        let done = connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
        connection.busy_timeout(BUSY_MAX)?;
        match done {
            Err(error) if is_busy(&error) => Ok(false),
            done => Ok(done.map(|_| true)?),
        }
    }

    /// Runs several statements that take no arguments.
    pub(super) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.steps.begin(u32::MAX);
        Ok(self.connection().execute_batch(sql)?)
    }

    /// Copies what it can from the write-ahead log into the file, beside readers and a writer. Returns how many pages the
    /// log has.
    pub(super) fn checkpoint(&mut self) -> Result<i32, StoreError> {
        self.steps.begin(u32::MAX);
        let (pages, _copied) = self.connection().wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE)?;
        Ok(pages)
    }

    /// Copies all of it and waits until nobody reads from it any more, so that whoever writes next begins it anew; for
    /// as long as `patience`. Where that is not enough, the log grows on.
    pub(super) fn restart_log(&mut self, patience: Duration) -> Result<(), StoreError> {
        self.steps.begin(u32::MAX);
        let connection = self.connection();
        connection.busy_timeout(patience)?;
        match connection.wal_checkpoint_v2(Some("main"), CheckpointMode::RESTART) {
            Err(error) if is_busy(&error) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// Is a transaction open? SQLite ends one by itself on some failures, such as a full disk.
    pub(super) fn in_transaction(&mut self) -> bool {
        !self.connection().is_autocommit()
    }

    /// For the statement that runs next, on a thread. A connection whose statement was stopped runs no other.
    pub(super) fn stop_on_drop(&self) -> StopOnDrop {
        StopOnDrop(Some(self.steps.clone()))
    }
}

impl Steps {
    fn begin(&self, limit: u32) {
        self.counted.store(0, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns whether the statement is to be stopped.
    fn count(&self) -> bool {
        self.counted.fetch_add(1, Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
            || self.abandoned.load(Ordering::Relaxed)
    }

    fn were_many(&self) -> bool {
        self.counted.load(Ordering::Relaxed) > STEPS_MAX
    }
}

/// SQLite numbers `$2` by where it first appears in the text, and not by its name. The text is read again here, because
/// SQLite finds the name of a number by walking along all of them.
fn bind(statement: &mut CachedStatement<'_>, sql: &str, args: &[Arg]) -> Result<(), StoreError> {
    matches(sql, placeholders(sql), args)?;
    let (mut bound, mut at) = (vec![false; args.len()], 0);
    for number in numbers(sql) {
        let Some(index) = number.checked_sub(1) else {
            return Err(StoreError::fault(format!("a placeholder without a number in: {sql}")));
        };
        if !std::mem::replace(&mut bound[index], true) {
            at += 1;
            statement.raw_bind_parameter(at, &args[index])?;
        }
    }
    if at == statement.parameter_count() {
        return Ok(());
    }
    Err(StoreError::fault(format!("a placeholder that is none of $1, $2 and so on in: {sql}")))
}

fn code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == ffi::SQLITE_BUSY)
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match code(&error) {
            Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY) => {
                Self::Conflict(Arc::new(error))
            }
            // The low byte is the primary code.
            Some(code) if UNUSABLE.contains(&(code & 0xff)) => Self::Unavailable(Arc::new(error)),
            _ => Self::Fault(Arc::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_before_does_not_stop_a_statement_while_it_is_prepared() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("db");
        let tables = (0..500).map(|number| format!("create table t{number} (a text unique);"));
        SqliteConnection::writer(&file).unwrap().script(&tables.collect::<String>()).unwrap();
        // Its first statement reads the schema.
        let mut reader = SqliteConnection::reader(&file).unwrap();
        let rows = reader.try_run::<Vec<Row>>("select a from t1", &[]).unwrap();
        assert!(rows.is_some_and(|rows| rows.is_empty()));
    }
}
