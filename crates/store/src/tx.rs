//! One transaction, on either database.

use std::sync::{Arc, OnceLock};

use sqlx::{Sqlite, Transaction};

use crate::connection::{Connection, check};
use crate::postgres::PgSession;
use crate::sqlite::WriteGuard;
use crate::{Arg, FromRow, Row, Select, StoreError};

/// A transaction. It ends with [`Tx::commit`]; dropped before that, nothing of it remains.
pub struct Tx {
    inner: Inner,
    queries: u32,
    /// Did a statement fail? Then nothing more runs, and nothing of it can be kept.
    failed: bool,
}

/// The rows of a statement that was sent with [`Tx::send_for_rows`].
#[derive(Clone, Default)]
pub struct SentRows(Arc<OnceLock<Vec<Row>>>);

impl SentRows {
    /// Returns every row as a record, once the transaction is committed.
    pub fn all<T: FromRow>(&self) -> Result<Vec<T>, StoreError> {
        let rows = self.0.get().ok_or_else(|| StoreError::fault("rows are read before they have arrived"))?;
        rows.iter().map(T::from_row).collect()
    }

    pub(crate) fn fill(&self, rows: Vec<Row>) {
        // Only the one statement that it belongs to fills it.
        let _ = self.0.set(rows);
    }
}

pub(crate) enum Inner {
    /// A guard at the one writer of SQLite.
    SqliteWrite(WriteGuard),
    SqliteRead(Transaction<'static, Sqlite>),
    Postgres(PgSession),
}

impl Tx {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner, queries: 0, failed: false }
    }

    /// How many statements it has run.
    pub fn queries(&self) -> u32 {
        self.queries
    }

    /// Runs a statement; returns how many rows it touched.
    pub async fn execute(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.admit(sql, &args)?;
        let rows = self.begin_statement()?.execute(sql, args).await;
        self.end_statement(rows)
    }

    /// Runs a statement whose number of rows does not matter.
    pub async fn run(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        self.execute(sql, args).await.map(drop)
    }

    /// Sends a statement whose result nobody needs before the commit, so that it can share a round trip with those
    /// behind it. Its failure is that of the next statement that is waited for, or of the commit.
    pub async fn send(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        self.run(sql, args).await
    }

    /// The same for a statement whose rows are read once the transaction is committed.
    pub async fn send_for_rows(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<SentRows, StoreError> {
        let sent = SentRows::default();
        sent.fill(self.rows(sql, args).await?);
        Ok(sent)
    }

    /// Runs several statements that take no arguments.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<(), StoreError> {
        let done = self.begin_statement()?.script(sql).await;
        self.end_statement(done)
    }

    /// Makes everything it did lasting, and returns once it is.
    pub async fn commit(self) -> Result<(), StoreError> {
        if self.failed {
            self.rollback().await?;
            return Err(StoreError::fault("a transaction in which a statement failed cannot be kept"));
        }
        match self.inner {
            Inner::SqliteWrite(guard) => guard.commit().await,
            Inner::SqliteRead(tx) => Ok(tx.commit().await?),
            Inner::Postgres(session) => Ok(session.end("commit").await?),
        }
    }

    /// Takes everything it did back.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.inner {
            Inner::SqliteWrite(guard) => guard.rollback().await,
            Inner::SqliteRead(tx) => Ok(tx.rollback().await?),
            Inner::Postgres(session) if session.is_cut_off() => Ok(()),
            Inner::Postgres(session) => Ok(session.end("rollback").await?),
        }
    }

    /// The connection, for a statement that is under way until [`Tx::end_statement`].
    fn begin_statement(&mut self) -> Result<Connection<'_>, StoreError> {
        Ok(match &mut self.inner {
            Inner::SqliteWrite(guard) => Connection::Sqlite(guard.connection()),
            Inner::SqliteRead(tx) => Connection::Sqlite(tx),
            Inner::Postgres(session) => Connection::Postgres(session.begin_statement()?),
        })
    }

    fn admit(&mut self, sql: &str, args: &[Arg]) -> Result<(), StoreError> {
        self.queries += 1;
        if self.failed {
            return Err(StoreError::fault("a statement of this transaction failed; nothing more runs in it"));
        }
        check(sql, args)
    }

    /// PostgreSQL ends a transaction with its first failure; so do we on SQLite, where it may have ended unseen.
    fn end_statement<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, StoreError> {
        self.failed |= result.is_err();
        if let Inner::Postgres(session) = &mut self.inner {
            session.end_statement();
        }
        Ok(result?)
    }
}

impl Select for Tx {
    async fn rows(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        self.admit(sql, &args)?;
        let rows = self.begin_statement()?.fetch(sql, args).await;
        self.end_statement(rows)
    }
}
