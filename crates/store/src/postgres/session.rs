//! A connection to PostgreSQL in somebody's hands, and what becomes of it when they go away.
//!
//! Each round trip costs more than most statements. What nobody waits for is kept back until somebody waits for something,
//! and goes with it: the beginning of a transaction with its first statement, and what [`Tx::run`] was given with
//! the next statement or the commit.
//!
//! A call that has ended, because its client left or its time was up, drops its future wherever that stands. While the
//! server has not answered, the connection is closed then and the server told to stop the statement. Between two
//! statements the transaction is rolled back.
//!
//! [`Tx::run`]: crate::Tx::run

use super::PgPool;
use super::connection::{Answer, Command};
use super::pool::Pooled;
use crate::tx::PendingRows;
use crate::{Arg, StoreError};

/// A connection of the pool, with or without a transaction.
pub(crate) struct PgSession {
    /// `None` once it was given back.
    pooled: Option<Pooled>,
    /// What goes with the next command, and where its rows belong.
    queue: Vec<(Command, Option<PendingRows>)>,
    /// Is an answer awaited?
    busy: bool,
    /// Does the server know of a transaction?
    in_transaction: bool,
}

impl PgSession {
    /// A connection without a transaction.
    pub(crate) async fn acquire(pool: &PgPool) -> Result<Self, StoreError> {
        let pooled = Some(pool.acquire().await?);
        Ok(Self { pooled, queue: Vec::new(), busy: false, in_transaction: false })
    }

    /// A connection with a transaction, which `statement` begins.
    pub(crate) async fn begin(pool: &PgPool, statement: &'static str) -> Result<Self, StoreError> {
        let mut session = Self::acquire(pool).await?;
        session.queue.push((Command::Control(statement), None));
        Ok(session)
    }

    /// Runs a statement together with the next one that is waited for.
    pub(crate) fn enqueue(&mut self, sql: &'static str, args: Vec<Arg>, rows: Option<PendingRows>) {
        self.queue.push((Command::Statement(sql, args), rows));
    }

    /// Runs a statement.
    pub(crate) async fn run(&mut self, sql: &'static str, args: Vec<Arg>) -> Result<Answer, StoreError> {
        self.flush(Command::Statement(sql, args)).await
    }

    /// Runs several statements that take no arguments.
    pub(crate) async fn script(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.flush(Command::Control(sql)).await.map(drop)
    }

    /// Ends the transaction by that statement, and gives the connection back. One in which a statement was cut off is not
    /// waited for: its connection is closed, and nothing of it remains.
    pub(crate) async fn commit(mut self) -> Result<(), StoreError> {
        if self.busy {
            return Err(StoreError::fault("a statement of this transaction was cut off"));
        }
        if !self.in_transaction && self.queue.len() <= 1 {
            // Nothing but the beginning was to be sent.
            return Ok(());
        }
        self.flush(Command::Control("commit")).await?;
        self.in_transaction = false;
        Ok(())
    }

    /// Sends what waits and `last`, and returns the answer to that.
    async fn flush(&mut self, last: Command) -> Result<Answer, StoreError> {
        let closed = || StoreError::unavailable("the connection was given back");
        let pooled = self.pooled.as_mut().ok_or_else(closed)?;
        let (mut commands, mut pending): (Vec<_>, Vec<_>) = self.queue.drain(..).unzip();
        commands.push(last);
        pending.push(None);
        self.busy = true;
        self.in_transaction |= matches!(commands[0], Command::Control(_));
        let answers = pooled.connection.run(commands).await;
        self.busy = false;
        let mut answers = answers?;
        let answer = answers.pop().unwrap_or_default();
        for (pending, answer) in pending.into_iter().zip(answers) {
            if let Some(pending) = pending {
                pending.fill(answer.rows);
            }
        }
        Ok(answer)
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        let Some(pooled) = self.pooled.take() else { return };
        if self.busy {
            return pooled.connection.cut_off();
        }
        if self.in_transaction {
            pooled.connection.send_rollback();
        }
        pooled.give_back();
    }
}
