//! Every statement of the area; here those of credentials, revocations and signing keys.

pub(crate) mod oauth;
pub(crate) mod people;
pub(crate) mod services;
mod sessions;

use portico_engine::ports::Key;
use portico_kernel::{AccountId, ScopeSet, Timestamp};
use portico_store::{Query, Select, StoreError, Tx, args, delete_some, from_row};

use crate::credentials::CredentialKind;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from signing_keys limit 1";

/// Erases what the area keeps of an account; with a personal account the person goes too.
pub(crate) const ERASE: [&str; 12] = [
    delete_some!("credentials", "id", "account_id = $1"),
    delete_some!(
        "codes",
        "hash",
        "authorization_id in (select id from authorizations where account_id = $1)"
    ),
    delete_some!("authorizations", "id", "account_id = $1"),
    delete_some!("authorizations", "id", "person_id in (select id from people where account_id = $1)"),
    "delete from passwords where person_id in (select id from people where account_id = $1) and $2 > 0",
    "delete from totp_secrets where person_id in (select id from people where account_id = $1) and $2 > 0",
    "delete from recovery_codes where person_id in (select id from people where account_id = $1) and $2 > 0",
    "delete from passkeys where person_id in (select id from people where account_id = $1) and $2 > 0",
    delete_some!("sessions", "id", "person_id in (select id from people where account_id = $1)"),
    "delete from links where person_id in (select id from people where account_id = $1) and $2 > 0",
    "delete from people where account_id = $1 and $2 > 0",
    "delete from revocations where id = $1 and $2 > 0",
];

/// A key or API token as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct CredentialRow {
    pub(crate) id: String,
    pub(crate) account_id: AccountId,
    pub(crate) kind: CredentialKind,
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
    /// The key that signed an API token.
    pub(crate) signing_key: Option<String>,
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
    signing_key,
});

impl CredentialRow {
    /// The scopes it holds.
    pub(crate) fn scope_set(&self) -> ScopeSet {
        ScopeSet::from(&*self.scopes)
    }

    pub(crate) fn into_key(self) -> Key {
        // A required string that has no value is empty.
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
        Key {
            scopes: self.scope_set(),
            client_id: self.id.clone(),
            id: self.id,
            name: self.name,
            secret_hint: self.secret_hint,
            created_by: self.created_by,
            created_at: self.created_at,
            last_used_at: text(self.last_used_at),
            revoked_at: text(self.revoked_at),
            expires_at: text(self.expires_at),
            kind: self.kind.name().to_owned(),
            parent: self.parent.unwrap_or_default(),
        }
    }
}

macro_rules! credentials {
    ($rest:literal) => {
        concat!(
            "select id, account_id, kind, name, scopes, secret_hash, secret_hint, parent, created_by, created_at, ",
            "last_used_at, expires_at, revoked_at, signing_key from credentials where ",
            $rest
        )
    };
}

pub(crate) async fn credential(tx: &mut Tx, id: &str) -> Result<Option<CredentialRow>, StoreError> {
    tx.first(credentials!("id = $1"), args![id.to_owned()]).await
}

/// The credential, if neither it, nor the one above it, nor its account is refused.
pub(crate) async fn active_credential(
    tx: &mut impl Select,
    id: &str,
) -> Result<Option<CredentialRow>, StoreError> {
    tx.first(
        credentials!(
            "id = $1 and revoked_at is null and not exists \
             (select 1 from revocations where revocations.id = credentials.account_id and not lifted) and not exists \
             (select 1 from credentials above where above.id = credentials.parent and above.revoked_at is not null)"
        ),
        args![id.to_owned()],
    )
    .await
}

/// Who made the credential: a person, another credential or the operator.
pub(crate) async fn creator(tx: &mut impl Select, id: &str) -> Result<Option<String>, StoreError> {
    tx.first_value("select created_by as value from credentials where id = $1", args![id.to_owned()]).await
}

/// The account's credentials of both kinds that are neither revoked nor over, oldest first.
pub(crate) async fn active_credentials(
    tx: &mut Tx,
    account: AccountId,
    now: Timestamp,
) -> Result<Vec<CredentialRow>, StoreError> {
    tx.all(
        credentials!(
            "account_id = $1 and revoked_at is null and (expires_at is null or expires_at > $2) \
             order by created_at, id"
        ),
        args![account, now],
    )
    .await
}

/// Who made a credential.
pub(crate) struct CredentialCreatorRow {
    pub(crate) id: String,
    pub(crate) created_by: String,
}

from_row!(CredentialCreatorRow { id, created_by });

/// Who made each of the account's credentials, also of those that have ended, oldest first.
pub(crate) async fn credential_creators(
    tx: &mut Tx,
    account: AccountId,
) -> Result<Vec<CredentialCreatorRow>, StoreError> {
    tx.all(
        "select id, created_by from credentials where account_id = $1 order by created_at, id",
        args![account],
    )
    .await
}

/// The account's credentials of that kind, newest first; those below `parent` alone when one is given.
pub(crate) async fn credentials_before(
    tx: &mut Tx,
    account: AccountId,
    kind: CredentialKind,
    parent: Option<String>,
    before: Option<String>,
    limit: i64,
) -> Result<Vec<CredentialRow>, StoreError> {
    tx.all(
        credentials!(
            "account_id = $1 and kind = $2 and ($3 is null or parent = $3) and ($4 is null or id < $4) \
             order by id desc limit $5"
        ),
        args![account, kind, parent, before, limit],
    )
    .await
}

pub(crate) async fn insert_credential(tx: &mut Tx, row: &CredentialRow) -> Result<(), StoreError> {
    tx.run(
        "insert into credentials (id, account_id, kind, name, scopes, secret_hash, secret_hint, parent, created_by, \
         created_at, expires_at, signing_key) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
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
            row.expires_at,
            row.signing_key
        ],
    )
    .await
}

/// How many of that kind the account has that are neither revoked nor over.
pub(crate) async fn count_active(
    tx: &mut Tx,
    account: AccountId,
    kind: CredentialKind,
    now: Timestamp,
) -> Result<i64, StoreError> {
    tx
        .value(
            "select count(*) as value from credentials where account_id = $1 and kind = $2 and revoked_at is null \
             and (expires_at is null or expires_at > $3)",
            args![account, kind, now],
        )
        .await
}

/// Revokes a credential and everything below it that is not revoked yet; returns what it revoked. [`add_revocation`]
/// tells every server.
pub(crate) async fn revoke(tx: &mut Tx, id: &str, now: Timestamp) -> Result<Vec<CredentialRow>, StoreError> {
    tx.all(
        "with recursive family (member) as (select id from credentials where id = $1 \
         union select child.id from credentials child join family on child.parent = family.member) \
         update credentials set revoked_at = $2 where id in (select member from family) and revoked_at is null \
         returning id, account_id, kind, name, scopes, secret_hash, secret_hint, parent, created_by, created_at, \
         last_used_at, expires_at, revoked_at, signing_key",
        args![id.to_owned(), now],
    )
    .await
}

/// Moves the last use forward, never back: several servers write it.
pub(crate) async fn note_use(tx: &mut Tx, id: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.run(
        "update credentials set last_used_at = $2 where id = $1 and (last_used_at is null or last_used_at < $2)",
        args![id.to_owned(), at],
    )
    .await
}

/// Something that tokens name and that must not be admitted any more.
pub(crate) struct RevocationRow {
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) lifted: bool,
}

from_row!(RevocationRow { id, at, lifted });

/// What was revoked or lifted since.
pub(crate) async fn revocations_since(
    query: &mut Query<'_>,
    since: Timestamp,
) -> Result<Vec<RevocationRow>, StoreError> {
    query.all("select id, at, lifted from revocations where at > $1", args![since]).await
}

/// Refuses tokens that name `id`, or admits them again.
pub(crate) async fn add_revocation(
    tx: &mut Tx,
    id: &str,
    lifted: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into revocations (id, at, lifted) values ($1, $2, $3) \
         on conflict (id) do update set at = excluded.at, lifted = excluded.lifted",
        args![id.to_owned(), now, lifted],
    )
    .await
}

/// Is any of `ids` revoked, for a token that was issued at `issued_at`? See `Revocations::any`.
pub(crate) async fn any_revoked(
    tx: &mut Tx,
    ids: &[String],
    issued_at: Timestamp,
) -> Result<bool, StoreError> {
    for id in ids {
        let count: i64 = tx
            .value(
                "select count(*) as value from revocations where id = $1 and not lifted \
                 and (at >= $2 or id not like 'usr!_%' escape '!')",
                args![id.clone(), issued_at],
            )
            .await?;
        if count > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Are the keys and API tokens of the account refused?
pub(crate) async fn is_closed(tx: &mut Tx, account: AccountId) -> Result<bool, StoreError> {
    any_revoked(tx, &[account.to_string()], Timestamp::from_seconds(0)).await
}

/// Removes revocations that no token can meet any more; those of accounts stay until they are lifted.
pub(crate) async fn prune_revocations(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!("revocations", "id", "at < $1 and (lifted or id not like 'acc!_%' escape '!')"),
        args![before, limit],
    )
    .await
}

/// A signing key as it is kept.
pub(crate) struct SigningKeyRow {
    pub(crate) id: String,
    pub(crate) public_key: Vec<u8>,
    pub(crate) sealed_private_key: Vec<u8>,
    pub(crate) activates_at: Timestamp,
}

from_row!(SigningKeyRow { id, public_key, sealed_private_key, activates_at });

/// Every key, by when it begins to sign.
pub(crate) async fn signing_keys(tx: &mut Tx) -> Result<Vec<SigningKeyRow>, StoreError> {
    tx.all(
        "select id, public_key, sealed_private_key, activates_at from signing_keys order by activates_at, id",
        args![],
    )
    .await
}

pub(crate) async fn insert_signing_key(
    tx: &mut Tx,
    row: &SigningKeyRow,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into signing_keys (id, public_key, sealed_private_key, activates_at, created_at) \
         values ($1, $2, $3, $4, $5)",
        args![row.id, row.public_key, row.sealed_private_key, row.activates_at, now],
    )
    .await
}

/// Has the last API token that the key signed ended? Those that do not say who signed them may be any key's.
pub(crate) async fn is_signing_key_spent(tx: &mut Tx, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let count: i64 = tx
        .value(
            "select count(*) as value from credentials where kind = 'token' and revoked_at is null \
             and expires_at > $2 and (signing_key = $1 or signing_key is null)",
            args![id.to_owned(), now],
        )
        .await?;
    Ok(count == 0)
}

/// The API tokens that the key signed and nobody has revoked.
pub(crate) async fn tokens_signed_by(tx: &mut Tx, id: &str) -> Result<Vec<String>, StoreError> {
    tx
        .values(
            "select id as value from credentials where signing_key = $1 and revoked_at is null order by account_id, id",
            args![id.to_owned()],
        )
        .await
}

pub(crate) async fn set_activation(tx: &mut Tx, id: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.run("update signing_keys set activates_at = $2 where id = $1", args![id.to_owned(), at]).await
}

pub(crate) async fn delete_signing_key(tx: &mut Tx, id: &str) -> Result<bool, StoreError> {
    Ok(tx.execute("delete from signing_keys where id = $1", args![id.to_owned()]).await? == 1)
}

/// Holds back whoever else would make a signing key or a credential of a service: the canary's row is there from the first start on.
pub(crate) async fn lock_issuer(tx: &mut Tx) -> Result<(), StoreError> {
    tx.execute("update keyring_canary set id = id where id = 1", args![]).await.map(drop)
}
