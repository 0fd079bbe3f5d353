//! Statements outside of a transaction.

use crate::db::Pooled;
use crate::{Arg, Db, Row, Select, StoreError};

/// Runs each statement by itself, on a connection of its own and without a transaction: a third of the round trips of
/// [`Db::read`]. Two statements may see two states of the database. On SQLite it only reads.
#[derive(Clone, Copy)]
pub struct Query<'d>(pub(crate) &'d Db);

impl Query<'_> {
    /// Runs a statement whose number of rows does not matter.
    pub async fn run(&self, sql: &'static str, args: Vec<Arg>) -> Result<(), StoreError> {
        match self.0.acquire().await? {
            Pooled::Sqlite(mut reader) => reader.run::<u64>(sql, args).await.map(drop),
            Pooled::Postgres(mut session) => session.run(sql, args).await.map(drop),
        }
    }
}

impl Select for Query<'_> {
    async fn rows(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        match self.0.acquire().await? {
            Pooled::Sqlite(mut reader) => reader.run(sql, args).await,
            Pooled::Postgres(mut session) => session.run(sql, args).await.map(|answer| answer.rows),
        }
    }
}
