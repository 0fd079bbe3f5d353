//! The operations on the test inbox; receiving is in `receive.rs`.

pub(crate) mod receive;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_engine::{AccountRef, Ctx, Cursor, Done, Operation, Page, Spec, Tool};
use portico_kernel::{Category, InboxId, InboxRequestId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoints::check_access;
use crate::model::{Verdict, int32};
use crate::sql::{self, InboxRow, RequestRow};
use crate::{Webhooks, limits};

/// A test inbox: it keeps what is posted to its address, and says whether it was signed as it should be.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Inbox {
    /// The inbox's id.
    id: InboxId,
    /// Where to post to; no token is needed.
    address: String,
    /// When it was made.
    created_at: Timestamp,
    /// When it ends.
    expires_at: Timestamp,
    /// How many requests it keeps now.
    requests: i32,
}

impl Webhooks {
    /// The inbox as the API has it.
    async fn inbox_record(&self, ctx: &mut Ctx, row: &InboxRow) -> Result<Inbox, Problem> {
        let requests = sql::count_requests(ctx.tx().await?, row.id).await?;
        Ok(Inbox {
            id: row.id,
            address: self.inbox_address(row.id),
            created_at: row.created_at,
            expires_at: row.expires_at,
            requests: int32(requests),
        })
    }
}

/// List the account's test inbox, if there is one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListInboxes {
    /// The team; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

impl Operation for ListInboxes {
    const SPEC: Spec = Spec::get("webhooks.inboxes.list", "/v1/webhooks/inboxes")
        .scope("webhooks:read")
        .category(Category::List)
        .list("inboxes");
    type Area = Webhooks;
    type Answer = Page<Inbox>;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<Page<Inbox>, Problem> {
        let account = ctx.account(self.account_id).await?;
        let (page, now) = (ctx.page()?, ctx.now());
        let inbox = match sql::inbox_of(ctx.tx().await?, account, now).await? {
            Some(row) => Some(webhooks.inbox_record(ctx, &row).await?),
            None => None,
        };
        page.slice(inbox)
    }
}

/// Make the account's test inbox, or answer the one that it has. It lives 24 hours.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateInbox {
    /// The team; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

/// The account's test inbox.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TheInbox {
    /// The inbox.
    inbox: Inbox,
}

impl Operation for CreateInbox {
    const SPEC: Spec = Spec::post("webhooks.inboxes.create", "/v1/webhooks/inboxes")
        .tool(
            Tool::new("webhooks_create_inbox", "Create a test inbox")
                .hint("Use this to receive test events without a server."),
        )
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Webhooks;
    type Answer = TheInbox;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<TheInbox, Problem> {
        let account = ctx.account(self.account_id).await?;
        ctx.lock_account(account).await?.active()?;
        let (now, id) = (ctx.now(), ctx.new_id());
        let tx = ctx.tx().await?;
        if let Some(expired) = sql::expired_inbox_of(tx, account, now).await? {
            sql::delete_inbox(tx, expired).await?;
        }
        let new = InboxRow {
            id,
            account_id: account,
            created_at: now,
            expires_at: now + limits::INBOX_LIFE,
            recent: String::new(),
        };
        sql::insert_inbox(tx, &new).await?;
        let row = sql::inbox_of(tx, account, now).await?;
        let row = row.ok_or_else(|| Problem::internal("an inbox that was just created is missing"))?;
        if row.id == id {
            ctx.audit("inbox.created", &id)?;
        }
        Ok(TheInbox { inbox: webhooks.inbox_record(ctx, &row).await? })
    }
}

/// Finds an inbox that has not expired, and checks that the caller may act in its account.
async fn find_inbox(ctx: &mut Ctx, id: InboxId) -> Result<InboxRow, Problem> {
    let (missing, now) = (|| Problem::not_found("test inbox", id), ctx.now());
    let row = sql::inbox(ctx.tx().await?, id, now).await?.ok_or_else(missing)?;
    check_access(ctx, row.account_id, missing).await?;
    Ok(row)
}

/// Delete a test inbox and what it received.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteInbox {
    /// The inbox.
    inbox_id: InboxId,
}

impl Operation for DeleteInbox {
    const SPEC: Spec = Spec::delete("webhooks.inboxes.delete", "/v1/webhooks/inboxes/{inbox_id}")
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Write);
    type Area = Webhooks;
    type Answer = Done;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Done, Problem> {
        let row = find_inbox(ctx, self.inbox_id).await?;
        let (now, tx) = (ctx.now(), ctx.tx().await?);
        sql::lock_inbox(tx, row.id, now).await?;
        sql::delete_inbox(tx, row.id).await?;
        ctx.audit("inbox.deleted", &row.id)?;
        Ok(Done {})
    }
}

/// A request that a test inbox received.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InboxRequest {
    /// The request's id.
    id: InboxRequestId,
    /// When it came.
    received_at: Timestamp,
    /// Its method.
    method: String,
    /// Its content type; empty when it named none.
    content_type: String,
    /// Those of its headers that are kept: `webhook-id`, `webhook-timestamp`, `webhook-signature`, `content-type` and
    /// `user-agent`.
    headers: BTreeMap<String, String>,
    /// Its body, as it came; empty when it is not UTF-8.
    body: String,
    /// Its body in base64, when it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// Was it signed by an endpoint of the account that points here?
    verdict: Verdict,
}

impl From<RequestRow> for InboxRequest {
    fn from(row: RequestRow) -> Self {
        let (body, body_base64) = match String::from_utf8(row.body) {
            Ok(text) => (text, None),
            Err(error) => (String::new(), Some(BASE64_STANDARD.encode(error.as_bytes()))),
        };
        Self {
            id: row.id,
            received_at: row.received_at,
            method: row.method,
            content_type: row.content_type,
            headers: serde_json::from_str(&row.headers).unwrap_or_default(),
            body,
            body_base64,
            verdict: row.verdict,
        }
    }
}

/// List what a test inbox received, newest first. It keeps the last 50 requests.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRequests {
    /// The inbox.
    inbox_id: InboxId,
}

impl Operation for ListRequests {
    const SPEC: Spec = Spec::get("webhooks.requests.list", "/v1/webhooks/inboxes/{inbox_id}/requests")
        .tool(Tool::new("webhooks_list_inbox_requests", "List what a test inbox received"))
        .scope("webhooks:read")
        .category(Category::List)
        .list("requests");
    type Area = Webhooks;
    type Answer = Page<InboxRequest>;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Page<InboxRequest>, Problem> {
        let row = find_inbox(ctx, self.inbox_id).await?;
        let page = ctx.page()?;
        let rows = sql::requests(ctx.tx().await?, row.id, limits::INBOX_REQUESTS_MAX).await?;
        // Requests that came between two pages must not shift the second.
        let after = page.after.as_ref().map(|cursor| cursor.0.clone());
        let cursor = |row: &RequestRow| Cursor(format!("{:020} {}", row.received_at.as_micros(), row.id));
        let older = rows.into_iter().filter(|row| after.as_ref().is_none_or(|after| cursor(row).0 < *after));
        Ok(page.page(older.collect(), cursor, InboxRequest::from))
    }
}
