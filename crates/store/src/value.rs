//! Values between Rust and a column.

use portico_kernel::{CallerKind, Id, Kind, Role, Timestamp};

use crate::{Row, StoreError};

/// A value bound to a placeholder. Each form knows its type even when it is null, because PostgreSQL asks.
#[derive(Debug, Clone)]
pub enum Arg {
    /// TEXT.
    Text(Option<String>),
    /// BIGINT.
    Int(Option<i64>),
    /// BOOLEAN.
    Bool(Option<bool>),
    /// BYTEA.
    Bytes(Option<Vec<u8>>),
}

/// A type that is written to and read from one column.
pub trait Value: Sized {
    /// The form in which it is bound.
    fn to_arg(&self) -> Arg;
    /// Reads it from the column `name`.
    fn read(row: &Row, name: &str) -> Result<Self, StoreError>;
}

macro_rules! plain {
    ($($type:ty => $form:ident),+) => {$(
        impl Value for $type {
            fn to_arg(&self) -> Arg {
                Arg::$form(Some(self.clone()))
            }

            fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
                row.column(name)
            }
        }

        impl Value for Option<$type> {
            fn to_arg(&self) -> Arg {
                Arg::$form(self.clone())
            }

            fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
                row.column(name)
            }
        }
    )+};
}

plain!(String => Text, i64 => Int, bool => Bool, Vec<u8> => Bytes);

impl Value for Timestamp {
    fn to_arg(&self) -> Arg {
        Arg::Int(Some(self.as_micros()))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        row.column(name).map(Self::from_micros)
    }
}

impl Value for Option<Timestamp> {
    fn to_arg(&self) -> Arg {
        Arg::Int(self.map(Timestamp::as_micros))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        Ok(row.column::<Option<i64>>(name)?.map(Timestamp::from_micros))
    }
}

fn id<K: Kind>(text: &str) -> Result<Id<K>, StoreError> {
    text.parse().map_err(|error: String| StoreError::fault(format!("{text:?} {error}")))
}

impl<K: Kind> Value for Id<K> {
    fn to_arg(&self) -> Arg {
        Arg::Text(Some(self.to_string()))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        id(&row.column::<String>(name)?)
    }
}

impl<K: Kind> Value for Option<Id<K>> {
    fn to_arg(&self) -> Arg {
        Arg::Text(self.map(|id| id.to_string()))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        row.column::<Option<String>>(name)?.as_deref().map(id).transpose()
    }
}

/// Lets a column hold enums that [`text_enum!`](portico_kernel::text_enum) wrote, by their names.
#[macro_export]
macro_rules! text_value {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::Value for $type {
            fn to_arg(&self) -> $crate::Arg {
                $crate::Arg::Text(Some(self.name().to_owned()))
            }

            fn read(row: &$crate::Row, name: &str) -> Result<Self, $crate::StoreError> {
                let text: String = row.get(name)?;
                Self::parse(&text)
                    .ok_or_else(|| $crate::StoreError::fault(format!("{text:?} is not a value of the column {name}")))
            }
        }
    )+};
}

text_value!(CallerKind, Role);

impl Value for Option<Role> {
    fn to_arg(&self) -> Arg {
        Arg::Text(self.map(|role| role.name().to_owned()))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        match row.get::<Option<String>>(name)? {
            Some(_) => row.get(name).map(Some),
            None => Ok(None),
        }
    }
}

/// The arguments of a statement, in the order of its placeholders.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::Value::to_arg(&$value)),*] };
}
