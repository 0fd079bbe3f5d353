//! Records, without I/O.

use portico_kernel::{AccountId, BlobId, Timestamp};
use portico_store::{FromRow, Row, StoreError};

/// How an upload is to be stored.
#[derive(Debug, Clone)]
pub struct UploadOptions {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// Whether it is encrypted in the store.
    pub sealed: bool,
    /// How many bytes it may have.
    pub limit: u64,
    /// How many bytes it says it has, where it does. What is over the limit is then refused before it is read.
    pub declared_size: Option<u64>,
}

/// An upload whose object is stored, and that is not recorded yet.
#[derive(Debug)]
pub struct Upload {
    pub(crate) id: BlobId,
    pub(crate) account: AccountId,
    pub(crate) begun_at: Timestamp,
    pub(crate) media_type: String,
    pub(crate) data_key: Option<Vec<u8>>,
    /// SHA-256 of the content, in hexadecimal.
    pub hash: String,
    /// The size in bytes.
    pub size: u64,
}

/// Content of an account that is stored.
#[derive(Debug, Clone)]
pub struct Blob {
    /// The id, by which the account's things refer to it.
    pub id: BlobId,
    /// The account.
    pub account_id: AccountId,
    /// SHA-256 of the content, in hexadecimal.
    pub hash: String,
    /// The size in bytes.
    pub size: u64,
    /// The media type.
    pub media_type: String,
    /// When it was first recorded.
    pub created_at: Timestamp,
    pub(crate) data_key: Option<Vec<u8>>,
}

impl Blob {
    /// Is it encrypted in the store?
    pub fn is_sealed(&self) -> bool {
        self.data_key.is_some()
    }
}

impl FromRow for Blob {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.get("id")?,
            account_id: row.get("account_id")?,
            hash: row.get("hash")?,
            size: row.get::<i64>("size")?.unsigned_abs(),
            media_type: row.get("media_type")?,
            created_at: row.get("created_at")?,
            data_key: row.get("data_key")?,
        })
    }
}
