//! A connection to PostgreSQL, and what becomes of it when whoever uses it goes away.
//!
//! A call that has ended, because its client left or its time was up, drops its future wherever that stands. In the middle
//! of a statement the connection is closed then, and the database, which looks whether its client is still there, stops
//! the statement. Between two statements the transaction is taken back.
//!
//! Nothing is sent to cancel a statement: that takes a connection of its own, to the very server that runs it, while a
//! closed connection reaches that server through any pooler.

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{Executor, Postgres};
use tokio::runtime::Handle;

/// A connection of the pool, with or without a transaction.
pub(crate) struct PgSession {
    /// `None` once it was given back.
    connection: Option<PoolConnection<Postgres>>,
    /// Is a statement under way?
    busy: bool,
    in_transaction: bool,
}

impl PgSession {
    /// A connection without a transaction.
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: Some(pool.acquire().await?), busy: false, in_transaction: false })
    }

    /// A connection with a transaction, which `statement` begins.
    pub(crate) async fn begin(pool: &PgPool, statement: &'static str) -> Result<Self, sqlx::Error> {
        let mut session = Self::acquire(pool).await?;
        session.run(statement).await?;
        session.in_transaction = true;
        Ok(session)
    }

    /// The connection, for a statement that is under way until [`PgSession::end_statement`].
    pub(crate) fn begin_statement(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        self.busy = true;
        self.connection.as_deref_mut().ok_or(sqlx::Error::PoolClosed)
    }

    pub(crate) fn end_statement(&mut self) {
        self.busy = false;
    }

    /// Ends the transaction by that statement, and gives the connection back. One in which a statement was cut off is not
    /// waited for: its connection is closed, and nothing of it remains.
    pub(crate) async fn end(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        if self.busy {
            return Err(sqlx::Error::Protocol("a statement of this transaction was cut off".to_owned()));
        }
        self.run(statement).await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Was a statement cut off?
    pub(crate) fn is_cut_off(&self) -> bool {
        self.busy
    }

    /// A connection on which the beginning or the end of a transaction failed is in an unknown state, and is closed.
    async fn run(&mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        self.begin_statement()?.execute(statement).await?;
        self.end_statement();
        Ok(())
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        let runtime = Handle::try_current().ok().filter(|_| self.in_transaction && !self.busy);
        match runtime {
            Some(runtime) => drop(runtime.spawn(async move {
                if connection.execute("rollback").await.is_err() {
                    connection.close_on_drop();
                }
            })),
            None if self.busy || self.in_transaction => connection.close_on_drop(),
            None => {}
        }
    }
}
