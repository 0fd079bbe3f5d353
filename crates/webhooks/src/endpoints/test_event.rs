//! Test events.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Category, DeliveryId, EndpointId, EventId, Problem, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Webhooks;
use crate::endpoints::{check_enabled, find};
use crate::events::WebhookTest;

/// The id of the delivery of an event to the endpoint with that tag, as the statements write it.
pub(crate) fn delivery_id(event: EventId, tag: &str) -> Result<DeliveryId, Problem> {
    let event = event.to_string();
    let ulid = event.split('_').next_back().unwrap_or_default();
    let kept = ulid.get(..ulid.len().saturating_sub(tag.len())).unwrap_or_default();
    format!("whd_{kept}{tag}").parse().map_err(Problem::internal)
}

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
pub(crate) struct Tested {
    /// The event, which is the `webhook-id` too.
    event_id: EventId,
    /// Its delivery to the endpoint.
    delivery_id: DeliveryId,
}

impl Operation for TestEndpoint {
    const SPEC: Spec = Spec::post("webhooks.endpoints.test", "/v1/webhooks/endpoints/{endpoint_id}/test")
        .tool(
            Tool::new("webhooks_test_endpoint", "Send a test event")
                .hint("See what came of it with `webhooks_list_deliveries`."),
        )
        .scope(Scope::WebhooksWrite)
        .category(Category::Send)
        .accepts_idempotency_key();
    type Area = Webhooks;
    type Answer = Tested;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<Tested, Problem> {
        let row = find(ctx, self.endpoint_id).await?;
        check_enabled(&row)?;
        let (endpoint_id, actor) = (row.id.to_string(), ctx.caller().subject.clone());
        let event_id = ctx.emit_to(&WebhookTest { endpoint_id, actor }, row.id)?;
        let delivery_id = delivery_id(event_id, &row.tag)?;
        ctx.await_before_reply(webhooks.sender.attempted(delivery_id));
        Ok(Tested { event_id, delivery_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_named_after_its_event_and_its_endpoint() {
        let event: EventId = "evt_01KN2MGCG0B9D5MPJTB9D5MPJT".parse().unwrap();
        assert_eq!(delivery_id(event, "A7Z").unwrap().to_string(), "whd_01KN2MGCG0B9D5MPJTB9D5MA7Z");
    }
}
