//! The operations on connections: here reading, the others each in a file of its own.

pub(crate) mod create;
pub(crate) mod delete;
mod input;
mod store;
pub(crate) mod test;
pub(crate) mod update;

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, Spec, Tool};
use portico_kernel::{Category, ConnectionId, Problem};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use input::{check_config_sizes, check_texts, secret_field};
pub(crate) use store::{
    NewConnection, check_limit, external_id, host_of, insert_new, is_other_workspace, replace_credential,
    tested,
};

use crate::records::{Connection, ConnectionAnswer, connection_record, connection_records};
use crate::{Connections, refusals, sql};

/// List the account's connections, newest first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListConnections {
    /// The account.
    org_id: AccountRef,
}

impl Operation for ListConnections {
    const SPEC: Spec = Spec::get("connections.connections.list", "/v1/accounts/orgs/{org_id}/connections")
        .tool(Tool::new("connections_list_connections", "List connections"))
        .scope("connections:read")
        .category(Category::List)
        .list("connections");
    type Area = Connections;
    type Answer = Page<Connection>;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<Page<Connection>, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let page = ctx.page()?;
        let before = page.after.as_ref().map(|cursor| cursor.0.as_str());
        let rows = sql::connections_before(ctx.tx().await?, account, before, page.rows()).await?;
        let cursors: Vec<_> = rows.iter().map(|row| row.id.to_string()).collect();
        let records = connection_records(ctx, account, rows).await?;
        let rows = cursors.into_iter().zip(records).collect();
        Ok(page.page(rows, |(id, _)| Cursor(id.clone()), |(_, record)| record))
    }
}

/// Read a connection.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetConnection {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
}

impl Operation for GetConnection {
    const SPEC: Spec =
        Spec::get("connections.connections.get", "/v1/accounts/orgs/{org_id}/connections/{connection_id}")
            .scope("connections:read")
            .category(Category::Read);
    type Area = Connections;
    type Answer = ConnectionAnswer;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<ConnectionAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let row = sql::connection(ctx.tx().await?, account, self.connection_id).await?;
        let row = row.ok_or_else(|| refusals::no_connection(self.connection_id))?;
        Ok(ConnectionAnswer { connection: connection_record(ctx, row).await? })
    }
}
