//! Calling an action of a connection.

use portico_engine::input::Verbatim;
use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{AccountId, Category, ConnectionId, Problem, Role};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::calls::{ActionAnswer, ActionCall};
use crate::model::Consumer;
use crate::provider::Provider;
use crate::{Connections, limits, refusals, sql};

/// Parameters as they were sent.
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Params(Verbatim);

impl Default for Params {
    fn default() -> Self {
        Self(Verbatim(Value::Object(Map::new())))
    }
}

impl JsonSchema for Params {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Params".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}

impl Params {
    /// The parameters by name.
    pub(crate) fn into_sent(self) -> Result<SentParams, Problem> {
        let Verbatim(Value::Object(params)) = self.0 else {
            return Err(Problem::field("params", "must be an object"));
        };
        let size = serde_json::to_vec(&params).map_err(Problem::internal)?.len();
        Ok(SentParams { params, size })
    }
}

/// Parameters by name, and how large they are as JSON.
pub(crate) struct SentParams {
    params: Map<String, Value>,
    size: usize,
}

/// Call an action of a connection, which a grant allows. The answer holds what the provider answered. A write of which
/// nobody knows whether the provider did it is refused as `OUTCOME_UNKNOWN`, and never with a status that invites to
/// repeat it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallAction {
    /// The account.
    org_id: AccountRef,
    /// The connection.
    connection_id: ConnectionId,
    /// The action.
    action: String,
    /// Its parameters, as the catalogue of kinds describes them; of a list also `cursor`.
    #[serde(default)]
    params: Params,
}

impl Operation for CallAction {
    const SPEC: Spec = Spec::post(
        "connections.actions.call",
        "/v1/accounts/orgs/{org_id}/connections/{connection_id}/actions/{action}",
    )
    .scope("connections:use")
    .role(Role::Admin)
    .category(Category::Action)
    .body_limit(limits::ACTION_BODY_BYTES_MAX);
    type Area = Connections;
    type Answer = ActionAnswer;

    async fn run(self, connections: &Connections, ctx: &mut Ctx) -> Result<ActionAnswer, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let params = self.params.into_sent()?;
        call(connections, ctx, (account, self.connection_id), &self.action, params).await
    }
}

/// Calls an action for whoever calls.
pub(crate) async fn call(
    connections: &Connections,
    ctx: &mut Ctx,
    (account, id): (AccountId, ConnectionId),
    action: &str,
    SentParams { params, size }: SentParams,
) -> Result<ActionAnswer, Problem> {
    let (engine, consumer, at) = (ctx.engine().clone(), Consumer::of(ctx.caller()), ctx.now());
    // Nothing may be open while the provider is called; this says so if something is.
    ctx.egress()?;
    let row = sql::for_call(&mut engine.db.query(), account, id, &consumer.to_string(), at).await?;
    let row = row.ok_or_else(|| refusals::no_connection(id))?;
    let provider = Provider::of(&row.connection.kind).ok_or_else(|| refusals::no_action(action))?;
    let action = provider.action(action).ok_or_else(|| refusals::no_action(action))?;
    ctx.give_back();
    let call = ActionCall { row, provider, action, consumer, params, size, at };
    connections.calls.call_action(&engine, call).await
}
