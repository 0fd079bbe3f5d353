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

/// A type that is written to and read from one column. An [`Option`] of it is null when it is `None`.
pub trait Value: Sized {
    /// Null, in the form in which it is bound.
    const NULL: Arg;
    /// The form in which it is bound.
    fn to_arg(&self) -> Arg;
    /// Reads it from the column `name`, which is not null.
    fn read(row: &Row, name: &str) -> Result<Self, StoreError>;
}

impl<T: Value> Value for Option<T> {
    const NULL: Arg = T::NULL;

    fn to_arg(&self) -> Arg {
        self.as_ref().map_or(T::NULL, T::to_arg)
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        if row.is_null(name)? { Ok(None) } else { T::read(row, name).map(Some) }
    }
}

macro_rules! plain {
    ($($type:ty => $form:ident by $read:ident),+ $(,)?) => {$(
        impl Value for $type {
            const NULL: Arg = Arg::$form(None);

            fn to_arg(&self) -> Arg {
                Arg::$form(Some(self.clone()))
            }

            fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
                row.$read(name).map(Self::from)
            }
        }
    )+};
}

plain!(String => Text by text, i64 => Int by int, bool => Bool by bool, Vec<u8> => Bytes by bytes);

impl Value for Timestamp {
    const NULL: Arg = Arg::Int(None);

    fn to_arg(&self) -> Arg {
        Arg::Int(Some(self.as_micros()))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        row.int(name).map(Self::from_micros)
    }
}

impl<K: Kind> Value for Id<K> {
    const NULL: Arg = Arg::Text(None);

    fn to_arg(&self) -> Arg {
        Arg::Text(Some(self.to_string()))
    }

    fn read(row: &Row, name: &str) -> Result<Self, StoreError> {
        let text = row.text(name)?;
        text.parse().map_err(|error: String| StoreError::fault(format!("{text:?} {error}")))
    }
}

/// Lets a column hold enums that [`text_enum!`](portico_kernel::text_enum) wrote, by their names.
#[macro_export]
macro_rules! text_value {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::Value for $type {
            const NULL: $crate::Arg = $crate::Arg::Text(None);

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

/// The arguments of a statement, in the order of its placeholders.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::Value::to_arg(&$value)),*] };
}
