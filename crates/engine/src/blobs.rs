//! Bytes that are kept in the blob store: how an operation takes an upload in and gives a blob out.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use portico_blobs::{Blob, BlobError, Blobs, ByteStream, StoredUpload, UploadOptions};
use portico_kernel::{AccountId, Problem};

use crate::input::Upload;
use crate::{Area, ByteSource, BytesAnswer, Ctx, Engine, Job, JobOutcome, Metric};

/// A blob as the bytes of an answer.
struct BlobSource {
    blobs: Arc<Blobs>,
    blob: Blob,
}

impl ByteSource for BlobSource {
    fn read(self: Box<Self>, range: Range<u64>) -> BoxStream<'static, io::Result<Bytes>> {
        let opened = async move { self.blobs.open(&self.blob, Some(range)).await };
        stream::once(opened).try_flatten().map_err(io::Error::other).boxed()
    }
}

fn pieces(upload: Upload) -> ByteStream {
    let pieces = stream::try_unfold(upload, |mut upload| async move {
        let piece = upload.next().await.map_err(BlobError::Body)?;
        Ok(piece.map(|piece| (piece, upload)))
    });
    Box::pin(pieces)
}

impl Ctx {
    /// Stores the upload of the call for `account`. No transaction may be open, because it takes as long as the sender
    /// does; [`Blobs::record`] then writes its row in the operation's transaction.
    pub async fn store_upload(&mut self, account: AccountId, sealed: bool) -> Result<StoredUpload, Problem> {
        if self.has_transaction() {
            let cause = format!("{} stores an upload while its transaction is open", self.spec().name);
            return Err(Problem::internal(cause));
        }
        let upload = self.upload()?;
        let options = UploadOptions {
            media_type: upload.media_type.clone(),
            sealed,
            limit: self.spec().body_limit,
            declared_size: upload.length,
        };
        Ok(self.engine().blobs.upload(account, options, pieces(upload)).await?)
    }

    /// The blob as an answer.
    pub fn blob_answer(&self, blob: Blob) -> BytesAnswer {
        BytesAnswer {
            media_type: blob.media_type.clone(),
            length: blob.size,
            etag: Some(blob.hash.clone()),
            source: Box::new(BlobSource { blobs: self.engine().blobs.clone(), blob }),
        }
    }
}

/// Removes objects that no row names, a page at each run.
struct SweepBlobs {
    blobs: Arc<Blobs>,
    after: Mutex<String>,
}

impl Job for SweepBlobs {
    const NAME: &'static str = "blobs.sweep";
    const EVERY: Duration = portico_blobs::SWEEP_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let after = self.after.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let page = self.blobs.sweep(&engine.db, &after).await?;
        for blob in &page.missing {
            tracing::error!(blob, "Blob object is missing from the store");
        }
        let outcome = if page.next.is_some() { JobOutcome::MoreWork } else { JobOutcome::Idle };
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = page.next.unwrap_or_default();
        Ok(outcome)
    }
}

/// What the blob store brings to the registry: its sweep, its erasure and its metrics.
pub fn blobs_area(blobs: &Arc<Blobs>) -> Area {
    let counted = blobs.clone();
    Area::builder("blobs", blobs.clone())
        .job(SweepBlobs { blobs: blobs.clone(), after: Mutex::default() })
        .erases(&portico_blobs::ERASE)
        .seals(&portico_blobs::SEALED)
        .metrics(move || {
            let metrics = counted.metrics();
            vec![
                Metric::counter("blob_bytes_in", "Bytes that were stored as blobs", metrics.bytes_in()),
                Metric::counter("blob_bytes_out", "Bytes that were read from blobs", metrics.bytes_out()),
                Metric::counter("blob_failures", "Calls of the blob store that failed", metrics.failures()),
            ]
        })
        .build()
}
