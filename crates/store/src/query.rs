//! Statements outside of a transaction.

use crate::connection::check;
use crate::{Arg, Db, Row, Select, StoreError};

/// Runs each statement by itself, on a connection of its own and without a transaction: a third of the round trips of
/// [`Db::read`]. Two statements may see two states of the database. On SQLite it only reads.
#[derive(Clone, Copy)]
pub struct Query<'d>(pub(crate) &'d Db);

impl Query<'_> {
    /// Runs a statement whose number of rows does not matter.
    pub async fn run(&self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        check(sql, &args)?;
        let mut pooled = self.0.acquire().await?;
        let done = pooled.begin_statement()?.execute(sql, args).await;
        pooled.end_statement();
        Ok(done.map(drop)?)
    }
}

impl Select for Query<'_> {
    async fn rows(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        check(sql, &args)?;
        let mut pooled = self.0.acquire().await?;
        let rows = pooled.begin_statement()?.fetch(sql, args).await;
        pooled.end_statement();
        Ok(rows?)
    }
}
