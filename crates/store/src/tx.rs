//! One transaction, on either database.

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Postgres, Sqlite, Transaction};

use crate::row::Inner as RowInner;
use crate::sqlite::WriteGuard;
use crate::{Arg, FromRow, Row, StoreError};

/// A transaction. It ends with [`Tx::commit`]; dropped before that, nothing of it remains.
pub struct Tx {
    pub(crate) inner: Inner,
    queries: u32,
    /// Did a statement fail? Then nothing more runs, and nothing of it can be kept.
    failed: bool,
}

pub(crate) enum Inner {
    /// A guard at the one writer of SQLite.
    SqliteWrite(WriteGuard),
    SqliteRead(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
    /// No transaction at all: each statement sees what is there when it runs.
    SqliteGlance(PoolConnection<Sqlite>),
    PostgresGlance(PoolConnection<Postgres>),
}

macro_rules! bind {
    ($query:expr, $args:expr) => {
        $args.into_iter().fold($query, |query, arg| match arg {
            Arg::Text(value) => query.bind(value),
            Arg::Int(value) => query.bind(value),
            Arg::Bool(value) => query.bind(value),
            Arg::Bytes(value) => query.bind(value),
        })
    };
}

fn sqlite(sql: &'static str, args: Vec<Arg>) -> Query<'static, Sqlite, SqliteArguments> {
    bind!(sqlx::query(sql), args)
}

fn postgres(sql: &'static str, args: Vec<Arg>) -> Query<'static, Postgres, PgArguments> {
    bind!(sqlx::query(sql), args)
}

impl Tx {
    pub(crate) fn new(inner: Inner) -> Self {
        Self { inner, queries: 0, failed: false }
    }

    /// How many statements it has run.
    pub fn queries(&self) -> u32 {
        self.queries
    }

    /// Runs a statement; answers how many rows it touched.
    pub async fn execute(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        self.check(sql, &args)?;
        let rows = match &mut self.inner {
            Inner::SqliteWrite(guard) => {
                sqlite(sql, args).execute(guard.connection()).await.map(|done| done.rows_affected())
            }
            Inner::SqliteRead(tx) => {
                sqlite(sql, args).execute(&mut **tx).await.map(|done| done.rows_affected())
            }
            Inner::Postgres(tx) => {
                postgres(sql, args).execute(&mut **tx).await.map(|done| done.rows_affected())
            }
            Inner::SqliteGlance(connection) => {
                sqlite(sql, args).execute(&mut **connection).await.map(|done| done.rows_affected())
            }
            Inner::PostgresGlance(connection) => {
                postgres(sql, args).execute(&mut **connection).await.map(|done| done.rows_affected())
            }
        };
        self.note(rows)
    }

    /// Every row of the answer.
    pub async fn all<T: FromRow>(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<Vec<T>, StoreError> {
        self.check(sql, &args)?;
        let rows = match &mut self.inner {
            Inner::SqliteWrite(guard) => {
                sqlite(sql, args).fetch_all(guard.connection()).await.map(|rows| wrap(rows, RowInner::Sqlite))
            }
            Inner::SqliteRead(tx) => {
                sqlite(sql, args).fetch_all(&mut **tx).await.map(|rows| wrap(rows, RowInner::Sqlite))
            }
            Inner::Postgres(tx) => {
                postgres(sql, args).fetch_all(&mut **tx).await.map(|rows| wrap(rows, RowInner::Postgres))
            }
            Inner::SqliteGlance(connection) => {
                sqlite(sql, args).fetch_all(&mut **connection).await.map(|rows| wrap(rows, RowInner::Sqlite))
            }
            Inner::PostgresGlance(connection) => postgres(sql, args)
                .fetch_all(&mut **connection)
                .await
                .map(|rows| wrap(rows, RowInner::Postgres)),
        };
        self.note(rows)?.iter().map(T::from_row).collect()
    }

    /// PostgreSQL ends a transaction with its first failure; so do we on SQLite, where it may have ended unseen.
    fn note<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T, StoreError> {
        self.failed |= result.is_err();
        Ok(result?)
    }

    /// The first row of the answer, if there is one.
    pub async fn first<T: FromRow>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }

    /// The one row that the statement always answers.
    pub async fn one<T: FromRow>(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<T, StoreError> {
        self.first(sql, args).await?.ok_or_else(|| StoreError::fault(format!("no row from: {sql}")))
    }

    /// Runs several statements that take no arguments.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<(), StoreError> {
        let script = sqlx::raw_sql(sql);
        match &mut self.inner {
            Inner::SqliteWrite(guard) => script.execute(guard.connection()).await.map(drop)?,
            Inner::SqliteRead(tx) => script.execute(&mut **tx).await.map(drop)?,
            Inner::Postgres(tx) => script.execute(&mut **tx).await.map(drop)?,
            Inner::SqliteGlance(connection) => script.execute(&mut **connection).await.map(drop)?,
            Inner::PostgresGlance(connection) => script.execute(&mut **connection).await.map(drop)?,
        }
        Ok(())
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
            Inner::Postgres(tx) => Ok(tx.commit().await?),
            Inner::SqliteGlance(_) | Inner::PostgresGlance(_) => Ok(()),
        }
    }

    /// Takes everything it did back.
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.inner {
            Inner::SqliteWrite(guard) => guard.rollback().await,
            Inner::SqliteRead(tx) => Ok(tx.rollback().await?),
            Inner::Postgres(tx) => Ok(tx.rollback().await?),
            Inner::SqliteGlance(_) | Inner::PostgresGlance(_) => Ok(()),
        }
    }

    /// SQLite binds a missing argument as null without a word, so the numbers are compared here.
    fn check(&mut self, sql: &str, args: &[Arg]) -> Result<(), StoreError> {
        self.queries += 1;
        if self.failed {
            return Err(StoreError::fault("a statement of this transaction failed; nothing more runs in it"));
        }
        let placeholders = placeholders(sql);
        if placeholders == args.len() {
            return Ok(());
        }
        Err(StoreError::fault(format!("{placeholders} placeholders, {} arguments in: {sql}", args.len())))
    }
}

fn wrap<R>(rows: Vec<R>, row: impl Fn(R) -> RowInner) -> Vec<Row> {
    rows.into_iter().map(|inner| Row(row(inner))).collect()
}

/// The highest number after a `$`. No statement of ours has a `$` elsewhere.
fn placeholders(sql: &str) -> usize {
    let after_dollar = sql.split('$').skip(1);
    let numbers = after_dollar.filter_map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::placeholders;

    #[test]
    fn placeholders_are_counted_by_their_highest_number() {
        assert_eq!(placeholders("select 1"), 0);
        assert_eq!(placeholders("select $1, $2 where $1 = $10"), 10);
    }
}
