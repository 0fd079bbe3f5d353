//! Rows, from whichever database.

use std::sync::Arc;

use crate::{StoreError, Value};

/// One row of an answer.
#[derive(Debug, Clone)]
pub struct Row {
    /// The names of the columns, shared by all rows of a statement.
    columns: Arc<[Box<str>]>,
    cells: Vec<Cell>,
}

/// What stands in one column of one row.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    Null,
    Text(String),
    Int(i64),
    /// Of PostgreSQL alone; SQLite keeps 0 and 1.
    Bool(bool),
    Bytes(Vec<u8>),
}

impl Row {
    pub(crate) fn new(columns: &Arc<[Box<str>]>, cells: Vec<Cell>) -> Self {
        Self { columns: columns.clone(), cells }
    }

    /// The value of the column `name`.
    pub fn get<T: Value>(&self, name: &str) -> Result<T, StoreError> {
        T::read(self, name)
    }

    pub(crate) fn is_null(&self, name: &str) -> Result<bool, StoreError> {
        Ok(matches!(self.cell(name)?, Cell::Null))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, StoreError> {
        match self.cell(name)? {
            Cell::Text(text) => Ok(text),
            other => Err(unexpected(name, "text", other)),
        }
    }

    pub(crate) fn int(&self, name: &str) -> Result<i64, StoreError> {
        match self.cell(name)? {
            Cell::Int(int) => Ok(*int),
            other => Err(unexpected(name, "a number", other)),
        }
    }

    pub(crate) fn bool(&self, name: &str) -> Result<bool, StoreError> {
        match self.cell(name)? {
            Cell::Bool(value) => Ok(*value),
            Cell::Int(value @ (0 | 1)) => Ok(*value == 1),
            other => Err(unexpected(name, "true or false", other)),
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<&[u8], StoreError> {
        match self.cell(name)? {
            Cell::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected(name, "bytes", other)),
        }
    }

    fn cell(&self, name: &str) -> Result<&Cell, StoreError> {
        let at = self.columns.iter().position(|column| **column == *name);
        at.and_then(|at| self.cells.get(at))
            .ok_or_else(|| StoreError::fault(format!("there is no column {name} in the answer")))
    }
}

fn unexpected(name: &str, wanted: &str, found: &Cell) -> StoreError {
    let found = match found {
        Cell::Null => "null",
        Cell::Text(_) => "text",
        Cell::Int(_) => "a number",
        Cell::Bool(_) => "true or false",
        Cell::Bytes(_) => "bytes",
    };
    StoreError::fault(format!("the column {name} holds {found}, not {wanted}"))
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
