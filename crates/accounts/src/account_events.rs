//! The account's events, to look back at.

use portico_engine::{
    AccountRef, Ctx, Cursor, Envelope, EventQuery, Operation, Page, Spec, Tool, event_sequence, events_before,
};
use portico_kernel::{Category, EventId, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::Accounts;

/// List the account's events, newest first, as they are delivered.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListEvents {
    /// The account.
    org_id: AccountRef,
    /// Only events of this type.
    #[serde(default, rename = "type")]
    event_type: Option<String>,
    /// Only events that came after this one.
    #[serde(default)]
    after: Option<EventId>,
}

impl Operation for ListEvents {
    const SPEC: Spec = Spec::get("accounts.events.list", "/v1/accounts/orgs/{org_id}/events")
        .tool(
            Tool::new("accounts_list_events", "List events of the account")
                .hint("Use this to see what happened lately; `events_list_types` says what the types mean."),
        )
        .scope("events:read")
        .category(Category::List)
        .list("events");
    type Area = Accounts;
    type Answer = Page<Envelope<Value>>;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Page<Envelope<Value>>, Problem> {
        if let Some(event_type) = &self.event_type {
            ctx.engine().registry.catalog().check_event_type("type", event_type)?;
        }
        let (account, page) = (ctx.account(Some(self.org_id)).await?, ctx.page()?);
        let after = match self.after {
            None => 0,
            Some(id) => event_sequence(ctx.tx().await?, account, id)
                .await?
                .ok_or_else(|| Problem::field("after", "is not the id of an event of this account"))?,
        };
        let query = EventQuery { event_type: self.event_type, after, before: page.after_number()? };
        let rows = events_before(ctx.tx().await?, account, &query, page.rows()).await?;
        Ok(page.page(
            rows,
            |row| Cursor(row.sequence.to_string()),
            |row| Envelope {
                id: row.id,
                r#type: row.event_type,
                occurred_at: row.occurred_at,
                account_id: account,
                data: serde_json::from_str(&row.data).unwrap_or_default(),
            },
        ))
    }
}
