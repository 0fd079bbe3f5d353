//! What assistants have of connections: a tool for each action that the caller may call, and word of changes.

use std::sync::{Arc, LazyLock};

use dashmap::DashMap;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use portico_connectors::{Class, builtins};
use portico_engine::input::{Fields, Node};
use portico_engine::{
    Ctx, Engine, Offer, OfferFault, OfferRequest, OfferedList, OperationTool, ToolOperation,
};
use portico_kernel::{AccountId, Caller, Problem};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use crate::provider::Provider;
use crate::tools::{self, CallTool, FoundTool};
use crate::{Connections, limits, sql};

/// The scope that every tool of a connection asks for.
const USE: &str = "connections:use";

/// Every action that there is, by name, and what it can do.
static ACTIONS: LazyLock<Vec<(String, Class)>> = LazyLock::new(|| {
    let providers = builtins().iter().map(Provider::Connector).chain([Provider::Endpoint]);
    let actions = providers.flat_map(Provider::actions);
    actions.map(|action| (action.spec().name.clone(), action.spec().class)).collect()
});

/// What a connection's tool of that name can do, by the actions that the name may end with; none where no connection can have
/// such a tool.
fn classes_of(name: &str) -> impl Iterator<Item = Class> {
    let ends_with = move |action: &str| {
        let handle = name.strip_suffix(action).and_then(|handle| handle.strip_suffix('_'));
        handle.is_some_and(|handle| !handle.is_empty())
    };
    ACTIONS.iter().filter(move |(action, _)| ends_with(action)).map(|(_, class)| *class)
}

/// The scopes that the tool of an action asks for.
const fn scopes(class: Class) -> &'static [&'static str] {
    match class {
        Class::Read => &["mcp:read", USE],
        Class::WriteReversible | Class::WriteIrreversible => &["mcp:write", USE],
    }
}

/// The tools of connections, for assistants.
pub(crate) struct ConnectionTools(pub(crate) Arc<Connections>);

impl Offer for ConnectionTools {
    fn capabilities(&self) -> Map<String, Value> {
        Map::from_iter([("tools".to_owned(), json!({ "listChanged": true }))])
    }

    fn tools<'a>(
        &'a self,
        engine: &'a Arc<Engine>,
        caller: &'a Arc<Caller>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Problem>> {
        Box::pin(async move {
            let Some(account) = caller.org else { return Ok(Vec::new()) };
            let may_call =
                |tool: &FoundTool| scopes(tool.action.spec().class).iter().all(|scope| caller.holds(scope));
            if !caller.holds(USE) {
                return Ok(Vec::new());
            }
            let now = engine.clock.now();
            let tools = tools::tools_of(&mut engine.db.query(), account, caller, now).await?;
            Ok(tools.iter().filter(|tool| may_call(tool)).take(limits::TOOLS_MAX).map(listed).collect())
        })
    }

    fn operation_of(&self, caller: &Caller, name: &str) -> Option<ToolOperation> {
        // Without an account there are no connections.
        caller.org?;
        let of_each = classes_of(name).map(scopes);
        // Those that they have in common.
        let scopes = of_each.reduce(|one, other| if one == other { one } else { &[USE] })?;
        Some(ToolOperation { operation: CallTool::NAME, scopes })
    }

    fn operation_tool<'a>(
        &'a self,
        engine: &'a Arc<Engine>,
        caller: &'a Arc<Caller>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<OperationTool>, Problem>> {
        Box::pin(async move {
            let Some(account) = caller.org else { return Ok(None) };
            let tool = tools::find_tool(engine, account, caller, name).await?;
            Ok(tool.map(|tool| {
                let (class, shown) = (tool.action.spec().class, tool.to_tool());
                OperationTool {
                    title: shown.title,
                    fields: Fields::from([("name".to_owned(), Node::Text(shown.name))]),
                    arguments: "params",
                    scopes: scopes(class),
                    only_reads: class == Class::Read,
                    irreversible: class == Class::WriteIrreversible,
                }
            }))
        })
    }

    fn changes(&self, caller: &Caller) -> Option<BoxStream<'static, OfferedList>> {
        let changes = self.0.changes.watch(caller.org?);
        let next = async |mut changes: watch::Receiver<i64>| {
            changes.changed().await.ok()?;
            Some((OfferedList::Tools, changes))
        };
        Some(Box::pin(unfold(changes, next)))
    }

    fn answer<'a>(&'a self, _: OfferRequest<'a>) -> BoxFuture<'a, Option<Result<Value, OfferFault>>> {
        Box::pin(std::future::ready(None))
    }
}

/// A tool as `tools/list` shows it.
fn listed(tool: &FoundTool) -> Value {
    let (spec, shown) = (tool.action.spec(), tool.to_tool());
    let is_read = spec.class == Class::Read;
    json!({
        "name": shown.name,
        "title": shown.title,
        "description": shown.description,
        "inputSchema": spec.schema(),
        "annotations": {
            "readOnlyHint": is_read,
            "destructiveHint": spec.class == Class::WriteIrreversible,
            "idempotentHint": is_read,
            "openWorldHint": true,
        },
        "_meta": {
            "class": shown.class,
            "reads_private": shown.reads_private,
            "reads_untrusted": shown.reads_untrusted,
            "sends_out": shown.sends_out,
        },
    })
}

/// Who listens to changes of which account's tools, and the number of the last change that they were told of.
#[derive(Default)]
pub(crate) struct ToolChanges {
    accounts: DashMap<AccountId, watch::Sender<i64>>,
}

impl ToolChanges {
    fn watch(&self, account: AccountId) -> watch::Receiver<i64> {
        self.accounts.entry(account).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Tells those who listen here, if they were not told yet. Whoever has just begun to listen may be told of a change that
    /// they know: they read the list once more.
    fn tell(&self, account: AccountId, number: i64) {
        if let Some(changes) = self.accounts.get(&account) {
            changes.send_if_modified(|known| {
                let is_news = *known < number;
                *known = (*known).max(number);
                is_news
            });
        }
    }

    /// Does anybody listen here?
    fn is_watched(&self) -> bool {
        self.accounts.retain(|_, changes| changes.receiver_count() > 0);
        !self.accounts.is_empty()
    }
}

impl Connections {
    /// Counts a change after which callers of the account may have other tools, and tells those who listen once it is
    /// committed.
    pub(crate) async fn tools_changed(&self, ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
        let now = ctx.now();
        let number = sql::note_change(ctx.tx().await?, account, now).await?;
        let changes = self.changes.clone();
        ctx.after_commit(Box::new(move || changes.tell(account, number)));
        Ok(())
    }

    /// Tells those who listen here of what other servers changed.
    pub(crate) async fn spread_changes(&self, engine: &Engine) -> Result<(), Problem> {
        if !self.changes.is_watched() {
            return Ok(());
        }
        let since = engine.clock.now() - limits::CHANGES_LOOK_BACK;
        for change in sql::changes_since(&mut engine.db.query(), since).await? {
            self.changes.tell(change.account_id, change.number);
        }
        Ok(())
    }
}
