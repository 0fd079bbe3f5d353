//! One transaction, on either database.

use std::sync::{Arc, OnceLock};

use crate::placeholders::check;
use crate::postgres::PgSession;
use crate::sqlite::{Collect, Reader, WriteGuard};
use crate::{Arg, FromRow, Row, Select, StoreError, Value};

/// A transaction. It ends with [`Tx::commit`]; dropped before that, nothing of it remains.
pub struct Tx {
    inner: Inner,
    statements: u32,
    round_trips: u32,
    /// Did a statement fail? Then nothing more runs, and nothing of it can be kept.
    failed: bool,
}

/// The rows of a statement that was sent with [`Tx::send_for_rows`].
#[derive(Clone, Default)]
pub struct SentRows(Arc<OnceLock<Vec<Row>>>);

impl SentRows {
    /// Returns every row as a record, once the transaction is committed.
    pub fn all<T: FromRow>(&self) -> Result<Vec<T>, StoreError> {
        self.rows()?.iter().map(T::from_row).collect()
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
        Self { inner, statements: 0, round_trips: 0, failed: false }
    }

    /// How many statements it has run.
    pub fn queries(&self) -> u32 {
        self.statements
    }

    /// How often it waited for the database, but for the commit.
    pub fn round_trips(&self) -> u32 {
        self.round_trips
    }

    /// Runs a statement; returns how many rows it touched.
    pub async fn execute(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.round_trips += 1;
        self.begin_statement()?;
        let touched = match &mut self.inner {
            Inner::SqliteWrite(guard) => write(guard, sql, args).await,
            Inner::SqliteRead(reader) => reader.run(sql, args).await,
            Inner::Postgres(session) => session.run(sql, args).await.map(|answer| answer.touched),
        };
        self.end_statement(touched)
    }

    /// Runs a statement whose number of rows does not matter.
    pub async fn run(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        self.execute(sql, args).await.map(drop)
    }

    /// Sends a statement whose result nobody needs before the commit, so that it can share a round trip with those
    /// behind it. Its failure is that of the next statement that is waited for, or of the commit.
    pub async fn send(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        self.send_and_keep(sql, args, None).await
    }

    /// The same for a statement whose rows are read once the transaction is committed.
    pub async fn send_for_rows(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<SentRows, StoreError> {
        let sent = SentRows::default();
        self.send_and_keep(sql, args, Some(sent.clone())).await?;
        Ok(sent)
    }

    async fn send_and_keep(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
        sent: Option<SentRows>,
    ) -> Result<(), StoreError> {
        self.begin_statement()?;
        let rows = match &mut self.inner {
            Inner::SqliteWrite(guard) => write(guard, sql, args).await,
            Inner::SqliteRead(reader) => reader.run(sql, args).await,
            Inner::Postgres(session) => {
                check(sql, &args).map(|()| session.send(sql, args, sent))?;
                return Ok(());
            }
        };
        let rows = self.end_statement(rows)?;
        if let Some(sent) = sent {
            sent.fill(rows);
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

    /// Takes everything it did back.
    #[expect(clippy::unused_async, reason = "for now")]
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.inner {
            Inner::SqliteWrite(Some(guard)) => guard.rollback(),
            Inner::SqliteWrite(None) | Inner::SqliteRead(_) => Ok(()),
            Inner::Postgres(session) => {
                drop(session);
                Ok(())
            }
        }
    }

    fn begin_statement(&mut self) -> Result<(), StoreError> {
        self.statements += 1;
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
        self.round_trips += 1;
        self.begin_statement()?;
        let rows = match &mut self.inner {
            Inner::SqliteWrite(guard) => write(guard, sql, args).await,
            Inner::SqliteRead(reader) => reader.run(sql, args).await,
            Inner::Postgres(session) => session.run(sql, args).await.map(|answer| answer.rows),
        };
        self.end_statement(rows)
    }
}
