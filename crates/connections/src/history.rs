//! The history of uses.

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, Spec, Tool};
use portico_kernel::{Category, ConnectionId, ConnectionUseId, Problem, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Consumer, UseStatus, int32};
use crate::sql::{self, UseRow};
use crate::{Connections, limits};

/// Rows that are read at once while a filter is applied.
const CHUNK: i64 = 500;
/// After every id of a use.
const AFTER_ALL: &str = "usf";

/// A use of a connection. What was sent and what came back is not part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConnectionUse {
    /// The action; `test` for a test.
    action: String,
    /// When it began.
    at: Timestamp,
    /// Who called: a key's, app's, product's or person's id.
    caller: String,
    /// What called: `key`, `agent` for an app or assistant, `product` for the platform itself, `person`.
    caller_kind: String,
    /// The connection; empty for the test of one that was not made.
    connection_id: String,
    /// Why it did not end well; empty when it did.
    error_class: String,
    /// Who sent it: `cloud` for this server.
    executor: String,
    /// The grant that allowed it; empty for a person in the console.
    grant_id: String,
    /// The id of the use.
    id: ConnectionUseId,
    /// How it ended; nothing was sent of one that was `refused`.
    status: UseStatus,
    /// How long it took, in milliseconds.
    latency_ms: i32,
    /// The status that the provider answered with; 0 where it did not.
    status_code: i32,
    /// Tokens of a model that were read.
    input_tokens: i32,
    /// Tokens of a model that were written.
    output_tokens: i32,
}

impl From<&UseRow> for ConnectionUse {
    fn from(row: &UseRow) -> Self {
        Self {
            action: row.action.clone(),
            at: row.at,
            caller: row.caller.clone(),
            caller_kind: row.caller_kind.name().to_owned(),
            connection_id: row.connection_id.clone(),
            error_class: row.error_class.name().to_owned(),
            executor: row.executor.clone(),
            grant_id: row.grant_id.clone(),
            id: row.id,
            status: row.status,
            latency_ms: int32(row.latency_ms),
            status_code: int32(row.status_code),
            input_tokens: int32(row.input_tokens),
            output_tokens: int32(row.output_tokens),
        }
    }
}

/// List the uses of the account's connections, newest first. They are on record for 90 days, whatever became of the
/// connection. With a filter a page may be short, or empty, and still not be the last.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListUses {
    /// The account.
    org_id: AccountRef,
    /// Those of this connection alone.
    #[serde(default)]
    connection_id: Option<ConnectionId>,
    /// Those of this action alone; `test` for tests.
    #[serde(default)]
    action: Option<String>,
    /// Those that ended so alone.
    #[serde(default)]
    status: Option<UseStatus>,
    /// Those of this consumer alone, `kind:id`, such as `key:tok_…`.
    #[serde(default)]
    #[schemars(example = &"key:tok_01KN2MGCG0B9D5MPJTB9D5MPJT")]
    consumer: Option<String>,
}

/// What a use must be to be listed.
struct Filter {
    action: Option<String>,
    status: Option<UseStatus>,
    consumer: Option<Consumer>,
}

impl Filter {
    fn is_none(&self) -> bool {
        self.action.is_none() && self.status.is_none() && self.consumer.is_none()
    }

    fn passes(&self, row: &UseRow) -> bool {
        self.action.as_ref().is_none_or(|action| row.action == *action)
            && self.status.is_none_or(|status| row.status == status)
            && self
                .consumer
                .as_ref()
                .is_none_or(|consumer| row.caller_kind == consumer.kind && row.caller == consumer.id)
    }
}

impl Operation for ListUses {
    const SPEC: Spec = Spec::get("connections.uses.list", "/v1/accounts/orgs/{org_id}/connections/history")
        .tool(
            Tool::new("connections_list_uses", "List uses of connections")
                .hint("Use this to see what was called by whom, and why a call failed."),
        )
        .scope("connections:read")
        .category(Category::List)
        .list("uses");
    type Area = Connections;
    type Answer = Page<ConnectionUse>;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<Page<ConnectionUse>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let consumer = self.consumer.as_deref().filter(|text| !text.is_empty());
        let consumer = consumer.map(|text| {
            let malformed = || Problem::field("consumer", "must be `kind:id`, such as `key:tok_…`");
            Consumer::parse(text).ok_or_else(malformed)
        });
        let action = self.action.filter(|action| !action.is_empty());
        let filter = Filter { action, status: self.status, consumer: consumer.transpose()? };
        let page = ctx.page()?;
        let (wanted, chunk) = (page.rows(), if filter.is_none() { page.rows() } else { CHUNK });
        let after = page.after.as_ref().map_or(AFTER_ALL, |cursor| cursor.0.as_str());
        let (mut before, mut found, mut scanned, mut next) = (after.to_owned(), Vec::new(), 0, None);
        loop {
            let tx = ctx.tx().await?;
            let rows = sql::uses_before(tx, account, self.connection_id, &before, chunk).await?;
            let (read, last) = (rows.len(), rows.last().map(|row| row.id.to_string()));
            found.extend(rows.into_iter().filter(|row| filter.passes(row)));
            scanned += read;
            let Some(last) = last else { break };
            before.clone_from(&last);
            let is_last = i64::try_from(read).is_ok_and(|read| read < chunk);
            if is_last || found.len() as u64 >= wanted.unsigned_abs() {
                break;
            }
            if scanned >= limits::SCANNED_MAX {
                next = Some(Cursor(last));
                break;
            }
        }
        let size = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_sub(1);
        let cursor = |row: &UseRow| Cursor(row.id.to_string());
        if found.len() > size {
            found.truncate(size);
            next = found.last().map(cursor);
        }
        Ok(Page { items: found.iter().map(|row| (cursor(row), row.into())).collect(), next })
    }
}
