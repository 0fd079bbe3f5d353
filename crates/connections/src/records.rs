//! Connections as the API has them.

use std::collections::{BTreeMap, HashMap};

use portico_connectors::{Class, Mode};
use portico_engine::Ctx;
use portico_kernel::{AccountId, ConnectionId, Problem, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::limits;
use crate::model::{ConnectionStatus, int32, optional_time};
use crate::provider::Provider;
use crate::sql::{self, ConnectionRow};

/// What a connection proves itself with. The credential is not part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Credential {
    /// What it is: `api_key`, `basic`, `oauth2`, `app`, `secret` or `none`.
    kind: String,
    /// Its id, new with every replacement.
    reference: String,
    /// When it was set; empty where there is none.
    set_at: String,
}

/// Who sends a connection's requests.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConnectionExecutor {
    /// `cloud` for this server.
    kind: String,
    /// The agent; empty for none.
    agent_id: String,
}

/// A link to a provider, or to a service of the account's own.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Connection {
    /// The connection's id.
    id: ConnectionId,
    /// Its account.
    account_id: AccountId,
    /// How it proves who it is.
    auth_mode: String,
    /// The connector; empty for an account's own service.
    connector: String,
    /// What it leads to: `endpoint`, or the name of a connector.
    kind: String,
    /// What the provider calls the account behind the credential; the host of an account's own service.
    label: String,
    /// What its maker called it.
    name: String,
    /// What its maker wrote about it.
    description: String,
    /// Who made it.
    owner: String,
    /// The id of the account at the provider; empty where there is none.
    external_id: String,
    /// Where others post messages to it; empty for a connection that receives none.
    receive_url: String,
    /// How it stands.
    status: ConnectionStatus,
    /// Its configuration.
    config: BTreeMap<String, String>,
    /// What it proves itself with.
    credential: Credential,
    /// Who sends its requests.
    executor: ConnectionExecutor,
    /// How many grants stand.
    grants: i32,
    /// The scopes that the provider granted.
    scopes: Vec<String>,
    /// When it was last tested; empty before the first time.
    last_test_at: String,
    /// Why the last test did not pass; empty when it did.
    last_test_error: String,
    /// Did the last test pass?
    last_test_ok: bool,
    /// When its access token ends; empty where that is not known.
    token_expires_at: String,
    /// When it was made.
    created_at: Timestamp,
    /// When it was last changed.
    updated_at: Timestamp,
    /// Who called one of its actions in the last 30 days, the latest first.
    used_by: Vec<String>,
}

/// A connection.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConnectionAnswer {
    /// The connection.
    pub(crate) connection: Connection,
}

/// Reads a JSON text that this crate wrote.
fn stored<T: DeserializeOwned + Default>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| {
        // The row was changed from outside; a list of others must not break on it.
        tracing::error!(%error, "A stored value of a connection does not read");
        T::default()
    })
}

/// The configuration of a row.
pub(crate) fn config_of(text: &str) -> BTreeMap<String, String> {
    stored(text)
}

/// A list of words of a row.
pub(crate) fn list_of(text: &str) -> Vec<String> {
    stored(text)
}

/// The class of a row; the least where it says none that there is.
pub(crate) fn class_of(text: &str) -> Class {
    Class::parse(text).unwrap_or(Class::Read)
}

/// A value as it is stored.
pub(crate) fn to_text(value: &impl Serialize) -> Result<String, Problem> {
    serde_json::to_string(value).map_err(Problem::internal)
}

/// Connections as the API has them, in the order of the rows.
pub(crate) async fn connection_records(
    ctx: &mut Ctx,
    account: AccountId,
    rows: Vec<ConnectionRow>,
) -> Result<Vec<Connection>, Problem> {
    let ids = || rows.iter().map(|row| row.id);
    let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return Ok(Vec::new()) };
    let (range, now) = ((first, last), ctx.now());
    let tx = ctx.tx().await?;
    let counts = sql::count_grants(tx, account, range, now).await?;
    let ends = sql::token_ends(tx, account, range).await?;
    let mut used_by: HashMap<ConnectionId, Vec<String>> = HashMap::new();
    for row in sql::consumers(tx, account, range, now - limits::USED_BY_LIFE).await? {
        used_by.entry(row.connection_id).or_default().push(row.consumer);
    }
    let grants: HashMap<_, _> = counts.into_iter().map(|row| (row.connection_id, row.count)).collect();
    let ends: HashMap<_, _> = ends.into_iter().map(|row| (row.connection_id, row.expires_at)).collect();
    let record = |row: ConnectionRow| {
        let count = grants.get(&row.id).copied().unwrap_or_default();
        let end = ends.get(&row.id).copied().flatten().filter(|_| row.auth_mode == Mode::OAuth2.name());
        let used_by = used_by.remove(&row.id).unwrap_or_default();
        Connection::new(row, count, used_by, end)
    };
    Ok(rows.into_iter().map(record).collect())
}

/// One connection as the API has it.
pub(crate) async fn connection_record(ctx: &mut Ctx, row: ConnectionRow) -> Result<Connection, Problem> {
    let account = row.account_id;
    let record = connection_records(ctx, account, vec![row]).await?.pop();
    record.ok_or_else(|| Problem::internal("a record was lost"))
}

impl Connection {
    fn new(row: ConnectionRow, grants: i64, used_by: Vec<String>, expires_at: Option<Timestamp>) -> Self {
        let status = ConnectionStatus::of(row.status, row.paused);
        let is_connector = matches!(Provider::of(&row.kind), Some(Provider::Connector(_)));
        Self {
            id: row.id,
            account_id: row.account_id,
            auth_mode: row.auth_mode,
            connector: if is_connector { row.kind.clone() } else { String::new() },
            kind: row.kind,
            label: row.label,
            name: row.name,
            description: row.description,
            owner: row.owner,
            external_id: row.external_id,
            receive_url: String::new(),
            status,
            config: config_of(&row.config),
            credential: Credential {
                kind: row.credential_kind,
                reference: row.credential_id,
                set_at: optional_time(row.credential_set_at),
            },
            executor: ConnectionExecutor { kind: row.executor, agent_id: row.agent_id },
            grants: int32(grants),
            scopes: list_of(&row.scopes),
            last_test_at: optional_time(row.last_test_at),
            last_test_error: row.last_test_error,
            last_test_ok: row.last_test_ok,
            token_expires_at: optional_time(expires_at),
            created_at: row.created_at,
            updated_at: row.updated_at,
            used_by,
        }
    }
}
