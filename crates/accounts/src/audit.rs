//! The audit log.

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, Spec, Tool, audit_after, audit_sequence};
use portico_kernel::{AuditId, Category, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Accounts;

/// Read the audit log, oldest first. Give the id of the last entry you have seen as `after` to read on from there; an
/// entry that is committed late never lands before one that was read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAuditEntries {
    /// The account.
    org_id: AccountRef,
    /// The last audit entry seen; the list begins after it.
    #[serde(default)]
    after: Option<AuditId>,
}

/// An entry of the audit log.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AuditEntry {
    /// The entry's id.
    id: AuditId,
    /// When it was written.
    at: Timestamp,
    /// What was done, such as `key.created`.
    action: String,
    /// Who did it: the id of a person, key or API token, or `operator`.
    actor: String,
    /// What kind of caller that was: `person`, `client` or `service`.
    actor_kind: String,
    /// The call that did it; empty when the operator did.
    request_id: String,
    /// The id of what it was done to.
    target: String,
    /// What else belongs to it.
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    metadata: Value,
}

impl Operation for ListAuditEntries {
    const SPEC: Spec = Spec::get("accounts.audit.list", "/v1/accounts/orgs/{org_id}/audit")
        .tool(
            Tool::new("accounts_list_audit", "Read the audit log")
                .hint("Use this to find out who changed something, and when."),
        )
        .scope("account:audit")
        .role(Role::Admin)
        .category(Category::List)
        .list("entries");
    type Area = Accounts;
    type Answer = Page<AuditEntry>;

    async fn run(self, _: &Accounts, ctx: &mut Ctx) -> Result<Page<AuditEntry>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let page = ctx.page()?;
        let tx = ctx.tx().await?;
        let after = match (page.after_number()?, self.after) {
            (Some(number), _) => number,
            (None, None) => 0,
            (None, Some(id)) => audit_sequence(tx, account, id)
                .await?
                .ok_or_else(|| Problem::field("after", "is not the id of an entry of this account"))?,
        };
        let rows = audit_after(tx, account, after, page.rows()).await?;
        Ok(page.page(
            rows,
            |row| Cursor(row.sequence.to_string()),
            |row| AuditEntry {
                id: row.id,
                at: row.at,
                action: row.action,
                actor: row.actor,
                actor_kind: row.actor_kind,
                request_id: row.request_id,
                target: row.target,
                metadata: serde_json::from_str(&row.metadata).unwrap_or_default(),
            },
        ))
    }
}
