//! What areas use.

use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::digest::{self, SHA256};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use portico_kernel::{AccountId, BlobId, Clock, Entropy, hex};
use portico_store::{Context, Keyring, SealedColumn, Select, StoreError, Tx, sealed_column};
use tokio::sync::oneshot;

use crate::model::{Blob, StoredUpload, UploadOptions};
use crate::sealing::{self, DataKey};
use crate::{BlobError, BlobStore, ByteStream, Metrics, limits, sql};

const PURPOSE: &str = "blob";

/// What the crate keeps sealed: the keys of objects.
pub const SEALED: [SealedColumn; 1] =
    [sealed_column!("blobs", "data_key", key "id", account "account_id", row "id", purpose PURPOSE)];

/// Stores content for accounts, and reads it back.
pub struct Blobs {
    pub(crate) store: Arc<dyn BlobStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<Metrics>,
    keyring: Keyring,
}

/// What is known of an upload once it is read.
struct Measured {
    hash: String,
    size: u64,
}

/// Hashes and counts what passes.
struct Meter {
    body: ByteStream,
    hash: digest::Context,
    size: u64,
}

impl Meter {
    fn new(body: ByteStream) -> Self {
        Self { body, hash: digest::Context::new(&SHA256), size: 0 }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let piece = self.body.try_next().await?;
        if let Some(piece) = &piece {
            self.hash.update(piece);
            self.size += piece.len() as u64;
        }
        Ok(piece)
    }

    fn hash(&self) -> String {
        hex(self.hash.clone().finish().as_ref())
    }
}

/// Passes `body` on up to `limit`; what it was is told once it has ended.
fn measure(body: ByteStream, limit: u64) -> (ByteStream, oneshot::Receiver<Measured>) {
    let (sender, receiver) = oneshot::channel();
    let measured = stream::try_unfold((Meter::new(body), sender), move |(mut meter, sender)| async move {
        let piece = meter.next().await?;
        if meter.size > limit {
            return Err(BlobError::TooLarge { limit });
        }
        let Some(piece) = piece else {
            // Nobody listens any more when the upload was given up.
            let _ = sender.send(Measured { hash: meter.hash(), size: meter.size });
            return Ok(None);
        };
        Ok(Some((piece, (meter, sender))))
    });
    (Box::pin(measured), receiver)
}

/// Passes the whole content of `blob` on. The last piece follows only if all of it is what was stored.
fn verified(blob: &Blob, body: ByteStream) -> ByteStream {
    let (size, hash) = (blob.size, blob.hash.clone());
    let checked = stream::try_unfold((Meter::new(body), hash), move |(mut meter, hash)| async move {
        let Some(piece) = meter.next().await? else { return Ok(None) };
        if meter.size == size && meter.hash() != hash {
            return Err(BlobError::Damaged(format!("the content is not the one with the hash {hash}")));
        }
        Ok(Some((piece, (meter, hash))))
    });
    Box::pin(checked)
}

impl Blobs {
    /// Keeps objects in `store`, and seals with `keyring`.
    pub fn new(
        store: Arc<dyn BlobStore>,
        keyring: Keyring,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        Self { store, clock, entropy, metrics: Arc::default(), keyring }
    }

    /// What was stored and read on this server.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn count<T>(&self, result: Result<T, BlobError>) -> Result<T, BlobError> {
        result.inspect_err(|error| count_failure(&self.metrics, error))
    }

    /// Stores what `body` yields. It must be called outside of any transaction, because it takes as long as whoever
    /// sends the body. Nothing is known of the upload until [`Blobs::record`] has been committed.
    pub async fn upload(
        &self,
        account: AccountId,
        options: UploadOptions,
        body: ByteStream,
    ) -> Result<StoredUpload, BlobError> {
        let UploadOptions { media_type, sealed, limit, declared_size } = options;
        if declared_size.is_some_and(|size| size > limit) {
            return Err(BlobError::TooLarge { limit });
        }
        let begun_at = self.clock.now();
        let id: BlobId = self.entropy.id(begun_at);
        let (mut body, measured) = measure(body, limit);
        let mut data_key = None;
        if sealed {
            let key = DataKey::generate(&*self.entropy);
            body = sealing::seal(&key, body);
            let (owner, row) = (account.to_string(), id.to_string());
            let context = Context { account: &owner, row: &row, purpose: PURPOSE };
            data_key = Some(self.keyring.seal(&*self.entropy, context, key.bytes()));
        }
        self.count(self.store.put(&id.to_string(), body).await)?;
        let unread = |_| BlobError::Refused("the store did not read the upload to its end".to_owned());
        let Measured { hash, size } = self.count(measured.await.map_err(unread))?;
        self.metrics.count_in(size);
        Ok(StoredUpload { id, account, begun_at, media_type, data_key, hash, size })
    }

    /// Records an upload, in the transaction of what uses it. When the account has the same content already, that blob
    /// is returned, and the new object is left to the sweep.
    pub async fn record(&self, tx: &mut Tx, upload: StoredUpload) -> Result<Blob, BlobError> {
        let now = self.clock.now();
        if now.since(upload.begun_at) > limits::UPLOAD_LIFE {
            return Err(BlobError::Expired);
        }
        Ok(sql::record(tx, &upload, now).await?)
    }

    /// The account's blob of that id, or `None`.
    pub async fn find(
        &self,
        query: &mut impl Select,
        account: AccountId,
        id: BlobId,
    ) -> Result<Option<Blob>, StoreError> {
        sql::find(query, account, id).await
    }

    /// Gives up one use of a blob. With the last one its row is removed, and its object at the next sweep. Returns false
    /// when there is no such blob.
    pub async fn release(&self, tx: &mut Tx, account: AccountId, id: BlobId) -> Result<bool, StoreError> {
        sql::release(tx, account, id).await
    }

    /// Reads a blob, or a range of it. Content that is not what was stored fails before its last piece; of a range, that
    /// is known for sealed blobs alone.
    pub async fn open(&self, blob: &Blob, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let range = range.unwrap_or(0..blob.size);
        if range.start > range.end || range.end > blob.size {
            let message = format!("bytes {}..{} of {} were asked for", range.start, range.end, blob.size);
            return Err(BlobError::Refused(message));
        }
        if range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let body = self.count(self.read(blob, range).await)?;
        let metrics = self.metrics.clone();
        let counted = body.inspect(move |piece| match piece {
            Ok(piece) => metrics.count_out(piece.len() as u64),
            Err(error) => count_failure(&metrics, error),
        });
        Ok(counted.boxed())
    }

    async fn read(&self, blob: &Blob, range: Range<u64>) -> Result<ByteStream, BlobError> {
        let (owner, row) = (blob.account_id.to_string(), blob.id.to_string());
        let Some(data_key) = &blob.data_key else {
            let is_whole = range == (0..blob.size);
            let body = self.store.get(&row, range).await?;
            return Ok(if is_whole { verified(blob, body) } else { body });
        };
        let context = Context { account: &owner, row: &row, purpose: PURPOSE };
        let opened = self.keyring.open(context, data_key).ok();
        let key = opened.and_then(|bytes| DataKey::from_bytes(bytes.expose()));
        let key = key.ok_or_else(|| BlobError::Damaged(format!("the key of {row} does not open")))?;
        let stored = self.store.get(&row, sealing::stored_range(blob.size, &range)).await?;
        Ok(sealing::open(&key, blob.size, range, stored))
    }
}

/// Counts what is not the caller's doing.
fn count_failure(metrics: &Metrics, error: &BlobError) {
    if !matches!(error, BlobError::Body(_) | BlobError::TooLarge { .. } | BlobError::Expired) {
        metrics.count_failure();
    }
}
