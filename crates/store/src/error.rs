//! What can go wrong between us and the database.

use std::fmt;
use std::sync::Arc;

use portico_kernel::{Problem, seconds};

/// A failure of the database or of our talk with it.
#[derive(Debug, Clone)]
pub enum StoreError {
    /// A statement that had to touch a row found none.
    NoRow,
    /// A row of that name exists already.
    Conflict(Arc<dyn std::error::Error + Send + Sync>),
    /// The database cannot be used right now: gone, full, or busy for too long. Trying again may help.
    Unavailable(Arc<dyn std::error::Error + Send + Sync>),
    /// A fault of ours: a statement that does not fit, or a value that does not read.
    Fault(Arc<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// A fault with this message.
    pub fn fault(words: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Fault(Arc::from(words.into()))
    }

    /// The database cannot be used; the message says why.
    pub fn unavailable(words: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unavailable(Arc::from(words.into()))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRow => f.write_str("the row is not there any more"),
            Self::Conflict(cause) => write!(f, "the row exists already: {cause}"),
            Self::Unavailable(cause) => write!(f, "the database cannot be used: {cause}"),
            Self::Fault(cause) => write!(f, "the database refused: {cause}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => {
                Self::unavailable("The database cannot be reached right now.", seconds(1)).because(error)
            }
            _ => Self::internal(error),
        }
    }
}

/// Turns a row that exists already into the refusal that its operation means.
pub trait OnConflict<T> {
    /// `problem` when the row exists already; any other failure as it is.
    fn on_conflict(self, problem: impl FnOnce() -> Problem) -> Result<T, Problem>;
}

impl<T> OnConflict<T> for Result<T, StoreError> {
    fn on_conflict(self, problem: impl FnOnce() -> Problem) -> Result<T, Problem> {
        self.map_err(|error| match error {
            StoreError::Conflict(_) => problem(),
            other => other.into(),
        })
    }
}
