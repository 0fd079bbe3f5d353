//! Grants.

use portico_kernel::{AccountId, ConnectionId, GrantId, Timestamp};
use portico_store::{Row, Select, StoreError, Tx, args, from_row};

/// A grant as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct GrantRow {
    pub(crate) id: GrantId,
    pub(crate) account_id: AccountId,
    pub(crate) connection_id: ConnectionId,
    pub(crate) consumer: String,
    pub(crate) actions: String,
    pub(crate) max_class: String,
    pub(crate) created_by: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
    pub(crate) last_used_at: Option<Timestamp>,
}

from_row!(GrantRow {
    id,
    account_id,
    connection_id,
    consumer,
    actions,
    max_class,
    created_by,
    created_at,
    expires_at,
    revoked_at,
    last_used_at,
});

macro_rules! columns {
    () => {
        "id, account_id, connection_id, consumer, actions, max_class, created_by, created_at, expires_at, \
         revoked_at, last_used_at"
    };
}

impl GrantRow {
    /// Reads it where it was joined to its connection.
    pub(super) fn joined(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.get("grant_id")?,
            account_id: row.get("account_id")?,
            connection_id: row.get("id")?,
            consumer: row.get("grant_consumer")?,
            actions: row.get("grant_actions")?,
            max_class: row.get("grant_max_class")?,
            created_by: row.get("grant_created_by")?,
            created_at: row.get("grant_created_at")?,
            expires_at: row.get("grant_expires_at")?,
            revoked_at: row.get("grant_revoked_at")?,
            last_used_at: row.get("grant_last_used_at")?,
        })
    }
}

/// The grants of a connection before that id, newest first, whether or not they stand.
pub(crate) async fn grants_before(
    tx: &mut Tx,
    connection: ConnectionId,
    before: Option<&str>,
    limit: i64,
) -> Result<Vec<GrantRow>, StoreError> {
    let before = before.unwrap_or("gru").to_owned();
    let sql = concat!(
        "select ",
        columns!(),
        " from connection_grants where connection_id = $1 and id < $2 order by id desc limit $3"
    );
    tx.all(sql, args![connection, before, limit]).await
}

/// The grants of a connection that stand.
pub(crate) async fn live_grants(
    tx: &mut Tx,
    connection: ConnectionId,
    now: Timestamp,
) -> Result<Vec<GrantRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from connection_grants where connection_id = $1 and revoked_at is null \
         and (expires_at is null or expires_at > $2)"
    );
    tx.all(sql, args![connection, now]).await
}

/// The grants of a consumer that stand.
pub(crate) async fn grants_of(
    from: &mut impl Select,
    account: AccountId,
    consumer: &str,
    now: Timestamp,
) -> Result<Vec<GrantRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from connection_grants where account_id = $1 and consumer = $2 and revoked_at is null \
         and (expires_at is null or expires_at > $3)"
    );
    from.all(sql, args![account, consumer.to_owned(), now]).await
}

pub(crate) async fn insert_grant(tx: &mut Tx, row: &GrantRow) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into connection_grants (",
            columns!(),
            ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
        ),
        args![
            row.id,
            row.account_id,
            row.connection_id,
            row.consumer,
            row.actions,
            row.max_class,
            row.created_by,
            row.created_at,
            row.expires_at,
            row.revoked_at,
            row.last_used_at,
        ],
    )
    .await
}

/// Revokes a grant; returns whether it stood until now. `None` where there is none of that id.
pub(crate) async fn revoke_grant(
    tx: &mut Tx,
    account: AccountId,
    connection: ConnectionId,
    id: GrantId,
    now: Timestamp,
) -> Result<Option<bool>, StoreError> {
    let rows = tx
        .execute(
            "update connection_grants set revoked_at = $4 \
             where account_id = $1 and connection_id = $2 and id = $3 and revoked_at is null",
            args![account, connection, id, now],
        )
        .await?;
    if rows == 1 {
        return Ok(Some(true));
    }
    let known: Option<GrantId> = tx
        .first_value(
            "select id as value from connection_grants where account_id = $1 and connection_id = $2 and id = $3",
            args![account, connection, id],
        )
        .await?;
    Ok(known.map(|_| false))
}

/// Revokes every grant of a connection that stands; returns which they were, in order.
pub(crate) async fn revoke_all(
    tx: &mut Tx,
    connection: ConnectionId,
    now: Timestamp,
) -> Result<Vec<GrantId>, StoreError> {
    let mut revoked: Vec<GrantId> = tx
        .values(
            "update connection_grants set revoked_at = $2 where connection_id = $1 and revoked_at is null \
             and (expires_at is null or expires_at > $2) returning id as value",
            args![connection, now],
        )
        .await?;
    revoked.sort_unstable();
    Ok(revoked)
}

/// Grants that stand, after that id, in order, whosesoever they are.
pub(crate) async fn standing_grants(
    from: &mut impl Select,
    after: &str,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<GrantRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from connection_grants where revoked_at is null and (expires_at is null or expires_at > $2) and id > $1 \
         order by id limit $3"
    );
    from.all(sql, args![after.to_owned(), now, limit]).await
}

/// Removes grants that ended before that; returns how many.
pub(crate) async fn prune_grants(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from connection_grants where id in (select id from connection_grants \
         where revoked_at < $1 or expires_at < $1 limit $2)",
        args![before, limit],
    )
    .await
}

/// How many grants stand for a connection.
pub(crate) struct GrantCountRow {
    pub(crate) connection_id: ConnectionId,
    pub(crate) count: i64,
}

from_row!(GrantCountRow { connection_id, count });

/// How many grants stand for each connection of that range of ids.
pub(crate) async fn count_grants(
    tx: &mut Tx,
    account: AccountId,
    (first, last): (ConnectionId, ConnectionId),
    now: Timestamp,
) -> Result<Vec<GrantCountRow>, StoreError> {
    tx.all(
        "select connection_id, count(*) as count from connection_grants where account_id = $1 \
         and connection_id >= $2 and connection_id <= $3 and revoked_at is null \
         and (expires_at is null or expires_at > $4) group by connection_id",
        args![account, first, last, now],
    )
    .await
}
