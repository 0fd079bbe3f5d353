//! Reading rows, inside and outside of a transaction.

use crate::{Arg, FromRow, Row, StoreError, Value};

/// What statements that read run on: a [`Tx`](crate::Tx) or a [`Query`](crate::Query).
pub trait Select: Send {
    /// Runs a statement; returns its rows.
    fn rows(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;

    /// Returns every row as a record.
    fn all<T: FromRow>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        async move { self.rows(sql, args).await?.iter().map(T::from_row).collect() }
    }

    /// Returns the first row as a record; `None` when there is no row.
    fn first<T: FromRow>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        async move { self.rows(sql, args).await?.first().map(T::from_row).transpose() }
    }

    /// Returns the one row of a statement that always has one.
    fn one<T: FromRow>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        async move { one_row(sql, self.rows(sql, args).await?.first()).and_then(T::from_row) }
    }

    /// Returns the column `value` of every row.
    fn values<T: Value>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        async move { self.rows(sql, args).await?.iter().map(value).collect() }
    }

    /// Returns the column `value` of the first row; `None` when there is no row.
    fn first_value<T: Value>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        async move { self.rows(sql, args).await?.first().map(value).transpose() }
    }

    /// Returns the column `value` of a statement that always has one row.
    fn value<T: Value>(
        &mut self,
        sql: &'static str,
        args: Vec<Arg>,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        async move { one_row(sql, self.rows(sql, args).await?.first()).and_then(value) }
    }
}

fn one_row<'r>(sql: &str, row: Option<&'r Row>) -> Result<&'r Row, StoreError> {
    row.ok_or_else(|| StoreError::fault(format!("no row from: {sql}")))
}

fn value<T: Value>(row: &Row) -> Result<T, StoreError> {
    row.get("value")
}
