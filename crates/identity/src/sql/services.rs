//! Statements of the credentials of services, and of what services ask about other credentials.

use portico_kernel::{AccountId, ServiceKeyId, Timestamp};
use portico_store::{BulkStatement, Select, StoreError, Tx, args, from_row};

/// A credential of a service as it is kept.
#[derive(Debug)]
pub(crate) struct ServiceKeyRow {
    pub(crate) id: ServiceKeyId,
    pub(crate) service: String,
    pub(crate) secret_hash: Vec<u8>,
    pub(crate) secret_hint: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
}

from_row!(ServiceKeyRow { id, service, secret_hash, secret_hint, created_at, last_used_at, revoked_at });

macro_rules! service_keys {
    ($rest:literal) => {
        concat!(
            "select id, service, secret_hash, secret_hint, created_at, last_used_at, revoked_at ",
            "from service_credentials where ",
            $rest
        )
    };
}

/// The credential, if it was not revoked.
pub(crate) async fn active_service_key(
    tx: &mut impl Select,
    id: ServiceKeyId,
) -> Result<Option<ServiceKeyRow>, StoreError> {
    tx.first(service_keys!("id = $1 and revoked_at is null"), args![id]).await
}

/// Every credential, or those of one service, oldest first.
pub(crate) async fn service_keys(
    tx: &mut Tx,
    service: Option<String>,
) -> Result<Vec<ServiceKeyRow>, StoreError> {
    tx.all(service_keys!("$1 is null or service = $1 order by service, id"), args![service]).await
}

/// How many of the service's were not revoked.
pub(crate) async fn count_service_keys(tx: &mut Tx, service: &str) -> Result<i64, StoreError> {
    tx.value(
        "select count(*) as value from service_credentials where service = $1 and revoked_at is null",
        args![service.to_owned()],
    )
    .await
}

pub(crate) async fn insert_service_key(tx: &mut Tx, row: &ServiceKeyRow) -> Result<(), StoreError> {
    tx.run(
        "insert into service_credentials (id, service, secret_hash, secret_hint, created_at) \
         values ($1, $2, $3, $4, $5)",
        args![row.id, row.service, row.secret_hash, row.secret_hint, row.created_at],
    )
    .await
}

/// Revokes the credential; returns whether there is one of that id that was not revoked before.
pub(crate) async fn revoke_service_key(
    tx: &mut Tx,
    id: ServiceKeyId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update service_credentials set revoked_at = $2 where id = $1 and revoked_at is null",
            args![id, now],
        )
        .await?;
    Ok(rows == 1)
}

/// Moves the last use forward, never back: several servers write it.
pub(crate) async fn note_service_use(tx: &mut Tx, id: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.run(
        "update service_credentials set last_used_at = $2 \
         where id = $1 and (last_used_at is null or last_used_at < $2)",
        args![id.to_owned(), at],
    )
    .await
}

/// The account of a credential.
pub(crate) struct CredentialAccountRow {
    pub(crate) id: String,
    pub(crate) account_id: AccountId,
}

from_row!(CredentialAccountRow { id, account_id });

/// Those of these credentials that there are, each with its account.
pub(crate) async fn accounts_of_credentials(
    tx: &mut Tx,
    ids: Vec<String>,
) -> Result<Vec<CredentialAccountRow>, StoreError> {
    static ROWS: BulkStatement =
        BulkStatement::new("select id, account_id from credentials where id in (", "$a", ")");
    ROWS.all(tx, args![], ids.into_iter().map(|id| args![id]).collect()).await
}

/// Those of these credentials that are neither revoked nor over.
pub(crate) async fn credentials_in_use(
    tx: &mut Tx,
    ids: Vec<String>,
    now: Timestamp,
) -> Result<Vec<String>, StoreError> {
    static ROWS: BulkStatement = BulkStatement::new(
        "select id as value from credentials where revoked_at is null and (expires_at is null or expires_at > $1) \
         and id in (",
        "$a",
        ")",
    );
    ROWS.values(tx, args![now], ids.into_iter().map(|id| args![id]).collect()).await
}
