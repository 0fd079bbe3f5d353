//! Webhooks: signed deliveries of an account's events to its endpoints, and the test inbox.
//!
//! A delivery is inserted in the commit of its event, one row for each endpoint that subscribes it, or later when too many
//! are pending for the endpoint. It ends delivered, abandoned after eight attempts, or failed with its endpoint. Servers
//! share the work by account: one server at a time sends the deliveries of an account (`sender/`), which makes the limits
//! on deliveries in flight exact and order easy. Results are stored in batches, of those deliveries alone that are still
//! claimed and as they were read.
//!
//! Absent on purpose: the receiver's answer, which is read and discarded; and the event and the address in any log line.
//!
//! Start reading at [`Webhooks`], then `sender/mod.rs`.
//!
//! Invariants: one row is one event for one endpoint, because its id is made of both. What is to be sent has a
//! `next_at`, and nothing else has. No transaction is open during a call.

mod deliveries;
mod endpoints;
mod events;
mod inboxes;
mod jobs;
pub mod limits;
mod metrics;
mod model;
mod outbox;
mod sender;
mod sql;
mod stats;

use std::sync::Arc;

use portico_egress::Egress;
use portico_engine::{Area, Engine};
use portico_kernel::Problem;

pub use metrics::Metrics;
pub use model::{SigningKey, signed};

use sender::Sender;

/// What the area holds.
pub struct Webhooks {
    /// Every call to a receiver goes through here.
    egress: Egress,
    /// Where the API is: the addresses of inboxes begin with it.
    base_url: String,
    sender: Arc<Sender>,
    /// What the area counts of itself.
    pub metrics: Arc<Metrics>,
}

impl Webhooks {
    /// The area's state, for the API at `base_url`.
    pub fn new(egress: Egress, base_url: &str) -> Arc<Self> {
        let metrics = Arc::new(Metrics::default());
        Arc::new_cyclic(|webhooks| Self {
            egress,
            base_url: base_url.trim_end_matches('/').to_owned(),
            sender: Arc::new(Sender::new(webhooks.clone())),
            metrics,
        })
    }

    /// Waits until nothing is in flight and nothing is due; for tests.
    pub async fn settle(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        self.sender.settle(engine).await
    }
}

/// The area's operations, events, jobs and its sender.
pub fn area(webhooks: &Arc<Webhooks>) -> Area {
    Area::builder("webhooks", webhooks.clone())
        .scope("webhooks:read", "Read webhook endpoints, deliveries, stats and inboxes.")
        .scope(
            "webhooks:write",
            "Make, change, test, rotate and delete webhook endpoints and the inbox; resend a delivery.",
        )
        .op::<endpoints::ListEndpoints>()
        .op::<endpoints::create::CreateEndpoint>()
        .op::<endpoints::GetEndpoint>()
        .op::<endpoints::update::UpdateEndpoint>()
        .op::<endpoints::DeleteEndpoint>()
        .op::<endpoints::secrets::RotateSecret>()
        .op::<endpoints::test_event::TestEndpoint>()
        .op::<endpoints::recover::RecoverEndpoint>()
        .op::<deliveries::ListDeliveries>()
        .op::<deliveries::RetryDelivery>()
        .op::<stats::GetStats>()
        .op::<inboxes::ListInboxes>()
        .op::<inboxes::CreateInbox>()
        .op::<inboxes::ListRequests>()
        .op::<inboxes::DeleteInbox>()
        .op::<inboxes::receive::Receive>()
        .event::<events::WebhookTest>()
        .job(jobs::PruneHistory)
        .job(jobs::PruneInboxes)
        .service(webhooks.sender.clone())
        .metrics({
            let metrics = webhooks.metrics.clone();
            move || metrics.shown()
        })
        .tool_subjects(&["webhooks"])
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .seals(&endpoints::secrets::SEALED)
        .build()
}
