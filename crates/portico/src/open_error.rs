//! Why the platform cannot start.

use std::fmt;

use portico_engine::RegistryError;
use portico_kernel::Problem;
use portico_mail::MailError;
use portico_store::{KeyringError, StoreError};

/// Why the platform cannot start.
#[derive(Debug)]
pub enum OpenError {
    /// The data folder cannot be made.
    Folder(std::io::Error),
    /// The database cannot be used.
    Store(StoreError),
    /// The keyring cannot be used.
    Keyring(KeyringError),
    /// Two areas have something of one name, route or type.
    Registry(RegistryError),
    /// Mail cannot be sent.
    Mail(MailError),
    /// An area cannot start.
    Problem(Problem),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(error) => write!(f, "the data folder: {error}"),
            Self::Store(error) => error.fmt(f),
            Self::Keyring(error) => error.fmt(f),
            Self::Registry(error) => error.fmt(f),
            Self::Mail(error) => error.fmt(f),
            Self::Problem(problem) => {
                problem.fmt(f)?;
                problem.cause().map_or(Ok(()), |cause| write!(f, " ({cause})"))
            }
        }
    }
}

impl std::error::Error for OpenError {}

macro_rules! from {
    ($($variant:ident($error:ty))+) => {$(
        impl From<$error> for OpenError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )+};
}

from! { Folder(std::io::Error) Store(StoreError) Keyring(KeyringError) Registry(RegistryError) Mail(MailError)
Problem(Problem) }
