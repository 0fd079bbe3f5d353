//! One transaction, on either database.

use std::ops::AddAssign;
use std::sync::{Arc, OnceLock};

use crate::placeholders::check;
use crate::postgres::PgSession;
use crate::sqlite::{Collect, Reader, WriteGuard};
use crate::{Arg, FromRow, Row, Select, StoreError, TouchingStatement, Value};

/// A transaction. It ends with [`Tx::commit`]; dropped before that, nothing of it remains.
pub struct Tx {
    inner: Inner,
    queries: Queries,
    /// Did a statement fail? Then nothing more runs, and nothing of it can be kept.
    failed: bool,
}

/// What a transaction cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Queries {
    /// Statements that ran.
    pub statements: u32,
    /// How often it waited for the database, but for the commit.
    pub round_trips: u32,
}

impl AddAssign for Queries {
    fn add_assign(&mut self, other: Self) {
        self.statements += other.statements;
        self.round_trips += other.round_trips;
    }
}

/// The rows of a statement that was run with [`Tx::run_for_rows`].
#[derive(Debug, Clone, Default)]
pub struct PendingRows(Arc<OnceLock<Vec<Row>>>);

impl PendingRows {
    /// Returns every row as a record, once the transaction is committed.
    pub fn all<T: FromRow>(&self) -> Result<Vec<T>, StoreError> {
        self.rows()?.iter().map(T::from_row).collect()
    }

    /// Returns the first row, if there is one, once the transaction is committed.
    pub fn first<T: FromRow>(&self) -> Result<Option<T>, StoreError> {
        self.rows()?.first().map(T::from_row).transpose()
    }

    /// Returns the column `value` of the one row, once the transaction is committed.
    pub fn value<T: Value>(&self) -> Result<T, StoreError> {
        self.rows()?.first().ok_or(StoreError::NoRow)?.get("value")
    }

    /// Returns the column `value` of every row, once the transaction is committed.
    pub fn values<T: Value>(&self) -> Result<Vec<T>, StoreError> {
        self.rows()?.iter().map(|row| row.get("value")).collect()
    }

    fn rows(&self) -> Result<&[Row], StoreError> {
        let rows = self.0.get().ok_or_else(|| StoreError::fault("rows are read before they have arrived"))?;
        Ok(rows)
    }

    pub(crate) fn fill(&self, rows: Vec<Row>) {
        // Only the one statement that it belongs to fills it.
        let _ = self.0.set(rows);
    }
}

pub(crate) enum Inner {
    /// A guard at the one writer of SQLite; `None` while a statement of it runs on a thread.
    SqliteWrite(Option<WriteGuard>),
    SqliteRead(Reader),
    Postgres(Box<PgSession>),
}

impl Tx {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner, queries: Queries::default(), failed: false }
    }

    /// What it cost so far.
    pub fn queries(&self) -> Queries {
        self.queries
    }

    /// Runs a statement; returns how many rows it touched.
    pub async fn execute(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.queries.round_trips += 1;
        self.begin_statement()?;
        let touched = match &mut self.inner {
            Inner::SqliteWrite(guard) => write(guard, sql, args).await,
            Inner::SqliteRead(reader) => reader.run(sql, args).await,
            Inner::Postgres(session) => session.run(sql, args).await.map(|answer| answer.touched),
        };
        self.end_statement(touched)
    }

    /// Runs a statement whose result nobody needs, so that on PostgreSQL it shares the round trip of what comes after it.
    /// Its failure is that of the next statement that is waited for, or of the commit. Where the caller tells a failure
    /// apart, or holds a lock from here on, [`Tx::execute`] waits for it.
    pub async fn run(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        self.enqueue(sql, args, None).await
    }

    /// The same for a statement whose rows are read once the transaction is committed.
    pub async fn run_for_rows(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> Result<PendingRows, StoreError> {
        let pending = PendingRows::default();
        self.enqueue(sql, args, Some(pending.clone())).await?;
        Ok(pending)
    }

    /// The same for a statement that fails with [`StoreError::NoRow`] when it touches no row.
    pub async fn run_touching(
        &mut self,
        statement: TouchingStatement,
        args: Vec<Arg>,
    ) -> Result<(), StoreError> {
        if matches!(self.inner, Inner::Postgres(_)) {
            return self.run(statement.postgres, args).await;
        }
        let touched = self.execute(statement.sqlite, args).await?;
        self.end_statement(if touched == 0 { Err(StoreError::NoRow) } else { Ok(()) })
    }

    async fn enqueue(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
        pending: Option<PendingRows>,
    ) -> Result<(), StoreError> {
        self.begin_statement()?;
        let rows = match &mut self.inner {
            Inner::SqliteWrite(guard) => write(guard, sql, args).await,
            Inner::SqliteRead(reader) => reader.run(sql, args).await,
            Inner::Postgres(session) => {
                check(sql, &args).map(|()| session.enqueue(sql, args, pending))?;
                return Ok(());
            }
        };
        let rows = self.end_statement(rows)?;
        if let Some(pending) = pending {
            pending.fill(rows);
        }
        Ok(())
    }

    /// Runs several statements that take no arguments.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.begin_statement()?;
        let done = match &mut self.inner {
            Inner::SqliteWrite(Some(guard)) => guard.script(sql),
            Inner::SqliteWrite(None) | Inner::SqliteRead(_) => Err(cut_off()),
            Inner::Postgres(session) => session.script(sql).await,
        };
        self.end_statement(done)
    }

    /// Makes everything it did lasting, and returns once it is.
    pub async fn commit(self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::fault("a transaction in which a statement failed cannot be kept"));
        }
        match self.inner {
            Inner::SqliteWrite(guard) => guard.ok_or_else(cut_off)?.commit().await,
            Inner::SqliteRead(_) => Ok(()),
            Inner::Postgres(session) => session.commit().await,
        }
    }

    /// Takes everything it did back, as dropping it does.
    pub fn rollback(self) {
        drop(self);
    }

    fn begin_statement(&mut self) -> Result<(), StoreError> {
        self.queries.statements += 1;
        if self.failed {
            return Err(StoreError::fault("a statement of this transaction failed; nothing more runs in it"));
        }
        Ok(())
    }

    /// PostgreSQL ends a transaction with its first failure; so do we on SQLite, where it may have ended unseen.
    fn end_statement<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        self.failed |= result.is_err();
        result
    }
}

/// Runs a statement at the writer, which is gone when whoever waits for it goes away.
async fn write<T: Collect + Send + 'static>(
    guard: &mut Option<WriteGuard>,
    sql: &'static str,
    args: Vec<Arg>,
) -> Result<T, StoreError> {
    let (result, back) = guard.take().ok_or_else(cut_off)?.run(sql, args).await;
    *guard = back;
    result
}

fn cut_off() -> StoreError {
    StoreError::fault("a statement of this transaction was cut off")
}

impl Select for Tx {
    async fn rows(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        self.queries.round_trips += 1;
        self.begin_statement()?;
        let rows = match &mut self.inner {
            Inner::SqliteWrite(guard) => write(guard, sql, args).await,
            Inner::SqliteRead(reader) => reader.run(sql, args).await,
            Inner::Postgres(session) => session.run(sql, args).await.map(|answer| answer.rows),
        };
        self.end_statement(rows)
    }
}
