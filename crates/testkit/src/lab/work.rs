//! Work that waits in a queue.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::queue::{NewItem, QueueItem, WorkResult, Worker, enqueue};
use portico_engine::{AccountRef, Ctx, Engine, Operation, Spec};
use portico_kernel::{Category, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Lab, sql};

/// Does the lab's work. What its payload says: `wait` begins and never ends, on the first attempt; `fail` is tried again
/// after a second; `give up` fails for good; `panic` panics on the first attempt.
pub(crate) struct LabWorker(pub(crate) Arc<Lab>);

impl Worker for LabWorker {
    const QUEUE: &'static str = "lab.work";
    const PARALLEL: usize = 2;
    const LEASE: Duration = Duration::from_secs(3);

    async fn run(&self, engine: &Arc<Engine>, item: &QueueItem) -> WorkResult {
        self.0.ran();
        self.0.waiting.notify_one();
        let mut tx = engine.db.write().await.expect("the database");
        sql::note_work(&mut tx, &item.id, item.attempts).await.expect("the database");
        tx.commit().await.expect("the database");
        match (item.payload.as_slice(), item.attempts) {
            (b"wait", 1) => std::future::pending().await,
            (b"hold", 1) => self.0.go_on.notified().await,
            (b"panic", 1) => panic!("as asked"),
            (b"fail", 1) => return WorkResult::RetryAt(engine.clock.now() + Duration::from_secs(1)),
            (b"give up", _) => return WorkResult::GiveUp,
            _ => {}
        }
        WorkResult::Done
    }
}

/// Leave work to be done.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnqueueWork {
    /// The account.
    org_id: AccountRef,
    /// What to do.
    what: String,
}

/// Work that waits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkItem {
    /// Its id.
    id: String,
}

impl Operation for EnqueueWork {
    const SPEC: Spec = Spec::post("lab.work.enqueue", "/v1/lab/orgs/{org_id}/work")
        .scope("webhooks:write")
        .category(Category::Write);
    type Area = Lab;
    type Answer = WorkItem;

    async fn run(self, _: &Lab, ctx: &mut Ctx) -> Result<WorkItem, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let (id, now) = (portico_kernel::hex(&ctx.engine().entropy.bytes::<8>()), ctx.now());
        let item =
            NewItem { id: id.clone(), account: Some(account), payload: self.what.as_bytes(), due_at: now };
        enqueue::<LabWorker>(ctx.tx().await?, item, now).await?;
        Ok(WorkItem { id })
    }
}
