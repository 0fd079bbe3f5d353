//! What an endpoint missed.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Category, EndpointId, Problem, Scope, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoints::{check_enabled, find, unseen};
use crate::{Webhooks, limits, sql};

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
            .tool(
                Tool::new("webhooks_recover_deliveries", "Send missed deliveries again")
                    .hint("Use this after an endpoint was down."),
            )
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
        let row = sql::endpoint(&mut engine.db.query(), self.endpoint_id).await?;
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
