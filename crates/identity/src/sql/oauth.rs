//! Statements of apps and of what people let them do.

use std::time::Duration;

use portico_kernel::{AccountId, AuthorizationId, PersonId, Role, SessionId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, delete_some, from_row};

use crate::oauth::client::Origin;

/// An app as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct ClientRow {
    pub(crate) id: String,
    pub(crate) origin: Origin,
    pub(crate) name: String,
    pub(crate) secret_hash: Option<Vec<u8>>,
    /// A JSON array of strings.
    pub(crate) redirect_uris: String,
    pub(crate) scopes: String,
    pub(crate) created_at: Timestamp,
    /// Until when a document from elsewhere is good.
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
}

from_row!(ClientRow {
    id,
    origin,
    name,
    secret_hash,
    redirect_uris,
    scopes,
    created_at,
    expires_at,
    revoked_at
});

pub(crate) async fn client(tx: &mut impl Select, id: &str) -> Result<Option<ClientRow>, StoreError> {
    tx.first(
        "select id, origin, name, secret_hash, redirect_uris, scopes, created_at, expires_at, revoked_at \
         from clients where id = $1",
        args![id.to_owned()],
    )
    .await
}

/// Keeps an app, or what its document says now.
pub(crate) async fn upsert_client(tx: &mut Tx, row: &ClientRow) -> Result<(), StoreError> {
    tx.run(
        "insert into clients (id, origin, name, secret_hash, redirect_uris, scopes, created_at, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (id) do update set name = excluded.name, \
         redirect_uris = excluded.redirect_uris, scopes = excluded.scopes, expires_at = excluded.expires_at",
        args![
            row.id,
            row.origin,
            row.name,
            row.secret_hash,
            row.redirect_uris,
            row.scopes,
            row.created_at,
            row.expires_at
        ],
    )
    .await
}

pub(crate) async fn use_client(tx: &mut Tx, id: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.run("update clients set used_at = $2 where id = $1", args![id.to_owned(), now]).await
}

pub(crate) async fn revoke_client(tx: &mut Tx, id: &str, now: Timestamp) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update clients set revoked_at = $2 where id = $1 and revoked_at is null",
            args![id.to_owned(), now],
        )
        .await?;
    Ok(rows == 1)
}

/// Removes apps that registered themselves, and documents from elsewhere, that nobody ever let in.
pub(crate) async fn prune_clients(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!(
            "clients",
            "id",
            "origin in ('registered', 'document') and used_at is null and created_at < $1"
        ),
        args![before, limit],
    )
    .await
}

/// What a person let an app do.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizationRow {
    pub(crate) id: AuthorizationId,
    pub(crate) person_id: PersonId,
    pub(crate) client_id: String,
    pub(crate) account_id: AccountId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) audience: String,
    /// Nothing for the console, whose person is bound by role.
    pub(crate) scopes: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) sealed_secret: Vec<u8>,
    pub(crate) generation: i64,
    /// When the refresh tokens before this one were used, in microseconds, as far as it still matters.
    pub(crate) spent: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) revoked_at: Option<Timestamp>,
}

impl AuthorizationRow {
    /// When it ends, however often its refresh tokens are used: `life` after the person let the app in.
    pub(crate) fn ends_at(&self, life: Duration) -> Timestamp {
        self.expires_at.min(self.created_at + life)
    }
}

from_row!(AuthorizationRow {
    id,
    person_id,
    client_id,
    account_id,
    session_id,
    audience,
    scopes,
    role,
    sealed_secret,
    generation,
    spent,
    created_at,
    expires_at,
    revoked_at
});

macro_rules! authorizations {
    ($rest:literal) => {
        concat!(
            "select id, person_id, client_id, account_id, session_id, audience, scopes, role, sealed_secret, ",
            "generation, spent, created_at, expires_at, revoked_at from authorizations where ",
            $rest
        )
    };
}

/// Returns whether it is new. Of any number that insert the same, one does.
pub(crate) async fn insert_authorization(tx: &mut Tx, row: &AuthorizationRow) -> Result<bool, StoreError> {
    let inserted = tx.execute(
        "insert into authorizations (id, person_id, client_id, account_id, session_id, audience, scopes, role, \
         sealed_secret, generation, spent, created_at, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict (id) do nothing",
        args![
            row.id,
            row.person_id,
            row.client_id,
            row.account_id,
            row.session_id,
            row.audience,
            row.scopes,
            row.role,
            row.sealed_secret,
            row.generation,
            row.spent,
            row.created_at,
            row.expires_at
        ],
    );
    Ok(inserted.await? == 1)
}

pub(crate) async fn authorization(
    tx: &mut impl Select,
    id: AuthorizationId,
) -> Result<Option<AuthorizationRow>, StoreError> {
    tx.first(authorizations!("id = $1"), args![id]).await
}

/// Did the person, or something in their name, take back what the app may do after that moment?
pub(crate) async fn is_revoked_since(
    tx: &mut Tx,
    person: PersonId,
    client: &str,
    since: Timestamp,
) -> Result<bool, StoreError> {
    let revoked: i64 = tx
        .value(
            "select count(*) as value from authorizations where person_id = $1 and client_id = $2 and revoked_at > $3",
            args![person, client.to_owned(), since],
        )
        .await?;
    Ok(revoked > 0)
}

/// What the person let apps do, apps took up, and nobody has taken back, newest first.
pub(crate) async fn authorizations_of(
    tx: &mut Tx,
    person: PersonId,
    now: Timestamp,
) -> Result<Vec<AuthorizationRow>, StoreError> {
    tx.all(
        authorizations!(
            "person_id = $1 and generation > 0 and revoked_at is null and expires_at > $2 order by id desc"
        ),
        args![person, now],
    )
    .await
}

/// Moves from one refresh token to the next, if it is still that one's turn: of any number that try, one does.
pub(crate) async fn rotate_authorization(
    tx: &mut Tx,
    id: AuthorizationId,
    generation: i64,
    spent: &str,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update authorizations set generation = generation + 1, spent = $5, expires_at = $4 \
             where id = $1 and generation = $2 and revoked_at is null and expires_at > $3",
            args![id, generation, now, expires_at, spent.to_owned()],
        )
        .await?;
    Ok(rows == 1)
}

/// May the app of that id act in the account, for any person?
pub(crate) async fn has_app(
    tx: &mut Tx,
    account: AccountId,
    app: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let known: Option<String> = tx
        .first_value(
            "select id as value from authorizations where account_id = $1 and client_id = $2 and revoked_at is null \
             and expires_at > $3 limit 1",
            args![account, app.to_owned(), now],
        )
        .await?;
    Ok(known.is_some())
}

/// Which authorizations to end.
pub(crate) enum Ending {
    One(AuthorizationId),
    OfSession(SessionId),
    /// Those that came by a session of the person, but for one.
    OfOtherSessions(PersonId, Option<SessionId>),
    OfPerson(PersonId),
    OfApp(PersonId, String),
    OfClient(String),
    OfMember(AccountId, PersonId),
}

/// Ends authorizations; returns which. [`add_revocation`](super::add_revocation) tells every server.
pub(crate) async fn end_authorizations(
    tx: &mut Tx,
    ending: &Ending,
    now: Timestamp,
) -> Result<Vec<AuthorizationRow>, StoreError> {
    macro_rules! end {
        ($which:literal) => {
            concat!(
                "update authorizations set revoked_at = $1 where revoked_at is null and ",
                $which,
                " returning id, person_id, client_id, account_id, session_id, audience, scopes, role, sealed_secret, ",
                "generation, spent, created_at, expires_at, revoked_at"
            )
        };
    }
    let ended: Vec<AuthorizationRow> = match ending {
        Ending::One(id) => tx.all(end!("id = $2"), args![now, *id]).await?,
        Ending::OfSession(session) => tx.all(end!("session_id = $2"), args![now, *session]).await?,
        Ending::OfOtherSessions(person, kept) => {
            let kept = kept.map(|session| session.to_string()).unwrap_or_default();
            tx.all(
                end!("person_id = $2 and session_id is not null and session_id <> $3"),
                args![now, *person, kept],
            )
            .await?
        }
        Ending::OfPerson(person) => tx.all(end!("person_id = $2"), args![now, *person]).await?,
        Ending::OfClient(client) => tx.all(end!("client_id = $2"), args![now, client.clone()]).await?,
        Ending::OfApp(person, client) => {
            tx.all(end!("person_id = $2 and client_id = $3"), args![now, *person, client.clone()]).await?
        }
        Ending::OfMember(account, person) => {
            tx.all(end!("account_id = $2 and person_id = $3"), args![now, *account, *person]).await?
        }
    };
    for row in &ended {
        super::add_revocation(tx, &row.id.to_string(), false, now).await?;
    }
    Ok(ended)
}

/// Removes authorizations that ended long ago.
pub(crate) async fn prune_authorizations(
    tx: &mut Tx,
    before: Timestamp,
    limit: i64,
) -> Result<u64, StoreError> {
    tx.execute(delete_some!("authorizations", "id", "expires_at < $1"), args![before, limit]).await
}

/// Removes codes of servers before this one: a code is not kept any more.
pub(crate) async fn prune_codes(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(delete_some!("codes", "hash", "expires_at < $1"), args![before, limit]).await
}
