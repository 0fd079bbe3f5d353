//! The few texts that differ between the two databases: the only file with two of anything.

/// Which database runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A statement that touches a row, or fails with [`StoreError::NoRow`](crate::StoreError::NoRow). [`touching!`](crate::touching!) makes it.
#[derive(Debug, Clone, Copy)]
pub struct TouchingStatement {
    #[doc(hidden)]
    pub sqlite: &'static str,
    #[doc(hidden)]
    pub postgres: &'static str,
}

/// The statement, made to fail when it touches no row. PostgreSQL has to find that out by itself, since what comes after
/// it is sent before its answer is there: it divides by the number of rows.
#[macro_export]
macro_rules! touching {
    ($sql:literal) => {
        $crate::TouchingStatement {
            sqlite: $sql,
            postgres: concat!(
                "with touched as (",
                $sql,
                " returning 1) select 1 / count(*) as value from touched"
            ),
        }
    };
}

impl Dialect {
    /// Holds every other process back until the transaction ends, however long that takes. On SQLite a write transaction does so by itself.
    pub(crate) const fn lock_for_migration(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                Some("set local statement_timeout = 0; select pg_advisory_xact_lock(8247192750341)")
            }
        }
    }

    /// Says a word on a channel; on SQLite there is nobody to say it to.
    pub(crate) const fn notify(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => Some("select pg_notify($1, $2)"),
        }
    }

    /// Begins a transaction that sees one state of the database from its first statement to its last.
    pub(crate) const fn begin_read(self) -> &'static str {
        match self {
            Self::Sqlite => "begin deferred",
            Self::Postgres => "begin transaction isolation level repeatable read, read only",
        }
    }
}
