//! The lab: an area that exists only in tests. Its things have nested fields, int64s, lists and large bodies, and its
//! operations can be told to panic, to wait, to refuse and to fail, so that every rule of the frame is exercised.

mod costs;
mod files;
mod offer;
mod orders;
mod sql;
mod things;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use portico_engine::{Area, AreaBuilder};
use portico_store::Db;
use tokio::sync::Notify;

pub use files::FILE_BYTES_MAX;
pub use orders::ORDER_ID;
pub use sql::create_tables;
pub use things::Color;

/// What the area holds.
#[derive(Default)]
pub struct Lab {
    /// How often an operation that makes a thing ran.
    runs: AtomicUsize,
    /// Told when an operation begins to wait.
    pub waiting: Notify,
    /// Ends the wait.
    pub go_on: Notify,
    /// Told when an operation is stopped while it waits.
    pub stopped: Notify,
}

impl Lab {
    /// How often an operation that makes a thing ran.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn ran(&self) {
        self.runs.fetch_add(1, Ordering::SeqCst);
    }
}

/// The area's operations and events.
pub fn area(lab: &Arc<Lab>) -> Area {
    builder(lab).build()
}

/// The same, with what the conformance suite of assistants' protocol asks for beside it. Tests of what the platform
/// shows to assistants want it without.
pub fn area_with_offer(lab: &Arc<Lab>) -> Area {
    builder(lab).offers(Arc::new(offer::Fixtures::default())).build()
}

fn builder(lab: &Arc<Lab>) -> AreaBuilder<Lab> {
    Area::builder("lab", lab.clone())
        .scope("heavy:read", "Read what is heavy in the lab.")
        .op::<things::CreateThing>()
        .op::<things::ListThings>()
        .op::<things::GetThing>()
        .op::<things::UpdateThing>()
        .op::<things::DeleteThing>()
        .op::<things::ListHeavy>()
        .op::<orders::CreateOrder>()
        .op::<files::UploadFile>()
        .op::<files::GetFile>()
        .op::<work::EnqueueWork>()
        .worker(Arc::new(work::LabWorker(lab.clone())))
        .op::<costs::GetCheck>()
        .op::<costs::GetAction>()
        .op::<costs::GetNarration>()
        .op::<costs::GetGeneration>()
        .event::<things::ThingCreated>()
        .erases(&sql::ERASE)
}

/// Makes the tables in the database at `url`, for a server that is a process of its own.
pub async fn prepare(url: &str) {
    use portico_engine::clock::SystemClock;
    use portico_kernel::Clock;

    let db = Db::open(url).await.expect("the database");
    db.migrate(SystemClock.now()).await.expect("the migrations");
    create_tables(&db).await;
    db.close().await;
}
