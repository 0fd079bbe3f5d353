//! Tools: one action of one connection each.

use std::sync::Arc;

use portico_connectors::ActionSpec;
use portico_engine::{AccountRef, Ctx, Engine, Operation, Page, Spec};
use portico_kernel::{AccountId, Caller, Category, ConnectionId, Problem, Role, Timestamp};
use portico_store::Select;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::{self, Params};
use crate::calls::ActionAnswer;
use crate::model::{ConnectionStatus, Consumer, allows};
use crate::provider::{Provider, ProviderAction};
use crate::records::{class_of, list_of};
use crate::sql::{self, ConnectionRow, GrantRow};
use crate::{Connections, limits};

/// One action of one connection, by a name of its own.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ConnectionTool")]
pub(crate) struct ConnectionTool {
    /// The tool's name, which never changes and is never another's.
    pub(crate) name: String,
    /// The name for people.
    pub(crate) title: String,
    /// What it does, and at which account of the provider.
    pub(crate) description: String,
    /// The connection.
    pub(crate) connection_id: ConnectionId,
    /// The action.
    pub(crate) action: String,
    /// What it can do to the provider's data: `read`, `write_reversible` or `write_irreversible`.
    pub(crate) class: String,
    /// Whether its answer may hold what cannot be read without the credential.
    pub(crate) reads_private: bool,
    /// Whether its answer may hold text that others wrote.
    pub(crate) reads_untrusted: bool,
    /// Whether what the caller writes can reach others.
    pub(crate) sends_out: bool,
    /// A JSON Schema of its parameters, as text.
    pub(crate) schema: String,
    /// The grant that allows it; empty for a person.
    pub(crate) grant_id: String,
}

/// The name of a connection's tool.
pub(crate) fn tool_name(handle: &str, action: &str) -> String {
    format!("{handle}_{action}")
}

impl ConnectionTool {
    fn new(connection: &ConnectionRow, action: &ActionSpec, grant: Option<&GrantRow>) -> Self {
        let definition = action.definition();
        Self {
            name: tool_name(&connection.handle, &action.name),
            title: format!("{}: {}", connection.name, action.name.replace('_', " ")),
            description: format!("{}: {}", connection.label, definition.description),
            connection_id: connection.id,
            action: definition.name,
            class: definition.class,
            reads_private: definition.reads_private,
            reads_untrusted: definition.reads_untrusted,
            sends_out: definition.sends_out,
            schema: definition.schema,
            grant_id: grant.map(|grant| grant.id.to_string()).unwrap_or_default(),
        }
    }
}

/// A tool that the caller has now.
pub(crate) struct FoundTool {
    pub(crate) connection: ConnectionRow,
    pub(crate) action: ProviderAction,
    pub(crate) grant: Option<GrantRow>,
}

impl FoundTool {
    pub(crate) fn name(&self) -> String {
        tool_name(&self.connection.handle, &self.action.spec().name)
    }

    pub(crate) fn to_tool(&self) -> ConnectionTool {
        ConnectionTool::new(&self.connection, self.action.spec(), self.grant.as_ref())
    }
}

/// Can the connection be used now?
fn is_active(connection: &ConnectionRow) -> bool {
    ConnectionStatus::of(connection.status, connection.paused) == ConnectionStatus::Active
}

/// The tools that the caller has in the account, by name: what their grants allow on connections that can be used; a person
/// in the console has all.
pub(crate) async fn tools_of(
    from: &mut impl Select,
    account: AccountId,
    caller: &Caller,
    now: Timestamp,
) -> Result<Vec<FoundTool>, Problem> {
    let grants = match grants(from, account, caller, now).await? {
        Some(grants) if grants.is_empty() => return Ok(Vec::new()),
        grants => grants,
    };
    let connections = sql::all_connections(from, account).await?;
    Ok(find_tools(connections.into_iter().filter(is_active), grants.as_deref()))
}

/// The caller's grants in the account; `None` for whoever needs none.
async fn grants(
    from: &mut impl Select,
    account: AccountId,
    caller: &Caller,
    now: Timestamp,
) -> Result<Option<Vec<GrantRow>>, Problem> {
    let consumer = Consumer::of(caller);
    if consumer.needs_no_grant() {
        return Ok(None);
    }
    Ok(Some(sql::grants_of(from, account, &consumer.to_string(), now).await?))
}

fn find_tools(
    connections: impl Iterator<Item = ConnectionRow>,
    grants: Option<&[GrantRow]>,
) -> Vec<FoundTool> {
    let mut found: Vec<FoundTool> = Vec::new();
    for connection in connections {
        let grant = match grants {
            None => None,
            Some(grants) => {
                let of_connection = grants.iter().find(|grant| grant.connection_id == connection.id);
                let Some(grant) = of_connection else { continue };
                Some(grant.clone())
            }
        };
        let actions = Provider::of(&connection.kind).map(Provider::actions).unwrap_or_default();
        let named = grant.as_ref().map(|grant| list_of(&grant.actions)).unwrap_or_default();
        for action in actions {
            let is_allowed =
                grant.as_ref().is_none_or(|grant| allows(class_of(&grant.max_class), &named, action.spec()));
            if is_allowed {
                found.push(FoundTool { connection: connection.clone(), action, grant: grant.clone() });
            }
        }
    }
    // Of two of one name, which only an action that came later could bring about, the older connection's stays.
    found.sort_by_cached_key(|tool| (tool.name(), tool.connection.id));
    found.dedup_by(|one, other| one.name() == other.name());
    found
}

/// The caller's tool of that name, whether or not its connection can be used now.
pub(crate) async fn find_tool(
    engine: &Engine,
    account: AccountId,
    caller: &Caller,
    name: &str,
) -> Result<Option<FoundTool>, Problem> {
    // No tool has a longer name, and what is none is not looked for.
    if name.len() > limits::TOOL_NAME_BYTES_MAX {
        return Ok(None);
    }
    let from = &mut engine.db.query();
    let grants = grants(from, account, caller, engine.clock.now()).await?;
    if grants.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    let connections = sql::connections_of_tool(from, account, name).await?;
    let tools = find_tools(connections.into_iter(), grants.as_deref());
    Ok(tools.into_iter().find(|tool| tool.name() == name))
}

/// List the tools that the caller has, by name: each is one action of one connection that a grant allows. A person in the
/// console has all.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListTools {
    /// The team whose connections are meant; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
}

impl Operation for ListTools {
    const SPEC: Spec = Spec::get("connections.tools.list", "/v1/connections/tools")
        .scope("connections:read")
        .category(Category::List)
        .list("tools");
    type Area = Connections;
    type Answer = Page<ConnectionTool>;

    async fn run(self, _: &Connections, ctx: &mut Ctx) -> Result<Page<ConnectionTool>, Problem> {
        let account = ctx.account(self.account_id).await?;
        let (caller, now) = (ctx.shared_caller().clone(), ctx.now());
        let tools = tools_of(ctx.tx().await?, account, &caller, now).await?;
        ctx.page()?.slice(tools.iter().map(FoundTool::to_tool))
    }
}

/// Call a tool. It answers as the action that it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallTool {
    /// The tool's name.
    name: String,
    /// The team whose connections are meant; without it the caller's own account.
    #[serde(default)]
    account_id: Option<AccountRef>,
    /// Its parameters.
    #[serde(default)]
    params: Params,
}

impl CallTool {
    /// The operation's name, by which assistants' tools call it.
    pub(crate) const NAME: &'static str = "connections.tools.call";
}

impl Operation for CallTool {
    const SPEC: Spec = Spec::post(Self::NAME, "/v1/connections/tools/{name}")
        .scope("connections:use")
        .role(Role::Admin)
        .category(Category::Action)
        .body_limit(limits::ACTION_BODY_BYTES_MAX);
    type Area = Connections;
    type Answer = ActionAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ActionAnswer, Problem> {
        let account = ctx.account(self.account_id).await?;
        let params = self.params.into_sent()?;
        let (engine, caller): (Arc<Engine>, _) = (ctx.engine().clone(), ctx.shared_caller().clone());
        let missing = || Problem::not_found("tool", &self.name);
        let tool = find_tool(&engine, account, &caller, &self.name).await?.ok_or_else(missing)?;
        let action = tool.action.spec().name.clone();
        actions::call(connections, ctx, (account, tool.connection.id), &action, params).await
    }
}
