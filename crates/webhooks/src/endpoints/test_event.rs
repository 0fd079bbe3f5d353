//! Sending a test event to an endpoint.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Category, DeliveryId, EndpointId, EventId, Problem, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_enabled, check_room, find_endpoint};
use crate::Webhooks;
use crate::events::WebhookTest;
use crate::sql::EndpointRow;

/// Send a `webhook.test` event to an endpoint, whatever it subscribes. The answer comes once the first attempt is on
/// record, or after a quarter of a second.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestEndpoint {
    /// The endpoint.
    endpoint_id: EndpointId,
}

/// A test event on its way.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tested")]
pub(crate) struct TestEvent {
    /// The event, which is the `webhook-id` too.
    event_id: EventId,
    /// Its delivery to the endpoint.
    delivery_id: DeliveryId,
}

/// The id that the delivery of the event to the endpoint will have: the event's, but for the tag at its end.
fn delivery_id(event: EventId, endpoint: &EndpointRow) -> Result<DeliveryId, Problem> {
    let event = event.to_string();
    let of_event = event.get(4..27).unwrap_or_default();
    format!("whd_{of_event}{}", endpoint.tag).parse().map_err(Problem::internal)
}

impl Operation for TestEndpoint {
    const SPEC: Spec = Spec::post("webhooks.endpoints.test", "/v1/webhooks/endpoints/{endpoint_id}/test")
        .tool(
            Tool::new("webhooks_test_endpoint", "Send a test event")
                .hint("See what came of it with `webhooks_list_deliveries`."),
        )
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Send)
        .accepts_idempotency_key();
    type Area = Webhooks;
    type Answer = TestEvent;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<TestEvent, Problem> {
        let row = find_endpoint(ctx, self.endpoint_id).await?;
        check_enabled(&row)?;
        check_room(ctx, row.id).await?;
        let (endpoint_id, actor) = (row.id.to_string(), ctx.caller().subject.clone());
        let event_id = ctx.emit_to(&WebhookTest { endpoint_id, actor }, row.id)?;
        let delivery_id = delivery_id(event_id, &row)?;
        ctx.await_before_reply(webhooks.sender.await_attempt(delivery_id));
        Ok(TestEvent { event_id, delivery_id })
    }
}
