//! Blobs on files and on a database of their own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use portico_blobs::{Blob, Blobs, FileStore, StoredUpload, UploadOptions};
use portico_kernel::{AccountId, Clock, Entropy, Sleep, SystemEntropy, Timestamp, hex};
use portico_store::{Db, Keyring, args};
use tempfile::TempDir;

use crate::conformance::body;

/// A clock that is turned by hand.
pub(crate) struct StoppedClock(Mutex<Timestamp>);

impl StoppedClock {
    pub(crate) fn advance(&self, span: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = *now + span;
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::ready(()))
    }
}

pub(crate) struct Place {
    pub(crate) blobs: Blobs,
    pub(crate) db: Db,
    pub(crate) clock: Arc<StoppedClock>,
    pub(crate) account: AccountId,
    folder: TempDir,
}

pub(crate) fn options(sealed: bool) -> UploadOptions {
    UploadOptions { media_type: "image/png".to_owned(), sealed, limit: 1 << 20, declared_size: None }
}

impl Place {
    pub(crate) async fn on_sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("portico.db").display());
        Self::at(&url, folder).await
    }

    /// A schema of its own in the cluster that `make test` starts.
    #[expect(clippy::disallowed_methods, reason = "the scripts tell the tests where the cluster is")]
    pub(crate) async fn on_postgres() -> Self {
        let cluster = std::env::var("PORTICO_TEST_POSTGRES").unwrap();
        let entropy: &dyn Entropy = &SystemEntropy;
        let schema = format!("test_{}", hex(&entropy.bytes::<8>()));
        let db = Db::open(&cluster).await.unwrap();
        let mut tx = db.write().await.unwrap();
        // A name is no argument; this one is made of hexadecimal digits.
        tx.execute(format!("create schema {schema}").leak(), args![]).await.unwrap();
        tx.commit().await.unwrap();
        db.close().await;
        Self::at(&format!("{cluster}?options=-csearch_path%3D{schema}"), tempfile::tempdir().unwrap()).await
    }

    async fn at(url: &str, folder: TempDir) -> Self {
        let clock = Arc::new(StoppedClock(Mutex::new(Timestamp::from_seconds(1_800_000_000))));
        let db = Db::open(url).await.unwrap();
        db.migrate(clock.now()).await.unwrap();
        let keyring = Keyring::open_for(&db, &folder.path().join("keyring"), &SystemEntropy).await.unwrap();
        let store = Arc::new(FileStore::new(folder.path().join("blobs")));
        let blobs = Blobs::new(store, keyring, clock.clone(), Arc::new(SystemEntropy));
        let account = AccountId::from_parts(clock.now(), [7; 10]);
        Self { blobs, db, clock, account, folder }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("blobs")
    }

    pub(crate) async fn store(&self, content: &Bytes, sealed: bool) -> Blob {
        let upload = self.blobs.upload(self.account, options(sealed), body(content, 10_000)).await.unwrap();
        self.record(upload).await
    }

    pub(crate) async fn record(&self, upload: StoredUpload) -> Blob {
        let mut tx = self.db.write().await.unwrap();
        let blob = self.blobs.record(&mut tx, upload).await.unwrap();
        tx.commit().await.unwrap();
        blob
    }

    pub(crate) async fn find(&self, blob: &Blob) -> Option<Blob> {
        self.blobs.find(&mut self.db.query(), self.account, blob.id).await.unwrap()
    }

    pub(crate) async fn release(&self, blob: &Blob) -> bool {
        let mut tx = self.db.write().await.unwrap();
        let released = self.blobs.release(&mut tx, self.account, blob.id).await.unwrap();
        tx.commit().await.unwrap();
        released
    }

    /// How many objects were removed, and how many are missing.
    pub(crate) async fn sweep(&self) -> (u64, usize) {
        let (mut removed, mut missing, mut after) = (0, 0, Some(String::new()));
        while let Some(from) = after {
            let page = self.blobs.sweep(&self.db, &from).await.unwrap();
            removed += page.removed;
            missing += page.missing.len();
            after = page.next;
        }
        (removed, missing)
    }
}
