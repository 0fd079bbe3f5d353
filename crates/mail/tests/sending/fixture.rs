//! An engine on a database of its own. The testkit has the same with the whole platform around it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use portico_blobs::{Blobs, FileStore};
use portico_engine::ports::{AfterCommit, Memberships, NewEvent, Outbox, Streams};
use portico_engine::{Engine, OPERATION_TIME_MAX, Registry};
use portico_kernel::{AccountId, Clock, Entropy, Role, Sleep, SystemEntropy, Timestamp, hex};
use portico_store::{Db, Keyring, StoreError, Tx, args};
use tempfile::TempDir;

/// What a story needs: an engine, and its clock.
pub(crate) struct Fixture {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: StoppedClock,
    /// Gone with the story.
    _folder: TempDir,
}

impl Fixture {
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
        let clock = StoppedClock::default();
        let db = Db::open(url).await.unwrap();
        db.migrate(clock.now()).await.unwrap();
        let keyring = Keyring::open_for(&db, &folder.path().join("keyring"), &SystemEntropy).await.unwrap();
        let engine = Arc::new(Engine {
            db,
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SystemEntropy),
            memberships: Arc::new(Nobody),
            outbox: Arc::new(Nobody),
            streams: Arc::new(Nobody),
            plans: portico_kernel::Plans::default(),
            registry: Registry::new([portico_mail::area(
                &portico_mail::Mail::new(None, portico_kernel::Brand::default()).unwrap(),
            )])
            .unwrap(),
            operation_time_max: OPERATION_TIME_MAX,
            keyring: keyring.clone(),
            blobs: Arc::new(Blobs::new(
                Arc::new(FileStore::new(folder.path().join("blobs"))),
                keyring.clone(),
                Arc::new(clock.clone()),
                Arc::new(SystemEntropy),
            )),
            egress: Arc::new(portico_egress::Egress::new(
                portico_egress::Networks::default(),
                &portico_egress::TrustedRoots::default(),
            )),
        });
        engine.registry.probe(&engine, "mail").await.unwrap();
        Self { engine, clock, _folder: folder }
    }
}

/// Stands still until it is advanced.
#[derive(Clone)]
pub(crate) struct StoppedClock(Arc<Mutex<Timestamp>>);

impl Default for StoppedClock {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Timestamp::from_micros(1_769_850_000_250_000))))
    }
}

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
        Box::pin(std::future::pending())
    }
}

/// Mail needs none of these ports.
struct Nobody;

impl Memberships for Nobody {
    fn role<'a>(
        &'a self,
        _: &'a mut Tx,
        _: AccountId,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<Role>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn plan<'a>(&'a self, _: &'a mut Tx, _: AccountId) -> BoxFuture<'a, Result<Option<String>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn statuses<'a>(
        &'a self,
        _: &'a mut Tx,
        _: Vec<AccountId>,
    ) -> BoxFuture<'a, Result<Vec<(AccountId, bool)>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn lock<'a>(&'a self, _: &'a mut Tx, _: AccountId) -> BoxFuture<'a, Result<Option<bool>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}

impl Streams for Nobody {
    fn is_watched(&self, _: AccountId) -> bool {
        false
    }

    fn committed(&self, _: &Arc<Engine>, _: AccountId, _: i64, _: &[NewEvent]) {}
}

impl Outbox for Nobody {
    fn fill<'a>(
        &'a self,
        _: &'a mut Tx,
        _: AccountId,
        _: Timestamp,
        _: Arc<[NewEvent]>,
    ) -> BoxFuture<'a, Result<AfterCommit, StoreError>> {
        Box::pin(async { Ok(Box::new(|| ()) as AfterCommit) })
    }
}
