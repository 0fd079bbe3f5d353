//! A connection to either database, for one statement.

use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Postgres, Sqlite};

use crate::row::Inner as RowInner;
use crate::{Arg, Row, StoreError};

/// A connection that is borrowed for one statement.
pub(crate) enum Connection<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
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

impl Connection<'_> {
    /// Runs a statement; returns how many rows it touched.
    pub(crate) async fn execute(self, sql: &'static str, args: Vec<Arg>) -> Result<u64, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(connection) => sqlite(sql, args).execute(connection).await?.rows_affected(),
            Self::Postgres(connection) => postgres(sql, args).execute(connection).await?.rows_affected(),
        })
    }

    /// Runs a statement; returns its rows.
    pub(crate) async fn fetch(self, sql: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(connection) => {
                wrap(sqlite(sql, args).fetch_all(connection).await?, RowInner::Sqlite)
            }
            Self::Postgres(connection) => {
                wrap(postgres(sql, args).fetch_all(connection).await?, RowInner::Postgres)
            }
        })
    }

    /// Runs several statements that take no arguments.
    pub(crate) async fn script(self, sql: &'static str) -> Result<(), sqlx::Error> {
        let script = sqlx::raw_sql(sql);
        match self {
            Self::Sqlite(connection) => script.execute(connection).await.map(drop),
            Self::Postgres(connection) => script.execute(connection).await.map(drop),
        }
    }
}

fn wrap<R>(rows: Vec<R>, row: impl Fn(R) -> RowInner) -> Vec<Row> {
    rows.into_iter().map(|inner| Row(row(inner))).collect()
}

/// Compares the number of arguments with the placeholders, because SQLite binds a missing argument as null silently.
pub(crate) fn check(sql: &str, args: &[Arg]) -> Result<(), StoreError> {
    let placeholders = placeholders(sql);
    if placeholders == args.len() {
        return Ok(());
    }
    Err(StoreError::fault(format!("{placeholders} placeholders, {} arguments in: {sql}", args.len())))
}

/// The highest number after a `$`. No statement of ours has a `$` elsewhere.
pub(crate) fn placeholders(sql: &str) -> usize {
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
