//! Publishing events.

use portico_engine::input::{Element, Verbatim};
use portico_engine::{Ctx, EVENT_BYTES_MAX, Operation, Publication, Spec};
use portico_kernel::{AccountId, Problem, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::batch::{Batch, BatchResult, Checked, ElementKind, check_id, check_time};
use crate::table::{Fault, ServiceDefinition};
use crate::{Services, limits};

/// Publish events of the service's own types. Those that are accepted are in one commit, and from there on events like any
/// other: in the log, on streams, in webhooks. Each is accepted once by its id; one that is refused may come again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishEvents {
    /// The events, 1 to 500. Those of one account are numbered in their order.
    #[schemars(length(min = 1, max = 500))]
    events: Vec<Element<SentEvent>>,
}

/// An event.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SentEvent {
    /// The service's own id, 1 to 128 characters. One that was accepted within 32 days makes nothing.
    #[schemars(example = &"invoice-1-paid", length(min = 1, max = 128))]
    id: String,
    /// The account that it happened in.
    #[schemars(example = &"acc_01KN3X3A205MPQMPQMPQMPQMPQ")]
    account_id: AccountId,
    /// Its type, one of the service's own.
    #[schemars(example = &"invoice.paid")]
    r#type: String,
    /// When it happened: at most 32 days back and 5 minutes ahead; left out, now.
    #[serde(default)]
    occurred_at: Option<Timestamp>,
    /// What happened, as the schema of the type says.
    #[schemars(example = &serde_json::json!({ "invoice_id": "in_1" }))]
    data: Verbatim,
}

/// An event that its type takes.
struct CheckedEvent {
    id: String,
    account: AccountId,
    /// Taken when it is published.
    publication: Option<Publication>,
}

impl Checked for CheckedEvent {
    fn id(&self) -> &str {
        &self.id
    }

    fn account(&self) -> AccountId {
        self.account
    }
}

impl SentEvent {
    fn check(self, service: &ServiceDefinition, now: Timestamp) -> Result<CheckedEvent, Problem> {
        let Self { id, account_id, r#type, occurred_at, data: Verbatim(data) } = self;
        check_id(&id)?;
        let occurred_at = check_time("occurred_at", occurred_at, now)?;
        let unknown = || {
            let message = format!("is not a type of events in the document of `{}`", service.name);
            Problem::field("type", message)
        };
        let known = service.events.get(&r#type).ok_or_else(unknown)?;
        (known.check)(&data).map_err(wrong_data)?;
        let data = data.to_string();
        if data.len() > EVENT_BYTES_MAX {
            let message = format!("is {} bytes of JSON; at most {EVENT_BYTES_MAX} are taken", data.len());
            return Err(Problem::field("data", message));
        }
        let publication = Publication { account: account_id, event_type: r#type, occurred_at, data };
        Ok(CheckedEvent { id, account: account_id, publication: Some(publication) })
    }
}

/// 400, naming the fields that do not match the schema.
fn wrong_data(faults: Vec<Fault>) -> Problem {
    let nameless = || Problem::field("data", "does not match its schema");
    Problem::fields(faults.into_iter().take(limits::FAULTS_MAX)).unwrap_or_else(nameless)
}

impl Operation for PublishEvents {
    const SPEC: Spec = Spec::post("services.events.publish", "/v1/services/events")
        .service("service:events")
        .body_limit(Spec::BODY_LIMIT)
        .values_max(limits::VALUES_MAX);
    type Area = Services;
    type Answer = BatchResult;

    async fn run(self, services: &Services, ctx: &mut Ctx) -> Result<BatchResult, Problem> {
        let (service, now) = (services.calling(ctx.caller())?, ctx.now());
        let check = |event: SentEvent| event.check(&service, now);
        let mut batch = Batch::check(ElementKind::Event, "events", self.events, check)?;
        batch.check_accounts(ctx).await?;
        batch.claim(ctx, &service.name).await?;
        for (_, event) in &mut batch.elements {
            event.publication.take().map(|publication| ctx.publish(publication));
        }
        batch.result(services, ctx)
    }
}
