//! Connections and their handles.

use portico_kernel::{AccountId, ConnectionId, Timestamp};
use portico_store::{Row, Select, StoreError, Tx, args, from_row};

use super::{CredentialRow, GrantRow};
use crate::model::Health;

/// A connection as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionRow {
    pub(crate) id: ConnectionId,
    pub(crate) account_id: AccountId,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) handle: String,
    pub(crate) auth_mode: String,
    pub(crate) label: String,
    pub(crate) external_id: String,
    /// What the configuration says of the provider's host.
    pub(crate) host: String,
    pub(crate) status: Health,
    pub(crate) paused: bool,
    pub(crate) config: String,
    pub(crate) scopes: String,
    pub(crate) executor: String,
    pub(crate) agent_id: String,
    pub(crate) owner: String,
    pub(crate) credential_id: String,
    pub(crate) credential_kind: String,
    pub(crate) credential_set_at: Option<Timestamp>,
    pub(crate) last_test_at: Option<Timestamp>,
    pub(crate) last_test_ok: bool,
    pub(crate) last_test_error: String,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) version: i64,
}

from_row!(ConnectionRow {
    id,
    account_id,
    kind,
    name,
    description,
    handle,
    auth_mode,
    label,
    external_id,
    host,
    status,
    paused,
    config,
    scopes,
    executor,
    agent_id,
    owner,
    credential_id,
    credential_kind,
    credential_set_at,
    last_test_at,
    last_test_ok,
    last_test_error,
    created_at,
    updated_at,
    version,
});

macro_rules! columns {
    () => {
        "id, account_id, kind, name, description, handle, auth_mode, label, external_id, host, status, paused, config, \
         scopes, executor, agent_id, owner, credential_id, credential_kind, credential_set_at, last_test_at, \
         last_test_ok, last_test_error, created_at, updated_at, version"
    };
}

/// The connection of that id in the account.
pub(crate) async fn connection(
    from: &mut impl Select,
    account: AccountId,
    id: ConnectionId,
) -> Result<Option<ConnectionRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from connections where account_id = $1 and id = $2");
    from.first(sql, args![account, id]).await
}

/// The same, and locks its row until the commit.
pub(crate) async fn lock_connection(
    tx: &mut Tx,
    account: AccountId,
    id: ConnectionId,
) -> Result<Option<ConnectionRow>, StoreError> {
    let sql = concat!(
        "update connections set version = version where account_id = $1 and id = $2 returning ",
        columns!()
    );
    tx.first(sql, args![account, id]).await
}

/// The account's connections before that id, newest first.
pub(crate) async fn connections_before(
    tx: &mut Tx,
    account: AccountId,
    before: Option<&str>,
    limit: i64,
) -> Result<Vec<ConnectionRow>, StoreError> {
    // After every id of a connection.
    let before = before.unwrap_or("coo").to_owned();
    let sql = concat!(
        "select ",
        columns!(),
        " from connections where account_id = $1 and id < $2 order by id desc limit $3"
    );
    tx.all(sql, args![account, before, limit]).await
}

/// Every connection of the account, oldest first.
pub(crate) async fn all_connections(
    from: &mut impl Select,
    account: AccountId,
) -> Result<Vec<ConnectionRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from connections where account_id = $1 order by id");
    from.all(sql, args![account]).await
}

/// An account at a provider: the connector, the host that was chosen, and its id there.
pub(crate) struct Workspace<'a> {
    pub(crate) kind: &'a str,
    pub(crate) host: &'a str,
    pub(crate) external_id: &'a str,
}

/// The connection of the account to that account at the provider.
pub(crate) async fn connection_to(
    tx: &mut Tx,
    account: AccountId,
    at: Workspace<'_>,
) -> Result<Option<ConnectionRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from connections where account_id = $1 and kind = $2 and host = $3 and external_id = $4 and external_id <> ''"
    );
    let Workspace { kind, host, external_id } = at;
    tx.first(sql, args![account, kind.to_owned(), host.to_owned(), external_id.to_owned()]).await
}

/// The connections of the account whose tools' names begin as this one does.
pub(crate) async fn connections_of_tool(
    from: &mut impl Select,
    account: AccountId,
    tool: &str,
) -> Result<Vec<ConnectionRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from connections where account_id = $1 and substr($2, 1, length(handle) + 1) = handle || '_' order by id"
    );
    from.all(sql, args![account, tool.to_owned()]).await
}

pub(crate) async fn count_connections(from: &mut impl Select, account: AccountId) -> Result<i64, StoreError> {
    from.value("select count(*) as value from connections where account_id = $1", args![account]).await
}

pub(crate) async fn insert_connection(tx: &mut Tx, row: &ConnectionRow) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into connections (",
            columns!(),
            ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, \
             $21, $22, $23, $24, $25, $26)"
        ),
        args![
            row.id,
            row.account_id,
            row.kind,
            row.name,
            row.description,
            row.handle,
            row.auth_mode,
            row.label,
            row.external_id,
            row.host,
            row.status,
            row.paused,
            row.config,
            row.scopes,
            row.executor,
            row.agent_id,
            row.owner,
            row.credential_id,
            row.credential_kind,
            row.credential_set_at,
            row.last_test_at,
            row.last_test_ok,
            row.last_test_error,
            row.created_at,
            row.updated_at,
            row.version,
        ],
    )
    .await
}

/// Writes what a test changes.
pub(crate) async fn note_test(tx: &mut Tx, row: &ConnectionRow) -> Result<(), StoreError> {
    tx.run(
        "update connections set label = $2, status = $3, scopes = $4, last_test_at = $5, last_test_ok = $6, \
         last_test_error = $7 where id = $1",
        args![
            row.id,
            row.label,
            row.status,
            row.scopes,
            row.last_test_at,
            row.last_test_ok,
            row.last_test_error,
        ],
    )
    .await
}

/// Writes what a caller changes.
pub(crate) async fn update_connection(tx: &mut Tx, row: &ConnectionRow) -> Result<(), StoreError> {
    tx.run(
        "update connections set name = $2, description = $3, auth_mode = $4, label = $5, external_id = $6, \
         status = $7, paused = $8, config = $9, scopes = $10, credential_id = $11, credential_kind = $12, \
         credential_set_at = $13, last_test_at = $14, last_test_ok = $15, last_test_error = $16, updated_at = $17, \
         host = $18, version = version + 1 where id = $1",
        args![
            row.id,
            row.name,
            row.description,
            row.auth_mode,
            row.label,
            row.external_id,
            row.status,
            row.paused,
            row.config,
            row.scopes,
            row.credential_id,
            row.credential_kind,
            row.credential_set_at,
            row.last_test_at,
            row.last_test_ok,
            row.last_test_error,
            row.updated_at,
            row.host,
        ],
    )
    .await
}

/// Says that the provider does not take the credential of that version any more; returns whether it was still the
/// connection's, and still thought good.
pub(crate) async fn lose_credential(
    tx: &mut Tx,
    id: ConnectionId,
    credential_id: &str,
    version: i64,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update connections set status = 'needs_reconnect', updated_at = $4 \
             where id = $1 and credential_id = $2 and status = 'active' \
             and exists (select 1 from connection_credentials c where c.id = $2 and c.version = $3)",
            args![id, credential_id.to_owned(), version, now],
        )
        .await?;
    Ok(rows == 1)
}

/// Deletes a connection with its credentials and grants; its handle and its history stay.
pub(crate) async fn delete_connection(tx: &mut Tx, id: ConnectionId) -> Result<(), StoreError> {
    tx.run("delete from connection_credentials where connection_id = $1", args![id]).await?;
    tx.run("delete from connection_grants where connection_id = $1", args![id]).await?;
    tx.run("delete from connection_consumers where connection_id = $1", args![id]).await?;
    tx.run("delete from connections where id = $1", args![id]).await
}

/// The handle of a connection.
pub(crate) struct HandleRow {
    pub(crate) handle: String,
    pub(crate) kind: String,
}

from_row!(HandleRow { handle, kind });

/// The handles of the account's connections.
pub(crate) async fn handles(tx: &mut Tx, account: AccountId) -> Result<Vec<HandleRow>, StoreError> {
    tx.all("select handle, kind from connections where account_id = $1", args![account]).await
}

/// Was the handle ever given out?
pub(crate) async fn is_handle_taken(
    tx: &mut Tx,
    account: AccountId,
    handle: &str,
) -> Result<bool, StoreError> {
    let rows: i64 = tx
        .value(
            "select count(*) as value from connection_handles where account_id = $1 and handle = $2",
            args![account, handle.to_owned()],
        )
        .await?;
    Ok(rows > 0)
}

pub(crate) async fn insert_handle(tx: &mut Tx, row: &ConnectionRow) -> Result<(), StoreError> {
    tx.run(
        "insert into connection_handles (account_id, handle, connection_id) values ($1, $2, $3)",
        args![row.account_id, row.handle, row.id],
    )
    .await
}

/// A connection with its credential, and the grant of a consumer to it.
pub(crate) struct CallRow {
    pub(crate) connection: ConnectionRow,
    pub(crate) credential: Option<CredentialRow>,
    pub(crate) grant: Option<GrantRow>,
}

impl portico_store::FromRow for CallRow {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        let has = |column| row.get::<Option<String>>(column).map(|id| id.is_some());
        Ok(Self {
            connection: ConnectionRow::from_row(row)?,
            credential: has("cred_id")?.then(|| CredentialRow::joined(row)).transpose()?,
            grant: has("grant_id")?.then(|| GrantRow::joined(row)).transpose()?,
        })
    }
}

/// All that a call needs to know of the connection, in one statement.
pub(crate) async fn for_call(
    from: &mut impl Select,
    account: AccountId,
    id: ConnectionId,
    consumer: &str,
    now: Timestamp,
) -> Result<Option<CallRow>, StoreError> {
    from.first(
        "select c.*, d.id as cred_id, d.purpose as cred_purpose, d.sealed as cred_sealed, d.version as cred_version, \
         d.issued_at as cred_issued_at, d.expires_at as cred_expires_at, d.created_at as cred_created_at, \
         d.failures as cred_failures, d.retry_at as cred_retry_at, \
         g.id as grant_id, g.consumer as grant_consumer, g.actions as grant_actions, g.max_class as grant_max_class, \
         g.created_by as grant_created_by, g.created_at as grant_created_at, g.expires_at as grant_expires_at, \
         g.revoked_at as grant_revoked_at, g.last_used_at as grant_last_used_at \
         from connections c left join connection_credentials d on d.id = c.credential_id \
         left join connection_grants g on g.connection_id = c.id and g.consumer = $3 and g.revoked_at is null \
         and (g.expires_at is null or g.expires_at > $4) where c.account_id = $1 and c.id = $2",
        args![account, id, consumer.to_owned(), now],
    )
    .await
}
