//! Why bytes could not be stored or read.

use std::{fmt, io};

use portico_kernel::{Code, Problem, seconds};
use portico_store::StoreError;

/// Why an upload, a read or a deletion failed.
#[derive(Debug)]
pub enum BlobError {
    /// The upload is longer than its limit.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Whoever sends the upload failed, or was refused while it was read.
    Body(Problem),
    /// The upload began so long ago that its object may be gone.
    Expired,
    /// There is no object of that key.
    Missing(String),
    /// The object is not what was stored: cut off, or changed.
    Damaged(String),
    /// The disk is full.
    Full(io::Error),
    /// The store cannot be used now. Trying again may help.
    Unavailable(String),
    /// The store refuses, and will do so again: wrong settings, wrong permissions, or a fault of ours.
    Refused(String),
    /// The database failed.
    Database(StoreError),
}

impl fmt::Display for BlobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => write!(f, "the upload is larger than {limit} bytes, the maximum"),
            Self::Body(problem) => write!(f, "the upload broke off: {problem}"),
            Self::Expired => f.write_str("the upload began too long ago to be recorded"),
            Self::Missing(key) => write!(f, "the blob store has no object {key}"),
            Self::Damaged(message) => write!(f, "an object of the blob store is damaged: {message}"),
            Self::Full(error) => write!(f, "the disk of the blob store is full: {error}"),
            Self::Unavailable(message) => write!(f, "the blob store cannot be used now: {message}"),
            Self::Refused(message) => write!(f, "the blob store refused: {message}"),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BlobError {}

impl From<StoreError> for BlobError {
    fn from(error: StoreError) -> Self {
        Self::Database(error)
    }
}

impl From<io::Error> for BlobError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(error),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Refused(error.to_string())
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::TooLarge { limit } => {
                let message = format!("The upload is larger than {limit} bytes, the maximum.");
                Self::new(Code::PayloadTooLarge, message)
            }
            BlobError::Body(problem) => problem,
            BlobError::Expired => {
                Self::new(Code::Timeout, "The upload began too long ago; send it again.").because(error)
            }
            BlobError::Full(_) | BlobError::Unavailable(_) => {
                Self::unavailable("Files cannot be stored or read right now.", seconds(5)).because(error)
            }
            BlobError::Database(error) => error.into(),
            BlobError::Missing(_) | BlobError::Damaged(_) | BlobError::Refused(_) => Self::internal(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_limit_are_told_apart() {
        // What `write` says on Linux when there is no room: ENOSPC.
        let full = BlobError::from(io::Error::from_raw_os_error(28));
        assert!(full.to_string().starts_with("the disk of the blob store is full"), "{full}");
        assert_eq!(Problem::from(full).code(), Code::Unavailable);
        let large = Problem::from(BlobError::TooLarge { limit: 200 });
        assert_eq!(
            (large.code(), large.error()),
            (Code::PayloadTooLarge, "The upload is larger than 200 bytes, the maximum.")
        );
        let denied = BlobError::from(io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(Problem::from(denied).code(), Code::Internal);
    }
}
