//! Sealed credentials, and who refreshes one.

use portico_kernel::{AccountId, ConnectionId, Timestamp};
use portico_store::{Row, Select, StoreError, Tx, args, from_row};

/// A credential as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct CredentialRow {
    pub(crate) id: String,
    pub(crate) purpose: String,
    pub(crate) sealed: Vec<u8>,
    pub(crate) version: i64,
    pub(crate) issued_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) failures: i64,
    pub(crate) retry_at: Option<Timestamp>,
}

from_row!(CredentialRow {
    id,
    purpose,
    sealed,
    version,
    issued_at,
    expires_at,
    created_at,
    failures,
    retry_at,
});

macro_rules! columns {
    () => {
        "id, purpose, sealed, version, issued_at, expires_at, created_at, failures, retry_at"
    };
}

impl CredentialRow {
    /// Reads it where it was joined to its connection.
    pub(super) fn joined(row: &Row) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.get("cred_id")?,
            purpose: row.get("cred_purpose")?,
            sealed: row.get("cred_sealed")?,
            version: row.get("cred_version")?,
            issued_at: row.get("cred_issued_at")?,
            expires_at: row.get("cred_expires_at")?,
            created_at: row.get("cred_created_at")?,
            failures: row.get("cred_failures")?,
            retry_at: row.get("cred_retry_at")?,
        })
    }
}

/// The credential of that id.
pub(crate) async fn credential(
    from: &mut impl Select,
    id: &str,
) -> Result<Option<CredentialRow>, StoreError> {
    let sql = concat!("select ", columns!(), " from connection_credentials where id = $1");
    from.first(sql, args![id.to_owned()]).await
}

/// When a connection's token ends.
pub(crate) struct TokenEndRow {
    pub(crate) connection_id: ConnectionId,
    pub(crate) expires_at: Option<Timestamp>,
}

from_row!(TokenEndRow { connection_id, expires_at });

/// When the tokens of each connection of that range of ids end.
pub(crate) async fn token_ends(
    tx: &mut Tx,
    account: AccountId,
    (first, last): (ConnectionId, ConnectionId),
) -> Result<Vec<TokenEndRow>, StoreError> {
    tx.all(
        "select connection_id, expires_at from connection_credentials where account_id = $1 \
         and connection_id >= $2 and connection_id <= $3",
        args![account, first, last],
    )
    .await
}

pub(crate) async fn insert_credential(
    tx: &mut Tx,
    account: AccountId,
    connection: ConnectionId,
    row: &CredentialRow,
) -> Result<(), StoreError> {
    tx.run(
        "insert into connection_credentials (id, account_id, connection_id, purpose, sealed, version, issued_at, \
         expires_at, created_at, failures, retry_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        args![
            row.id,
            account,
            connection,
            row.purpose,
            row.sealed,
            row.version,
            row.issued_at,
            row.expires_at,
            row.created_at,
            row.failures,
            row.retry_at,
        ],
    )
    .await
}

pub(crate) async fn delete_credential(tx: &mut Tx, id: &str) -> Result<(), StoreError> {
    tx.run("delete from connection_credentials where id = $1", args![id.to_owned()]).await
}

/// What a claim on the refresh of a credential found.
pub(crate) struct ClaimRow {
    /// Who had begun a refresh before and never ended it.
    pub(crate) interrupted: Option<String>,
}

from_row!(ClaimRow { interrupted });

/// Takes the right to refresh a credential of that version, if nobody has it and it may be tried now.
pub(crate) async fn claim_refresh(
    tx: &mut Tx,
    id: &str,
    version: i64,
    claim: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<Option<ClaimRow>, StoreError> {
    let interrupted: Option<ClaimRow> = tx
        .first(
            "select claim as interrupted from connection_credentials where id = $1 and version = $2",
            args![id.to_owned(), version],
        )
        .await?;
    let claimed = tx
        .execute(
            "update connection_credentials set claim = $3, claimed_until = $5 where id = $1 and version = $2 \
             and (claimed_until is null or claimed_until <= $4) and (retry_at is null or retry_at <= $4)",
            args![id.to_owned(), version, claim.to_owned(), now, until],
        )
        .await?;
    Ok(interrupted.filter(|_| claimed == 1))
}

/// What comes of a refresh.
pub(crate) struct Refreshed<'a> {
    pub(crate) sealed: &'a [u8],
    pub(crate) issued_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Writes a credential that was refreshed, where the version is still the one that was seen; returns whether it was.
pub(crate) async fn write_refreshed(
    tx: &mut Tx,
    id: &str,
    version: i64,
    new: &Refreshed<'_>,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update connection_credentials set sealed = $3, issued_at = $4, expires_at = $5, version = version + 1, \
             claim = null, claimed_until = null, failures = 0, retry_at = null where id = $1 and version = $2",
            args![id.to_owned(), version, new.sealed.to_vec(), new.issued_at, new.expires_at],
        )
        .await?;
    Ok(rows == 1)
}

/// Ends a claim whose refresh failed; the next may begin at `retry_at`.
pub(crate) async fn fail_refresh(
    tx: &mut Tx,
    id: &str,
    claim: &str,
    failures: i64,
    retry_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    tx.run(
        "update connection_credentials set claim = null, claimed_until = null, failures = $3, retry_at = $4 \
         where id = $1 and claim = $2",
        args![id.to_owned(), claim.to_owned(), failures, retry_at],
    )
    .await
}

/// A connection whose token nobody has needed for long.
pub(crate) struct IdleRow {
    pub(crate) id: String,
    pub(crate) account_id: AccountId,
    pub(crate) connection_id: ConnectionId,
}

from_row!(IdleRow { id, account_id, connection_id });

/// Connections by sign-in whose token was issued before that, and that may be refreshed now: in the order of their
/// credentials' ids, from the one after `after` on.
pub(crate) async fn idle_tokens(
    from: &mut impl Select,
    before: Timestamp,
    now: Timestamp,
    after: &str,
    limit: i64,
) -> Result<Vec<IdleRow>, StoreError> {
    from.all(
        "select d.id, d.account_id, d.connection_id from connection_credentials d \
         join connections c on c.credential_id = d.id where c.auth_mode = 'oauth2' and c.status = 'active' \
         and d.expires_at is not null and d.issued_at < $1 and (d.retry_at is null or d.retry_at <= $2) \
         and (d.claimed_until is null or d.claimed_until <= $2) and d.id > $3 order by d.id limit $4",
        args![before, now, after.to_owned(), limit],
    )
    .await
}
