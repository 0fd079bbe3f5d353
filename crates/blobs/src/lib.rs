//! Bytes that are too large for a row.
//!
//! A [`BlobStore`] keeps objects under keys: [`FileStore`] in the data folder, [`S3Store`] at a service that speaks S3.
//! [`Blobs`] is what areas use. [`Blobs::upload`] streams the bytes to the store, outside of any transaction, and
//! computes their SHA-256 on the way. [`Blobs::record`] then writes the row in the caller's transaction; equal content
//! of an account becomes one row. [`Blobs::release`] removes the row with its last use. Whatever has no row after a day
//! is removed from the store by [`Blobs::sweep`]: uploads that broke, duplicates, and what was released or erased.
//!
//! Sealed blobs are encrypted in chunks (`sealing.rs`), so that a range is read without the rest.
//!
//! Start reading at [`Blobs::upload`].
//!
//! Invariant: a row is written after its object is stored, and an object is removed after its row.

mod blobs;
mod error;
mod files;
mod limits;
mod metrics;
mod model;
mod s3;
mod sealing;
mod sql;
mod store;
mod sweep;

pub use blobs::{Blobs, SEALED};
pub use error::BlobError;
pub use files::FileStore;
pub use limits::SWEEP_EVERY;
pub use metrics::Metrics;
pub use model::{Blob, StoredUpload, UploadOptions};
pub use s3::{S3Settings, S3Store};
pub use sql::{ERASE, PROBE};
pub use store::{BlobStore, BoxFuture, ByteStream, Object};
pub use sweep::{BlobReport, SweepPage};
