//! Sending an endpoint what it missed.

use portico_engine::{Ctx, Operation, Spec, Tool};
use portico_kernel::{Category, EndpointId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_enabled, find_endpoint, hide_forbidden, too_many_pending};
use crate::model::room;
use crate::sql::{self, BacklogRow, EndpointKey, TimeRange};
use crate::{Webhooks, limits};

/// Send an endpoint what it missed since a time: deliveries that failed, and those that were never made because the
/// endpoint was disabled or subscribed later. An endpoint has at most 5,000 pending deliveries and an account 10,000; one
/// call sends as many as there is room for, the oldest first. Call again once they are delivered, until the answer says 0.
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

/// How many more deliveries may be pending for the endpoint, given the backlogs of its account.
fn room_of(endpoint: EndpointId, backlogs: &[BacklogRow]) -> i64 {
    let pending: Vec<_> = backlogs.iter().map(|row| row.pending).collect();
    let left = limits::ACCOUNT_PENDING_MAX - pending.iter().sum::<i64>();
    let mut rooms = backlogs.iter().zip(room(&pending));
    rooms.find(|(row, _)| row.endpoint_id == endpoint).map_or(0, |(_, room)| room.min(left).max(0))
}

impl Operation for RecoverEndpoint {
    const SPEC: Spec =
        Spec::post("webhooks.endpoints.recover", "/v1/webhooks/endpoints/{endpoint_id}/recover")
            .tool(
                Tool::new("webhooks_recover_deliveries", "Send missed deliveries again")
                    .hint("Use this after an endpoint was down."),
            )
            .scope("webhooks:write")
            .role(Role::Admin)
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
        let room = room_of(key.endpoint, &sql::backlogs(&mut search, key.account).await?);
        let mut failed = sql::failed_deliveries(&mut search, key, range, now, room).await?;
        let left = room - i64::try_from(failed.len()).unwrap_or(0);
        let mut missed = sql::missed_events(&mut search, key, range, left).await?;
        search.rollback();
        check_enabled(&find_endpoint(ctx, self.endpoint_id).await?)?;
        // Counted again under a lock, so that several calls do not fill the same room.
        ctx.lock_account(key.account).await?;
        let tx = ctx.tx().await?;
        let room = room.min(room_of(key.endpoint, &sql::backlogs(tx, key.account).await?));
        if room == 0 {
            return Err(too_many_pending());
        }
        let room = usize::try_from(room).unwrap_or(0);
        failed.truncate(room);
        missed.truncate(room - failed.len());
        let recovered =
            sql::resend(tx, &failed, now).await? + sql::insert_missed(tx, key, &missed, now).await?;
        let (sender, account) = (webhooks.sender.clone(), key.account);
        ctx.after_commit(Box::new(move || sender.count_backlog(account)));
        webhooks.refresh_after_commit(ctx, account);
        Ok(RecoverySummary { recovered: i32::try_from(recovered).unwrap_or(i32::MAX) })
    }
}
