//! The database, whichever it is.

use std::path::{Path, PathBuf};

use crate::dialect::Dialect;
use crate::postgres::{PgListener, PgPool, PgSession};
use crate::sqlite::{Reader, SqliteDb};
use crate::tx::Inner as TxInner;
use crate::{Listener, Query, StoreError, Tx, args};

/// The database: SQLite in a file, or PostgreSQL.
pub struct Db(Inner);

enum Inner {
    Sqlite(SqliteDb, PathBuf),
    Postgres(PgPool),
}

/// A connection of the pool, given back when it is dropped.
pub(crate) enum Pooled {
    Sqlite(Reader),
    Postgres(Box<PgSession>),
}

impl Db {
    /// Opens the database at `url`: `sqlite:<file>` or `postgres://…`. With `pooler=transaction` in the latter nothing is kept on a
    /// connection, since `PgBouncer` or its like gives each transaction another one of the server.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        if let Some(file) = url.strip_prefix("sqlite:") {
            let file = PathBuf::from(file);
            return Ok(Self(Inner::Sqlite(SqliteDb::open(&file).await?, file)));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(StoreError::fault(
                "a database url begins with `sqlite:`, `postgres://` or `postgresql://`",
            ));
        }
        Ok(Self(Inner::Postgres(PgPool::open(url).await?)))
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
                TxInner::Postgres(Box::new(PgSession::begin(pool, Dialect::Postgres.begin_read()).await?))
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
            Inner::Postgres(pool) => Pooled::Postgres(Box::new(PgSession::acquire(pool).await?)),
        })
    }

    /// A transaction that changes things.
    pub async fn write(&self) -> Result<Tx, StoreError> {
        Ok(Tx::new(match &self.0 {
            Inner::Sqlite(db, _) => TxInner::SqliteWrite(Some(db.write().await?)),
            Inner::Postgres(pool) => TxInner::Postgres(Box::new(PgSession::begin(pool, "begin").await?)),
        }))
    }

    /// Hears what other servers say on `channel`.
    pub async fn listen(&self, channel: &'static str) -> Result<Listener, StoreError> {
        Ok(Listener(match &self.0 {
            Inner::Sqlite(..) => None,
            Inner::Postgres(pool) => PgListener::listen(pool, channel).await?,
        }))
    }

    /// Does the database answer?
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.query().run("select 1", args![]).await
    }

    /// Finishes what is under way and closes the database.
    pub async fn close(&self) {
        match &self.0 {
            Inner::Sqlite(db, _) => db.close().await,
            Inner::Postgres(pool) => pool.close().await,
        }
    }
}
