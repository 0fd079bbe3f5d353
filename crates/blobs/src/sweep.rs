//! The store and the table, compared: for the sweep, and for `portico doctor`.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use portico_kernel::BlobId;
use portico_store::Db;

use crate::{BlobError, Blobs, Object, limits, sql};

/// What one page of the sweep found.
#[derive(Debug, Default)]
pub struct SweepPage {
    /// Objects without a row, which were removed.
    pub removed: u64,
    /// Rows whose object is gone.
    pub missing: Vec<String>,
    /// Where the next page begins, or `None` after the last one.
    pub next: Option<String>,
}

/// What `portico doctor` tells of the store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BlobReport {
    /// Blobs that the table knows of.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that the next sweep removes.
    pub orphans: u64,
    /// Blobs whose object is gone.
    pub missing: u64,
}

/// A page of both, up to where both are known.
struct Comparison {
    orphans: Vec<String>,
    missing: Vec<String>,
    next: Option<String>,
}

impl Blobs {
    /// Removes objects that have no row a day after their upload began, one page of them; `after` is empty for the first
    /// page. Rows whose object is gone are logged. Several servers may do this at once.
    pub async fn sweep(&self, db: &Db, after: &str) -> Result<SweepPage, BlobError> {
        let found = self.count(self.compare(db, after).await)?;
        for key in &found.orphans {
            self.count(self.store.delete(key).await)?;
        }
        for blob in &found.missing {
            tracing::error!(blob, "Blob object is missing from the store");
        }
        Ok(SweepPage { removed: found.orphans.len() as u64, missing: found.missing, next: found.next })
    }

    /// Shows that the store can be written, read and deleted from, and compares all of it with the table. It removes
    /// nothing but what it wrote itself.
    pub async fn check(&self, db: &Db) -> Result<BlobReport, BlobError> {
        self.try_store().await?;
        let totals = sql::totals(&mut db.query()).await?;
        let (blobs, bytes) = (totals.blobs.unsigned_abs(), totals.bytes.unsigned_abs());
        let mut report = BlobReport { blobs, bytes, ..BlobReport::default() };
        let mut after = Some(String::new());
        while let Some(from) = after {
            let page = self.compare(db, &from).await?;
            report.orphans += page.orphans.len() as u64;
            report.missing += page.missing.len() as u64;
            after = page.next;
        }
        Ok(report)
    }

    async fn try_store(&self) -> Result<(), BlobError> {
        let key = self.entropy.id(self.clock.now()) as BlobId;
        let (key, content) = (key.to_string(), Bytes::from_static(b"portico doctor was here"));
        let body = stream::iter([Ok(content.clone())]).boxed();
        self.store.put(&key, body).await?;
        let read = self.store.get(&key, 8..14).await?.try_collect::<Vec<_>>().await;
        self.store.delete(&key).await?;
        if read?.concat() != content[8..14] || self.store.head(&key).await?.is_some() {
            return Err(BlobError::Refused("it does not return or remove what was stored".to_owned()));
        }
        Ok(())
    }

    /// Lists first and reads the table afterwards: what is in the table by then was in the store before.
    async fn compare(&self, db: &Db, after: &str) -> Result<Comparison, BlobError> {
        let page = limits::SWEEP_PAGE;
        let objects = self.store.list(after, page).await?;
        let rows = sql::ids_after(&mut db.query(), after, page).await?;
        // What is younger may still get its row, or its object.
        let horizon = BlobId::from_parts(self.clock.now() - limits::ORPHAN_GRACE, [0; 10]).to_string();
        let last_object = objects.last().filter(|_| objects.len() == page).map(|last| last.key.clone());
        let last_row = rows.last().filter(|_| rows.len() == page).cloned();
        let end = [last_object, last_row].into_iter().flatten().fold(horizon.clone(), String::min);
        let known: HashSet<&str> = rows.iter().map(String::as_str).collect();
        let stored: HashSet<&str> = objects.iter().map(|object| object.key.as_str()).collect();
        // An object that is not named as ours are was put there by somebody else.
        let is_ours = |object: &&Object| object.key.parse::<BlobId>().is_ok();
        let orphans = objects.iter().filter(is_ours).map(|object| &object.key);
        let orphans = orphans.filter(|key| **key <= end && !known.contains(key.as_str())).cloned().collect();
        let missing =
            rows.iter().filter(|id| **id <= end && !stored.contains(id.as_str())).cloned().collect();
        Ok(Comparison { orphans, missing, next: (end < horizon).then_some(end) })
    }
}
