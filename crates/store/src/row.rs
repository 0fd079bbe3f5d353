//! Rows, from whichever database.

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{ColumnIndex, Decode, Postgres, Row as _, Sqlite, Type, ValueRef as _};

use crate::{StoreError, Value};

/// One row of an answer.
pub struct Row(pub(crate) Inner);

pub(crate) enum Inner {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// The value of the column `name`.
    pub fn get<T: Value>(&self, name: &str) -> Result<T, StoreError> {
        T::read(self, name)
    }

    pub(crate) fn is_null(&self, name: &str) -> Result<bool, StoreError> {
        Ok(match &self.0 {
            Inner::Sqlite(row) => row.try_get_raw(name)?.is_null(),
            Inner::Postgres(row) => row.try_get_raw(name)?.is_null(),
        })
    }

    pub(crate) fn column<T>(&self, name: &str) -> Result<T, StoreError>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
        for<'n> &'n str: ColumnIndex<SqliteRow> + ColumnIndex<PgRow>,
    {
        match &self.0 {
            Inner::Sqlite(row) => row.try_get(name),
            Inner::Postgres(row) => row.try_get(name),
        }
        .map_err(StoreError::from)
    }
}

/// A record that is read from a row. [`from_row!`](crate::from_row) writes it.
pub trait FromRow: Sized {
    /// Reads the record.
    fn from_row(row: &Row) -> Result<Self, StoreError>;
}

/// Reads a record from columns of the same names as its fields.
#[macro_export]
macro_rules! from_row {
    ($record:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::FromRow for $record {
            fn from_row(row: &$crate::Row) -> Result<Self, $crate::StoreError> {
                Ok(Self { $($field: row.get(stringify!($field))?),+ })
            }
        }
    };
}
