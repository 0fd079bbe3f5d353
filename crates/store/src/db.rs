//! The database, whichever it is.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection as _, Sqlite};

use crate::connection::Connection;
use crate::dialect::Dialect;
use crate::postgres::PgSession;
use crate::sqlite::SqliteDb;
use crate::tx::Inner as TxInner;
use crate::{Listener, Query, StoreError, Tx, args};

/// Connections to PostgreSQL at once.
const CONNECTIONS_MAX: u32 = 20;
/// How long a caller waits for a connection before it is told that the database cannot be reached.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);

const SESSION: [(&str, &str); 3] = [
    // A server that stands still in the middle of a transaction must not hold its rows for good.
    ("idle_in_transaction_session_timeout", "15s"),
    // Twice as long as a call may take; migrations have no limit.
    ("statement_timeout", "60s"),
    // So soon a statement ends whose client has gone.
    ("client_connection_check_interval", "1s"),
];

/// The database: SQLite in a file, or PostgreSQL.
pub struct Db(Inner);

enum Inner {
    Sqlite(SqliteDb, PathBuf),
    Postgres(PgPool),
}

/// A connection of the pool, given back when it is dropped.
pub(crate) enum Pooled {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PgSession),
}

impl Pooled {
    /// The connection, for a statement that is under way until [`Pooled::end_statement`].
    pub(crate) fn begin_statement(&mut self) -> Result<Connection<'_>, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(connection) => Connection::Sqlite(connection),
            Self::Postgres(session) => Connection::Postgres(session.begin_statement()?),
        })
    }

    pub(crate) fn end_statement(&mut self) {
        if let Self::Postgres(session) = self {
            session.end_statement();
        }
    }
}

impl Db {
    /// Opens the database at `url`: `sqlite:<file>` or `postgres://…`.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            let options = SqliteConnectOptions::new().filename(Path::new(file));
            return Ok(Self(Inner::Sqlite(SqliteDb::open(options).await?, PathBuf::from(file))));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::fault(
                "a database url begins with `sqlite:`, `postgres://` or `postgresql://`",
            ));
        }
        let options = PgConnectOptions::from_str(url)?
            .application_name("portico")
            .options(SESSION)
            .disable_statement_logging();
        // The pool would only say that it waited too long; a first connection says why.
        options.connect().await?.close().await?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_with(options)
            .await?;
        Ok(Self(Inner::Postgres(pool)))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.0 {
            Inner::Sqlite(..) => Dialect::Sqlite,
            Inner::Postgres(_) => Dialect::Postgres,
        }
    }

    /// The file of SQLite; `None` for PostgreSQL, which many servers may share.
    pub fn file(&self) -> Option<&Path> {
        match &self.0 {
            Inner::Sqlite(_, file) => Some(file),
            Inner::Postgres(_) => None,
        }
    }

    /// A transaction that reads one state of the database.
    pub async fn read(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(match &self.0 {
            Inner::Sqlite(db, _) => TxInner::SqliteRead(db.read().await?),
            Inner::Postgres(pool) => {
                TxInner::Postgres(PgSession::begin(pool, Dialect::Postgres.begin_read()).await?)
            }
        }))
    }

    /// Statements outside of a transaction, each by itself.
    pub fn query(&self) -> Query<'_> {
        Query(self)
    }

    /// A connection for one statement outside of a transaction.
    pub(crate) async fn acquire(&self) -> Result<Pooled, StoreError> {
        Ok(match &self.0 {
            Inner::Sqlite(db, _) => Pooled::Sqlite(db.acquire().await?),
            Inner::Postgres(pool) => Pooled::Postgres(PgSession::acquire(pool).await?),
        })
    }

    /// A transaction that changes things.
    pub async fn write(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(match &self.0 {
            Inner::Sqlite(db, _) => TxInner::SqliteWrite(db.write().await?),
            Inner::Postgres(pool) => TxInner::Postgres(PgSession::begin(pool, "begin").await?),
        }))
    }

    /// Hears what other servers say on `channel`.
    pub async fn listen(&self, channel: &'static str) -> Result<Listener, StoreError> {
        match &self.0 {
            Inner::Sqlite(..) => Ok(Listener::deaf()),
            Inner::Postgres(pool) => Listener::postgres(pool, channel).await,
        }
    }

    /// Does the database answer?
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut tx = self.read().await?;
        tx.run("select 1", args![]).await?;
        tx.rollback().await
    }

    /// Finishes what is under way and closes the database.
    pub async fn close(&self) {
        match &self.0 {
            Inner::Sqlite(db, _) => db.close().await,
            Inner::Postgres(pool) => pool.close().await,
        }
    }
}
