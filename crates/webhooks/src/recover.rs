//! Test events, and what an endpoint missed.

use portico_engine::{Ctx, Operation, Spec};
use portico_kernel::{Category, DeliveryId, EndpointId, EventId, Problem, Scope, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoints::{find, unseen};
use crate::events::WebhookTest;
use crate::sql::EndpointRow;
use crate::{Webhooks, limits, sql};

/// Refuses to send to an endpoint that is disabled.
pub(crate) fn check_enabled(row: &EndpointRow) -> Result<(), Problem> {
    if row.enabled {
        return Ok(());
    }
    let words = "The endpoint is disabled; enable it first.";
    let endpoint = [("endpoint_id", row.id.to_string())];
    Err(Problem::failed_precondition("ENDPOINT_DISABLED", "webhooks", words, endpoint))
}

/// The id of the delivery of an event to the endpoint with that tag.
fn delivery_id(event: EventId, tag: &str) -> Result<DeliveryId, Problem> {
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
        ctx.linger(webhooks.sender.attempted(delivery_id));
        Ok(Tested { event_id, delivery_id })
    }
}

/// Send an endpoint what it missed since a time: deliveries that failed, and those that were never made because the
/// endpoint was disabled or subscribed later. One call sends at most 10,000 of them, the oldest first; call again when
/// the answer says as many.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecoverEndpoint {
    /// The endpoint.
    endpoint_id: EndpointId,
    /// Events from this time on, at most 30 days ago.
    since: Timestamp,
    /// Events before this time; without it up to now.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// What is sent again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Recovered {
    /// How many deliveries that is.
    recovered: i32,
}

impl Operation for RecoverEndpoint {
    const SPEC: Spec =
        Spec::post("webhooks.endpoints.recover", "/v1/webhooks/endpoints/{endpoint_id}/recover")
            .scope(Scope::WebhooksWrite)
            .category(Category::Send);
    type Area = Webhooks;
    type Answer = Recovered;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<Recovered, Problem> {
        let now = ctx.now();
        if self.since < now - limits::RECOVER_LIFE {
            return Err(Problem::field("since", "must not be more than 30 days ago"));
        }
        if self.since > now {
            return Err(Problem::field("since", "must not be in the future"));
        }
        let until = self.until.unwrap_or(now + std::time::Duration::from_micros(1));
        if until <= self.since {
            return Err(Problem::field("until", "must be after `since`"));
        }
        let (engine, span) = (ctx.engine().clone(), (self.since, until));
        // A month may be long to look through, so that is done beside the writer.
        let row = sql::endpoint(&mut engine.db.glance().await?, self.endpoint_id).await?;
        let missing = || Problem::not_found("webhook endpoint", self.endpoint_id);
        let place = (row.ok_or_else(missing)?.account_id, self.endpoint_id);
        // Before the look, because whoever holds one connection must not wait for another.
        ctx.may_act_in(place.0).await.map_err(|problem| unseen(problem, missing))?;
        let mut look = engine.db.read().await?;
        let failed = sql::failed(&mut look, place, span, now, limits::RECOVERED_MAX).await?;
        let left = limits::RECOVERED_MAX - i64::try_from(failed.len()).unwrap_or(0);
        let missed = sql::missed(&mut look, place, span, left).await?;
        look.rollback().await?;
        check_enabled(&find(ctx, self.endpoint_id).await?)?;
        let tx = ctx.tx().await?;
        let recovered =
            sql::resend(tx, &failed, now).await? + sql::fill_missed(tx, place, &missed, now).await?;
        webhooks.look_after_commit(ctx, place.0);
        Ok(Recovered { recovered: i32::try_from(recovered).unwrap_or(i32::MAX) })
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
