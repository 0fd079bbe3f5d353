//! Sign-ins at providers.

use portico_kernel::{AccountId, SignInId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

/// A sign-in as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct SignInRow {
    pub(crate) id: SignInId,
    pub(crate) account_id: AccountId,
    pub(crate) person_id: String,
    pub(crate) connector: String,
    pub(crate) verifier: Vec<u8>,
    pub(crate) request: String,
    pub(crate) connection_id: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

from_row!(SignInRow {
    id,
    account_id,
    person_id,
    connector,
    verifier,
    request,
    connection_id,
    status,
    reason,
    created_at,
    expires_at,
});

macro_rules! columns {
    () => {
        "id, account_id, person_id, connector, verifier, request, connection_id, status, reason, created_at, expires_at"
    };
}

pub(crate) async fn insert_sign_in(
    tx: &mut Tx,
    row: &SignInRow,
    state_hash: &[u8],
) -> Result<(), StoreError> {
    tx.run(
        concat!(
            "insert into connection_sign_ins (",
            columns!(),
            ", state_hash) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
        ),
        args![
            row.id,
            row.account_id,
            row.person_id,
            row.connector,
            row.verifier,
            row.request,
            row.connection_id,
            row.status,
            row.reason,
            row.created_at,
            row.expires_at,
            state_hash.to_vec(),
        ],
    )
    .await
}

/// How many sign-ins wait for the person, in whichever account.
pub(crate) async fn count_pending(tx: &mut Tx, person: &str, now: Timestamp) -> Result<i64, StoreError> {
    tx.value(
        "select count(*) as value from connection_sign_ins where person_id = $1 \
         and status = 'pending' and taken_at is null and expires_at > $2",
        args![person.to_owned(), now],
    )
    .await
}

/// The sign-in of that id that the person began in the account.
pub(crate) async fn sign_in(
    tx: &mut Tx,
    account: AccountId,
    person: &str,
    id: SignInId,
) -> Result<Option<SignInRow>, StoreError> {
    let sql = concat!(
        "select ",
        columns!(),
        " from connection_sign_ins where account_id = $1 and person_id = $2 and id = $3"
    );
    tx.first(sql, args![account, person.to_owned(), id]).await
}

/// Uses up the state of a sign-in that waits for this person in this account.
pub(crate) async fn take_sign_in(
    tx: &mut Tx,
    account: AccountId,
    person: &str,
    state_hash: &[u8],
    now: Timestamp,
) -> Result<Option<SignInRow>, StoreError> {
    let sql = concat!(
        "update connection_sign_ins set taken_at = $4 where state_hash = $3 and account_id = $1 and person_id = $2 \
         and taken_at is null and status = 'pending' and expires_at > $4 returning ",
        columns!()
    );
    tx.first(sql, args![account, person.to_owned(), state_hash.to_vec(), now]).await
}

/// Says how a sign-in ended. Its verifier has been used, and goes.
pub(crate) async fn end_sign_in(
    tx: &mut Tx,
    id: SignInId,
    status: &str,
    reason: &str,
    connection: &str,
) -> Result<(), StoreError> {
    tx.run(
        "update connection_sign_ins set status = $2, reason = $3, connection_id = $4, verifier = $5 where id = $1",
        args![id, status.to_owned(), reason.to_owned(), connection.to_owned(), Vec::<u8>::new()],
    )
    .await
}

/// Removes sign-ins that are no longer kept; returns how many.
pub(crate) async fn prune_sign_ins(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from connection_sign_ins where id in \
         (select id from connection_sign_ins where created_at < $1 order by created_at limit $2)",
        args![before, limit],
    )
    .await
}
