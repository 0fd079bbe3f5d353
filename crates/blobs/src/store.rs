//! What every blob store can do.

use std::ops::Range;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;

use crate::BlobError;

/// Bytes as they come. After an error nothing follows.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, BlobError>> + Send>>;

/// A future behind a pointer, so that stores can be exchanged.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BlobError>> + Send + 'a>>;

/// What a store holds under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The key.
    pub key: String,
    /// The size in bytes.
    pub size: u64,
}

/// Keeps objects under keys. A key is used for one upload and never again, so an object does not change.
pub trait BlobStore: Send + Sync + 'static {
    /// Stores what `body` yields, and returns its size. The object is there once this has returned, and lasts; when
    /// `body` fails, or the future is dropped, there is none.
    fn put<'a>(&'a self, key: &'a str, body: ByteStream) -> BoxFuture<'a, u64>;

    /// Reads a range of an object. The stream fails when the object ends before the range does.
    fn get<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, ByteStream>;

    /// Returns the size of an object, or `None` when there is no such object.
    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<u64>>;

    /// Removes an object, and what an upload of that key has left behind. It succeeds also when there is neither.
    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, ()>;

    /// Lists up to `limit` objects with keys after `after`, in the order of the keys. Uploads that broke are listed
    /// too, where the store knows of them.
    fn list<'a>(&'a self, after: &'a str, limit: usize) -> BoxFuture<'a, Vec<Object>>;
}
