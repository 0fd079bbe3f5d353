//! Uses, and who last used what.

use portico_kernel::{AccountId, ConnectionId, ConnectionUseId, GrantId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

use crate::limits;
use crate::model::{Consumer, ConsumerKind, ErrorClass, UseStatus};

/// A use as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct UseRow {
    pub(crate) id: ConnectionUseId,
    pub(crate) account_id: AccountId,
    /// Empty for the test of a connection that was not made.
    pub(crate) connection_id: String,
    pub(crate) action: String,
    pub(crate) at: Timestamp,
    pub(crate) caller_kind: ConsumerKind,
    pub(crate) caller: String,
    pub(crate) grant_id: String,
    pub(crate) status: UseStatus,
    pub(crate) error_class: ErrorClass,
    pub(crate) executor: String,
    pub(crate) status_code: i64,
    pub(crate) latency_ms: i64,
    pub(crate) input_tokens: i64,
    pub(crate) output_tokens: i64,
}

from_row!(UseRow {
    id,
    account_id,
    connection_id,
    action,
    at,
    caller_kind,
    caller,
    grant_id,
    status,
    error_class,
    executor,
    status_code,
    latency_ms,
    input_tokens,
    output_tokens,
});

macro_rules! columns {
    () => {
        "id, account_id, connection_id, action, at, caller_kind, caller, grant_id, status, error_class, executor, \
         status_code, latency_ms, input_tokens, output_tokens"
    };
}

pub(crate) async fn insert_use(tx: &mut Tx, row: &UseRow) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into connection_uses (",
            columns!(),
            ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
        ),
        args![
            row.id,
            row.account_id,
            row.connection_id,
            row.action,
            row.at,
            row.caller_kind,
            row.caller,
            row.grant_id,
            row.status,
            row.error_class,
            row.executor,
            row.status_code,
            row.latency_ms,
            row.input_tokens,
            row.output_tokens,
        ],
    )
    .await
}

/// The uses before that id, newest first: of the account, or of one connection.
pub(crate) async fn uses_before(
    tx: &mut Tx,
    account: AccountId,
    connection: Option<ConnectionId>,
    before: &str,
    limit: i64,
) -> Result<Vec<UseRow>, StoreError> {
    if let Some(connection) = connection {
        let sql = concat!(
            "select ",
            columns!(),
            " from connection_uses where connection_id = $2 and account_id = $1 and id < $3 order by id desc limit $4"
        );
        return tx.all(sql, args![account, connection, before.to_owned(), limit]).await;
    }
    let sql = concat!(
        "select ",
        columns!(),
        " from connection_uses where account_id = $1 and id < $2 order by id desc limit $3"
    );
    tx.all(sql, args![account, before.to_owned(), limit]).await
}

/// Removes uses whose time is over; returns how many.
pub(crate) async fn prune_uses(tx: &mut Tx, before: ConnectionUseId, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from connection_uses where id in (select id from connection_uses where id < $1 order by id limit $2)",
        args![before, limit],
    )
    .await
}

/// Notes that the consumer called an action of the connection.
pub(crate) async fn note_consumer(
    tx: &mut Tx,
    account: AccountId,
    connection: ConnectionId,
    consumer: &Consumer,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into connection_consumers (connection_id, consumer, account_id, last_used_at) \
         values ($1, $2, $3, $4) on conflict (connection_id, consumer) do update set last_used_at = $4",
        args![connection, consumer.to_string(), account, now],
    )
    .await
}

/// Notes that the grant was used.
pub(crate) async fn note_grant(tx: &mut Tx, grant: GrantId, now: Timestamp) -> Result<(), StoreError> {
    tx.run("update connection_grants set last_used_at = $2 where id = $1", args![grant, now]).await
}

/// Who used a connection.
pub(crate) struct ConsumerRow {
    pub(crate) connection_id: ConnectionId,
    pub(crate) consumer: String,
}

from_row!(ConsumerRow { connection_id, consumer });

/// Who has used each connection of that range of ids since then, the latest first.
pub(crate) async fn consumers(
    tx: &mut Tx,
    account: AccountId,
    (first, last): (ConnectionId, ConnectionId),
    since: Timestamp,
) -> Result<Vec<ConsumerRow>, StoreError> {
    tx.all(
        "select connection_id, consumer from (select connection_id, consumer, row_number() over \
         (partition by connection_id order by last_used_at desc, consumer) as place from connection_consumers \
         where account_id = $1 and connection_id >= $2 and connection_id <= $3 and last_used_at > $4) ranked \
         where place <= $5 order by connection_id, place",
        args![account, first, last, since, limits::USED_BY_MAX],
    )
    .await
}

/// Removes who has not used anything since then; returns how many.
pub(crate) async fn prune_consumers(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from connection_consumers where last_used_at < $1 and (connection_id, consumer) in \
         (select connection_id, consumer from connection_consumers where last_used_at < $1 limit $2)",
        args![before, limit],
    )
    .await
}
