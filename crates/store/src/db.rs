//! The database, whichever it is.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::SqliteConnectOptions;

use crate::dialect::Dialect;
use crate::sqlite::SqliteDb;
use crate::tx::Inner as TxInner;
use crate::{StoreError, Tx};

/// Connections to PostgreSQL at once.
const CONNECTIONS_MAX: u32 = 20;
/// How long a caller waits for a connection before it is told that the database cannot be reached.
const ACQUIRE_MAX: Duration = Duration::from_secs(5);

/// The database: SQLite in a file, or PostgreSQL.
pub struct Db(Inner);

enum Inner {
    Sqlite(SqliteDb),
    Postgres(PgPool),
}

impl Db {
    /// Opens the database at `url`: `sqlite:<file>` or `postgres://…`.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            let options = SqliteConnectOptions::new().filename(Path::new(file));
            return Ok(Self(Inner::Sqlite(SqliteDb::open(options).await?)));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::fault(
                "a database url begins with `sqlite:`, `postgres://` or `postgresql://`",
            ));
        }
        let options = PgConnectOptions::from_str(url)?.application_name("portico");
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_with(options)
            .await?;
        Ok(Self(Inner::Postgres(pool)))
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.0 {
            Inner::Sqlite(_) => Dialect::Sqlite,
            Inner::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Can another process write to this database beside us? Not while we serve from SQLite's file.
    pub fn is_shared(&self) -> bool {
        self.dialect() == Dialect::Postgres
    }

    /// A transaction that reads one state of the database.
    pub async fn read(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(match &self.0 {
            Inner::Sqlite(db) => TxInner::SqliteRead(db.read().await?),
            Inner::Postgres(pool) => {
                TxInner::Postgres(pool.begin_with(Dialect::Postgres.begin_read()).await?)
            }
        }))
    }

    /// A transaction that changes things.
    pub async fn write(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(match &self.0 {
            Inner::Sqlite(db) => TxInner::SqliteWrite(db.write().await?),
            Inner::Postgres(pool) => TxInner::Postgres(pool.begin().await?),
        }))
    }

    /// Finishes what is under way and lets go of the database.
    pub async fn close(&self) {
        match &self.0 {
            Inner::Sqlite(db) => db.close().await,
            Inner::Postgres(pool) => pool.close().await,
        }
    }
}
