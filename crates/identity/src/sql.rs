//! Every statement of the area.

use portico_engine::ports::{CredentialRecord, PersonRecord};
use portico_kernel::{AccountId, PersonId, ScopeSet, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from signing_keys where state = 'active' limit 1";

/// A key or API token as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct CredentialRow {
    pub(crate) id: String,
    pub(crate) account_id: AccountId,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) scopes: String,
    pub(crate) secret_hash: Option<Vec<u8>>,
    pub(crate) secret_hint: String,
    pub(crate) parent: Option<String>,
    pub(crate) created_by: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
}

from_row!(CredentialRow {
    id,
    account_id,
    kind,
    name,
    scopes,
    secret_hash,
    secret_hint,
    parent,
    created_by,
    created_at,
    last_used_at,
    expires_at,
    revoked_at,
});

impl CredentialRow {
    /// The scopes it holds.
    pub(crate) fn scope_set(&self) -> Result<ScopeSet, StoreError> {
        self.scopes.parse().map_err(StoreError::fault)
    }

    pub(crate) fn into_record(self) -> Result<CredentialRecord, StoreError> {
        Ok(CredentialRecord {
            scopes: self.scope_set()?,
            id: self.id,
            name: self.name,
            secret_hint: self.secret_hint,
            created_by: self.created_by,
            created_at: self.created_at,
            last_used_at: self.last_used_at,
            revoked_at: self.revoked_at,
            expires_at: self.expires_at,
            kind: self.kind,
        })
    }
}

pub(crate) async fn credential(tx: &mut Tx, id: &str) -> Result<Option<CredentialRow>, StoreError> {
    tx.first(
        "select id, account_id, kind, name, scopes, secret_hash, secret_hint, parent, created_by, created_at, \
         last_used_at, expires_at, revoked_at from credentials where id = $1",
        args![id.to_owned()],
    )
    .await
}

pub(crate) async fn insert_credential(tx: &mut Tx, row: &CredentialRow) -> Result<(), StoreError> {
    tx.execute(
        "insert into credentials (id, account_id, kind, name, scopes, secret_hash, secret_hint, parent, created_by, \
         created_at, expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        args![
            row.id,
            row.account_id,
            row.kind,
            row.name,
            row.scopes,
            row.secret_hash,
            row.secret_hint,
            row.parent,
            row.created_by,
            row.created_at,
            row.expires_at
        ],
    )
    .await
    .map(drop)
}

/// How many of that kind the account has that are neither revoked nor over.
pub(crate) async fn count_active(
    tx: &mut Tx,
    account: AccountId,
    kind: &str,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let (count,) = tx
        .one(
            "select count(*) as value from credentials where account_id = $1 and kind = $2 and revoked_at is null \
             and (expires_at is null or expires_at > $3)",
            args![account, kind.to_owned(), now],
        )
        .await?;
    Ok(count)
}

/// Revokes a credential and everything below it that is not revoked yet; answers what it revoked.
pub(crate) async fn revoke(tx: &mut Tx, id: &str, now: Timestamp) -> Result<Vec<CredentialRow>, StoreError> {
    tx.all(
        "with recursive family (member) as (select id from credentials where id = $1 \
         union select child.id from credentials child join family on child.parent = family.member) \
         update credentials set revoked_at = $2 where id in (select member from family) and revoked_at is null \
         returning id, account_id, kind, name, scopes, secret_hash, secret_hint, parent, created_by, created_at, \
         last_used_at, expires_at, revoked_at",
        args![id.to_owned(), now],
    )
    .await
}

/// Moves the last use forward, never back: several servers write it.
pub(crate) async fn note_use(tx: &mut Tx, id: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "update credentials set last_used_at = $2 where id = $1 and (last_used_at is null or last_used_at < $2)",
        args![id.to_owned(), at],
    )
    .await
    .map(drop)
}

/// What was revoked since.
pub(crate) async fn revoked_since(tx: &mut Tx, since: Timestamp) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String,)> =
        tx.all("select id as value from credentials where revoked_at > $1", args![since]).await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

/// A signing key as it is kept.
pub(crate) struct SigningKeyRow {
    pub(crate) id: String,
    pub(crate) public_key: Vec<u8>,
    pub(crate) sealed_private_key: Vec<u8>,
    pub(crate) state: String,
}

from_row!(SigningKeyRow { id, public_key, sealed_private_key, state });

pub(crate) async fn signing_keys(tx: &mut Tx) -> Result<Vec<SigningKeyRow>, StoreError> {
    tx.all(
        "select id, public_key, sealed_private_key, state from signing_keys order by created_at, id",
        args![],
    )
    .await
}

pub(crate) async fn insert_signing_key(
    tx: &mut Tx,
    row: &SigningKeyRow,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into signing_keys (id, public_key, sealed_private_key, state, created_at) values ($1, $2, $3, $4, $5)",
        args![row.id, row.public_key, row.sealed_private_key, row.state, now],
    )
    .await
    .map(drop)
}

/// Holds back whoever else would make the first signing key: the canary's row is there from the first start on.
pub(crate) async fn lock_signing_keys(tx: &mut Tx) -> Result<(), StoreError> {
    tx.execute("update keyring_canary set id = id where id = 1", args![]).await.map(drop)
}

/// A person and their own account.
pub(crate) struct PersonRow {
    pub(crate) id: PersonId,
    pub(crate) email: String,
    pub(crate) name: String,
    pub(crate) email_verified: bool,
    pub(crate) account_id: AccountId,
}

from_row!(PersonRow { id, email, name, email_verified, account_id });

pub(crate) async fn insert_person(tx: &mut Tx, row: &PersonRow, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into people (id, email, name, email_verified, account_id, created_at) values ($1, $2, $3, $4, $5, $6)",
        args![row.id, row.email, row.name, row.email_verified, row.account_id, now],
    )
    .await
    .map(drop)
}

pub(crate) async fn person_row(tx: &mut Tx, id: &str) -> Result<Option<PersonRow>, StoreError> {
    tx.first(
        "select id, email, name, email_verified, account_id from people where id = $1",
        args![id.to_owned()],
    )
    .await
}

pub(crate) async fn person(tx: &mut Tx, id: &str) -> Result<Option<PersonRecord>, StoreError> {
    Ok(person_row(tx, id).await?.map(|row| PersonRecord {
        id: row.id.to_string(),
        email: row.email,
        name: row.name,
        email_verified: row.email_verified,
    }))
}
