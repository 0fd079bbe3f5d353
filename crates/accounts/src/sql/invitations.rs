//! Statements of invitations.

use portico_kernel::{AccountId, InvitationId, PersonId, Role, Timestamp};
use portico_store::{Select, StoreError, Tx, args, delete_some, from_row};

/// A row of `invitations`; of the secret in its link only a hash is kept.
pub(crate) struct InvitationRow {
    pub(crate) id: InvitationId,
    pub(crate) account_id: AccountId,
    pub(crate) email: String,
    pub(crate) role: Role,
    pub(crate) token_hash: Vec<u8>,
    pub(crate) mailed: bool,
    pub(crate) created_by: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

from_row!(InvitationRow {
    id,
    account_id,
    email,
    role,
    token_hash,
    mailed,
    created_by,
    created_at,
    expires_at
});

pub(crate) async fn insert_invitation(tx: &mut Tx, row: &InvitationRow) -> Result<(), StoreError> {
    tx.execute(
        "insert into invitations (id, account_id, email, role, token_hash, mailed, created_by, created_at, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        args![
            row.id,
            row.account_id,
            row.email,
            row.role,
            row.token_hash,
            row.mailed,
            row.created_by,
            row.created_at,
            row.expires_at
        ],
    )
    .await
    .map(drop)
}

/// The account's invitations that have not expired, newest first.
pub(crate) async fn invitations_before(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
    before: Option<String>,
    limit: i64,
) -> Result<Vec<InvitationRow>, StoreError> {
    tx.all(
        "select id, account_id, email, role, token_hash, mailed, created_by, created_at, expires_at from invitations \
         where account_id = $1 and expires_at > $2 and ($3 is null or id < $3) order by id desc limit $4",
        args![account, now, before, limit],
    )
    .await
}

pub(crate) async fn invitation_by_token(
    tx: &mut Tx,
    hash: Vec<u8>,
    now: Timestamp,
) -> Result<Option<InvitationRow>, StoreError> {
    tx.first(
        "select id, account_id, email, role, token_hash, mailed, created_by, created_at, expires_at from invitations \
         where token_hash = $1 and expires_at > $2",
        args![hash, now],
    )
    .await
}

pub(crate) async fn count_invitations(tx: &mut Tx, account: AccountId) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from invitations where account_id = $1", args![account]).await
}

/// The open invitations of one person, in all their teams.
pub(crate) async fn count_invited_by(tx: &mut Tx, person: PersonId) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from invitations where created_by = $1", args![person.to_string()])
        .await
}

/// Removes the account's invitations of that address.
pub(crate) async fn delete_invitations_of(
    tx: &mut Tx,
    account: AccountId,
    email: &str,
) -> Result<(), StoreError> {
    tx.run("delete from invitations where account_id = $1 and email = $2", args![account, email.to_owned()])
        .await
}

/// Removes the account's invitations that the person made.
pub(crate) async fn delete_invitations_by(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
) -> Result<(), StoreError> {
    tx.run(
        "delete from invitations where account_id = $1 and created_by = $2",
        args![account, person.to_string()],
    )
    .await
}

/// Removes every invitation of that address, whoever invited.
pub(crate) async fn forget_invited(tx: &mut Tx, email: &str) -> Result<(), StoreError> {
    tx.run("delete from invitations where email = $1", args![email.to_owned()]).await
}

/// Removes up to `limit` expired invitations.
pub(crate) async fn prune_all_invitations(
    tx: &mut Tx,
    now: Timestamp,
    limit: i64,
) -> Result<u64, StoreError> {
    tx.execute(delete_some!("invitations", "id", "expires_at <= $1"), args![now, limit]).await
}

/// Removes the account's expired invitations.
pub(crate) async fn prune_invitations(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run("delete from invitations where account_id = $1 and expires_at <= $2", args![account, now]).await
}

/// Removes an invitation; returns whether there was one.
pub(crate) async fn delete_invitation(
    tx: &mut Tx,
    account: AccountId,
    id: InvitationId,
) -> Result<bool, StoreError> {
    Ok(tx.execute("delete from invitations where account_id = $1 and id = $2", args![account, id]).await?
        == 1)
}
