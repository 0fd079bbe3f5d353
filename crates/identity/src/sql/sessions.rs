//! Statements of sessions, of links that work once, and of tries that are counted.

use portico_kernel::{PersonId, SessionId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, delete_some, from_row};

use crate::people::links::Purpose;

/// A browser that is signed in.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    pub(crate) id: SessionId,
    pub(crate) person_id: PersonId,
    pub(crate) token_hash: Vec<u8>,
    pub(crate) address: String,
    pub(crate) user_agent: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_seen_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

from_row!(SessionRow {
    id,
    person_id,
    token_hash,
    address,
    user_agent,
    created_at,
    last_seen_at,
    expires_at
});

pub(crate) async fn insert_session(tx: &mut Tx, row: &SessionRow) -> Result<(), StoreError> {
    tx.run(
        "insert into sessions (id, person_id, token_hash, address, user_agent, created_at, last_seen_at, expires_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![
            row.id,
            row.person_id,
            row.token_hash,
            row.address,
            row.user_agent,
            row.created_at,
            row.last_seen_at,
            row.expires_at
        ],
    )
    .await
}

macro_rules! sessions {
    ($rest:literal) => {
        concat!(
            "select id, person_id, token_hash, address, user_agent, created_at, last_seen_at, expires_at ",
            "from sessions where ",
            $rest
        )
    };
}

pub(crate) async fn session(tx: &mut Tx, token_hash: Vec<u8>) -> Result<Option<SessionRow>, StoreError> {
    tx.first(sessions!("token_hash = $1"), args![token_hash]).await
}

/// Is the session still signed in?
pub(crate) async fn is_session_active(
    tx: &mut Tx,
    id: SessionId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let row: Option<SessionRow> = tx.first(sessions!("id = $1 and expires_at > $2"), args![id, now]).await?;
    Ok(row.is_some())
}

/// The same, and holds it until the commit: whoever ends it waits.
pub(crate) async fn hold_session(tx: &mut Tx, id: SessionId, now: Timestamp) -> Result<bool, StoreError> {
    let text = "update sessions set expires_at = expires_at where id = $1 and expires_at > $2";
    Ok(tx.execute(text, args![id, now]).await? == 1)
}

/// The person's sessions, newest first.
pub(crate) async fn sessions(tx: &mut Tx, person: PersonId) -> Result<Vec<SessionRow>, StoreError> {
    tx.all(sessions!("person_id = $1 order by id desc"), args![person]).await
}

pub(crate) async fn see_session(
    tx: &mut Tx,
    id: SessionId,
    now: Timestamp,
    expires_at: Timestamp,
) -> Result<(), StoreError> {
    tx.run("update sessions set last_seen_at = $2, expires_at = $3 where id = $1", args![id, now, expires_at])
        .await
}

pub(crate) async fn delete_session(tx: &mut Tx, person: PersonId, id: SessionId) -> Result<bool, StoreError> {
    Ok(tx.execute("delete from sessions where person_id = $1 and id = $2", args![person, id]).await? == 1)
}

pub(crate) async fn prune_sessions(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(delete_some!("sessions", "id", "expires_at <= $1"), args![now, limit]).await
}

/// A link that works once.
pub(crate) struct LinkRow {
    pub(crate) hash: Vec<u8>,
    pub(crate) purpose: String,
    pub(crate) person_id: String,
    pub(crate) email: String,
    pub(crate) expires_at: Timestamp,
}

from_row!(LinkRow { hash, purpose, person_id, email, expires_at });

pub(crate) async fn insert_link(tx: &mut Tx, row: &LinkRow) -> Result<(), StoreError> {
    tx.execute(
        "insert into links (hash, purpose, person_id, email, expires_at) values ($1, $2, $3, $4, $5)",
        args![row.hash, row.purpose, row.person_id, row.email, row.expires_at],
    )
    .await
    .map(drop)
}

pub(crate) async fn link(
    tx: &mut Tx,
    hash: Vec<u8>,
    purpose: Purpose,
    now: Timestamp,
) -> Result<Option<LinkRow>, StoreError> {
    tx.first(
        "select hash, purpose, person_id, email, expires_at from links \
         where hash = $1 and purpose = $2 and expires_at > $3",
        args![hash, purpose, now],
    )
    .await
}

/// Uses a link up; returns whether it was still there.
pub(crate) async fn take_link(tx: &mut Tx, hash: Vec<u8>) -> Result<bool, StoreError> {
    Ok(tx.execute("delete from links where hash = $1", args![hash]).await? == 1)
}

/// Removes the links of that purpose: the person's, or those of nobody yet.
pub(crate) async fn delete_links(tx: &mut Tx, person: &str, purpose: Purpose) -> Result<(), StoreError> {
    tx.run("delete from links where person_id = $1 and purpose = $2", args![person.to_owned(), purpose]).await
}

pub(crate) async fn prune_links(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(delete_some!("links", "hash", "expires_at <= $1"), args![now, limit]).await
}

/// Makes the bucket if there is none and holds it until the commit; returns the times in it.
pub(crate) async fn lock_attempts(tx: &mut Tx, bucket: &str) -> Result<String, StoreError> {
    tx.value(
        "insert into attempts (bucket, times, ends_at) values ($1, '', 0) \
             on conflict (bucket) do update set bucket = excluded.bucket returning times as value",
        args![bucket.to_owned()],
    )
    .await
}

pub(crate) async fn set_attempts(
    tx: &mut Tx,
    bucket: &str,
    times: &str,
    ends_at: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "update attempts set times = $2, ends_at = $3 where bucket = $1",
        args![bucket.to_owned(), times.to_owned(), ends_at],
    )
    .await
}

pub(crate) async fn prune_attempts(tx: &mut Tx, now: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(delete_some!("attempts", "bucket", "ends_at <= $1"), args![now, limit]).await
}
