//! Sending an endpoint what it missed.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Category, EndpointId, Problem, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_enabled, find_endpoint, hide_forbidden};
use crate::sql::{self, EndpointKey, TimeRange};
use crate::{Webhooks, limits};

/// Send an endpoint what it missed since a time: deliveries that failed, and those that were never made because the
/// endpoint was disabled or subscribed later. One call sends at most 10,000 of them, the oldest first; call again when
/// the answer says as many.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecoverEndpoint {
    /// The endpoint.
    endpoint_id: EndpointId,
    /// Events from this time on, at most 30 days ago.
    #[schemars(example = &"2026-01-31T00:00:00Z")]
    since: Timestamp,
    /// Events before this time; without it up to now.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// What is sent again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Recovered")]
pub(crate) struct RecoverySummary {
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
            .scope("webhooks:write")
            .category(Category::Send);
    type Area = Webhooks;
    type Answer = RecoverySummary;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<RecoverySummary, Problem> {
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
        let (engine, range) = (ctx.engine().clone(), TimeRange { since: self.since, until });
        // A month may be long to search, so that is done outside of the write transaction.
        let row = sql::endpoint(&mut engine.db.query(), self.endpoint_id).await?;
        let missing = || Problem::not_found("webhook endpoint", self.endpoint_id);
        let key = EndpointKey { account: row.ok_or_else(missing)?.account_id, endpoint: self.endpoint_id };
        // Before the search, because a call that holds one connection must not wait for another.
        ctx.account(Some(key.account.into())).await.map_err(|problem| hide_forbidden(problem, missing))?;
        let mut search = engine.db.read().await?;
        let failed = sql::failed_deliveries(&mut search, key, range, now, limits::RECOVERED_MAX).await?;
        let left = limits::RECOVERED_MAX - i64::try_from(failed.len()).unwrap_or(0);
        let missed = sql::missed_events(&mut search, key, range, left).await?;
        search.rollback().await?;
        check_enabled(&find_endpoint(ctx, self.endpoint_id).await?)?;
        let tx = ctx.tx().await?;
        let recovered =
            sql::resend(tx, &failed, now).await? + sql::insert_missed(tx, key, &missed, now).await?;
        webhooks.refresh_after_commit(ctx, key.account);
        Ok(RecoverySummary { recovered: i32::try_from(recovered).unwrap_or(i32::MAX) })
    }
}
