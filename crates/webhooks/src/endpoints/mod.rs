//! The operations on endpoints: here the record, and reading and deleting it; the others each in a file of its own.

pub(crate) mod address;
pub(crate) mod create;
mod created;
pub(crate) mod recover;
pub(crate) mod secrets;
pub(crate) mod test_event;
pub(crate) mod update;

use std::collections::HashMap;

use portico_engine::{AccountRef, Ctx, Cursor, Done, Operation, Page, ROLE_REQUIRED, Spec, Tool};
use portico_kernel::{AccountId, Category, Code, EndpointId, Hour, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::int32;
use crate::sql::{self, EndpointRow, RecentRow};
use crate::{Webhooks, jobs, limits};

/// A webhook endpoint. Its secret is not part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Endpoint {
    /// The endpoint's id.
    pub(crate) id: EndpointId,
    /// The address that deliveries are posted to.
    pub(crate) url: String,
    /// What its owner wrote about it.
    pub(crate) description: String,
    /// The event types that it subscribes.
    pub(crate) event_types: Vec<String>,
    /// Is anything sent to it?
    pub(crate) enabled: bool,
    /// Why nothing is; empty while it is enabled.
    pub(crate) disabled_reason: String,
    /// When it was made.
    pub(crate) created_at: Timestamp,
    /// When the last attempt ended; empty before the first.
    pub(crate) last_delivery_at: String,
    /// How the last attempt ended: `delivered` or `failed`; empty before the first.
    pub(crate) last_delivery_status: String,
    /// When its secret was last rotated; empty before the first time.
    pub(crate) secret_rotated_at: String,
    /// Attempts of the last 24 hours that failed, counted by whole hours.
    pub(crate) failed_24h: i32,
    /// Attempts of the last 24 hours that were taken, counted by whole hours.
    pub(crate) succeeded_24h: i32,
}

/// A time as the API has it: empty when there is none.
pub(crate) fn optional_time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

impl Endpoint {
    fn new(row: EndpointRow, event_types: Vec<String>, recent: Option<&RecentRow>) -> Self {
        Self {
            id: row.id,
            url: row.url,
            description: row.description,
            event_types,
            enabled: row.enabled,
            disabled_reason: row.disabled_reason,
            created_at: row.created_at,
            last_delivery_at: optional_time(row.last_delivery_at),
            last_delivery_status: row.last_delivery_status,
            secret_rotated_at: optional_time(row.secret_rotated_at),
            failed_24h: int32(recent.map_or(0, |recent| recent.failed)),
            succeeded_24h: int32(recent.map_or(0, |recent| recent.delivered)),
        }
    }
}

/// The first hour of the last 24.
fn first_recent_hour(now: Timestamp) -> i64 {
    Hour::of(now - limits::RECENT).number()
}

/// Finds an endpoint and checks that the caller may act in its account; from here on the call acts in that account.
pub(crate) async fn find_endpoint(ctx: &mut Ctx, id: EndpointId) -> Result<EndpointRow, Problem> {
    let missing = || Problem::not_found("webhook endpoint", id);
    let row = sql::endpoint(ctx.tx().await?, id).await?.ok_or_else(missing)?;
    check_access(ctx, row.account_id, missing).await?;
    Ok(row)
}

/// The same, and locks the endpoint's row until the commit.
pub(crate) async fn lock_endpoint(ctx: &mut Ctx, id: EndpointId) -> Result<EndpointRow, Problem> {
    find_endpoint(ctx, id).await?;
    let row = sql::lock_endpoint(ctx.tx().await?, id).await?;
    row.ok_or_else(|| Problem::not_found("webhook endpoint", id))
}

/// Checks that the caller may act in the account that something was found in. To strangers it is `missing`, so that they
/// do not learn that it exists.
pub(crate) async fn check_access(
    ctx: &mut Ctx,
    account: AccountId,
    missing: impl FnOnce() -> Problem,
) -> Result<(), Problem> {
    ctx.account(Some(account.into())).await.map(drop).map_err(|problem| hide_forbidden(problem, missing))
}

/// Replaces a refusal of access by `missing`, but not that to a member, who may read what they may not change.
pub(crate) fn hide_forbidden(problem: Problem, missing: impl FnOnce() -> Problem) -> Problem {
    let hides = problem.code() == Code::Forbidden && !problem.has_reason(ROLE_REQUIRED);
    if hides { missing() } else { problem }
}

/// Refuses to send to an endpoint that is disabled.
pub(crate) fn check_enabled(row: &EndpointRow) -> Result<(), Problem> {
    if row.enabled {
        return Ok(());
    }
    let message = "The endpoint is disabled; enable it first.";
    let endpoint = [("endpoint_id", row.id.to_string())];
    Err(Problem::failed_precondition("ENDPOINT_DISABLED", "webhooks", message, endpoint))
}

/// Refuses to make a delivery for an endpoint whose deliveries are held back.
pub(crate) async fn check_room(ctx: &mut Ctx, endpoint: EndpointId) -> Result<(), Problem> {
    let held = sql::held_after(ctx.tx().await?, endpoint).await?;
    if held.is_some() { Err(too_many_pending()) } else { Ok(()) }
}

/// A refusal to make a delivery, because too many are pending.
pub(crate) fn too_many_pending() -> Problem {
    let (limit, of_account) = (limits::ENDPOINT_PENDING_MAX, limits::ACCOUNT_PENDING_MAX);
    let message = format!(
        "Too many deliveries are pending: an endpoint has at most {limit} of them, an account {of_account}."
    );
    Problem::limit_reached("webhooks", message, limit)
}

/// The endpoint as the API has it.
pub(crate) async fn endpoint_record(ctx: &mut Ctx, row: EndpointRow) -> Result<Endpoint, Problem> {
    let from = first_recent_hour(ctx.now());
    let tx = ctx.tx().await?;
    let event_types = sql::subscriptions(tx, row.id).await?;
    let recent = sql::recent(tx, row.account_id, Some(row.id), from).await?;
    Ok(Endpoint::new(row, event_types, recent.first()))
}

/// List the account's endpoints, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListEndpoints {
    /// The team whose endpoints are listed; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

impl Operation for ListEndpoints {
    const SPEC: Spec = Spec::get("webhooks.endpoints.list", "/v1/webhooks/endpoints")
        .tool(Tool::new("webhooks_list_endpoints", "List webhook endpoints"))
        .scope("webhooks:read")
        .category(Category::List)
        .list("endpoints");
    type Area = Webhooks;
    type Answer = Page<Endpoint>;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Page<Endpoint>, Problem> {
        let account = ctx.account(self.account_id).await?;
        let (page, from) = (ctx.page()?, first_recent_hour(ctx.now()));
        let tx = ctx.tx().await?;
        let before = page.after.as_ref().map(|cursor| cursor.0.as_str());
        let rows = sql::endpoints_before(tx, account, before, page.rows()).await?;
        let mut event_types: HashMap<EndpointId, Vec<String>> = HashMap::new();
        for row in sql::all_subscriptions(tx, account).await? {
            event_types.entry(row.endpoint_id).or_default().push(row.event_type);
        }
        let recent = sql::recent(tx, account, None, from).await?;
        Ok(page.page(
            rows,
            |row| Cursor(row.id.to_string()),
            |row| {
                let types = event_types.get(&row.id).cloned().unwrap_or_default();
                let recent = recent.iter().find(|recent| recent.endpoint_id == row.id);
                Endpoint::new(row, types, recent)
            },
        ))
    }
}

/// Read an endpoint.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetEndpoint {
    /// The endpoint.
    endpoint_id: EndpointId,
}

impl Operation for GetEndpoint {
    const SPEC: Spec = Spec::get("webhooks.endpoints.get", "/v1/webhooks/endpoints/{endpoint_id}")
        .scope("webhooks:read")
        .category(Category::Read);
    type Area = Webhooks;
    type Answer = Endpoint;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Endpoint, Problem> {
        let row = find_endpoint(ctx, self.endpoint_id).await?;
        endpoint_record(ctx, row).await
    }
}

/// Delete an endpoint and its delivery history. Nothing more is sent to it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteEndpoint {
    /// The endpoint.
    endpoint_id: EndpointId,
}

impl Operation for DeleteEndpoint {
    const SPEC: Spec = Spec::delete("webhooks.endpoints.delete", "/v1/webhooks/endpoints/{endpoint_id}")
        .tool(Tool::new("webhooks_delete_endpoint", "Delete a webhook endpoint"))
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Webhooks;
    type Answer = Done;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<Done, Problem> {
        let row = lock_endpoint(ctx, self.endpoint_id).await?;
        let now = ctx.now();
        sql::delete_endpoint(ctx.tx().await?, row.id, now).await?;
        ctx.audit("endpoint.deleted", &row.id)?;
        webhooks.endpoint_changed_after_commit(ctx, row.account_id, row.id);
        let engine = ctx.engine().clone();
        // Its history may be long, and no call sees it any more. Should this not finish, a job continues.
        ctx.after_commit(Box::new(move || {
            drop(tokio::spawn(jobs::remove_history(engine, row.account_id, row.id)));
        }));
        Ok(Done {})
    }
}

impl Webhooks {
    /// Lets the sender read the account again once this is committed.
    pub(crate) fn refresh_after_commit(&self, ctx: &mut Ctx, account: AccountId) {
        let sender = self.sender.clone();
        ctx.after_commit(Box::new(move || sender.refresh(account)));
    }

    /// The same when an endpoint was changed, to which nothing is then sent as it was before.
    pub(crate) fn endpoint_changed_after_commit(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        endpoint: EndpointId,
    ) {
        let sender = self.sender.clone();
        ctx.after_commit(Box::new(move || sender.endpoint_changed(account, endpoint)));
    }
}
