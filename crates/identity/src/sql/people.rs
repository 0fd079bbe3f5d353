//! Statements of people and how they sign in.

use portico_engine::ports::PersonRecord;
use portico_kernel::{AccountId, PersonId, SessionId, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

/// A person and their own account.
#[derive(Debug, Clone)]
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

pub(crate) async fn person(tx: &mut Tx, id: &str) -> Result<Option<PersonRow>, StoreError> {
    tx.first(
        "select id, email, name, email_verified, account_id from people where id = $1",
        args![id.to_owned()],
    )
    .await
}

pub(crate) async fn person_by_email(tx: &mut Tx, email: &str) -> Result<Option<PersonRow>, StoreError> {
    tx.first(
        "select id, email, name, email_verified, account_id from people where email = $1",
        args![email.to_owned()],
    )
    .await
}

impl From<PersonRow> for PersonRecord {
    fn from(row: PersonRow) -> Self {
        Self { id: row.id, email: row.email, name: row.name, email_verified: row.email_verified }
    }
}

/// Is there anyone yet?
pub(crate) async fn has_people(tx: &mut Tx) -> Result<bool, StoreError> {
    let row: Option<(PersonId,)> = tx.first("select id as value from people limit 1", args![]).await?;
    Ok(row.is_some())
}

pub(crate) async fn set_name(tx: &mut Tx, person: PersonId, name: &str) -> Result<(), StoreError> {
    tx.execute("update people set name = $2 where id = $1", args![person, name.to_owned()]).await.map(drop)
}

pub(crate) async fn set_email(
    tx: &mut Tx,
    person: PersonId,
    email: &str,
    verified: bool,
) -> Result<(), StoreError> {
    tx.execute(
        "update people set email = $2, email_verified = $3 where id = $1",
        args![person, email.to_owned(), verified],
    )
    .await
    .map(drop)
}

pub(crate) async fn password(tx: &mut Tx, person: PersonId) -> Result<Option<String>, StoreError> {
    let row: Option<(String,)> =
        tx.first("select hash as value from passwords where person_id = $1", args![person]).await?;
    Ok(row.map(|(hash,)| hash))
}

pub(crate) async fn set_password(
    tx: &mut Tx,
    person: PersonId,
    hash: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into passwords (person_id, hash, changed_at) values ($1, $2, $3) \
         on conflict (person_id) do update set hash = excluded.hash, changed_at = excluded.changed_at",
        args![person, hash.to_owned(), now],
    )
    .await
    .map(drop)
}

/// The secret of a person's code generator.
pub(crate) struct TotpRow {
    pub(crate) sealed: Vec<u8>,
    pub(crate) last_step: i64,
}

from_row!(TotpRow { sealed, last_step });

pub(crate) async fn totp(tx: &mut Tx, person: PersonId) -> Result<Option<TotpRow>, StoreError> {
    tx.first("select sealed, last_step from totp_secrets where person_id = $1", args![person]).await
}

pub(crate) async fn set_totp(
    tx: &mut Tx,
    person: PersonId,
    sealed: Vec<u8>,
    step: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into totp_secrets (person_id, sealed, last_step, created_at) values ($1, $2, $3, $4) \
         on conflict (person_id) do update set sealed = excluded.sealed, last_step = excluded.last_step",
        args![person, sealed, step, now],
    )
    .await
    .map(drop)
}

/// Takes a code of the time step `step`; answers whether it was not taken before.
pub(crate) async fn take_totp_step(tx: &mut Tx, person: PersonId, step: i64) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update totp_secrets set last_step = $2 where person_id = $1 and last_step < $2",
            args![person, step],
        )
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn delete_totp(tx: &mut Tx, person: PersonId) -> Result<(), StoreError> {
    tx.execute("delete from totp_secrets where person_id = $1", args![person]).await?;
    tx.execute("delete from recovery_codes where person_id = $1", args![person]).await.map(drop)
}

pub(crate) async fn insert_recovery_code(
    tx: &mut Tx,
    person: PersonId,
    hash: Vec<u8>,
) -> Result<(), StoreError> {
    tx.execute("insert into recovery_codes (person_id, hash) values ($1, $2)", args![person, hash])
        .await
        .map(drop)
}

/// Uses a recovery code up; answers whether there was one.
pub(crate) async fn take_recovery_code(
    tx: &mut Tx,
    person: PersonId,
    hash: Vec<u8>,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute("delete from recovery_codes where person_id = $1 and hash = $2", args![person, hash])
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn count_recovery_codes(tx: &mut Tx, person: PersonId) -> Result<i64, StoreError> {
    let (count,) =
        tx.one("select count(*) as value from recovery_codes where person_id = $1", args![person]).await?;
    Ok(count)
}

/// A passkey; the part of it that is kept here is public.
pub(crate) struct PasskeyRow {
    pub(crate) id: String,
    pub(crate) person_id: PersonId,
    pub(crate) name: String,
    pub(crate) passkey: String,
    pub(crate) created_at: Timestamp,
    pub(crate) last_used_at: Option<Timestamp>,
}

from_row!(PasskeyRow { id, person_id, name, passkey, created_at, last_used_at });

pub(crate) async fn passkeys(tx: &mut Tx, person: PersonId) -> Result<Vec<PasskeyRow>, StoreError> {
    tx.all(
        "select id, person_id, name, passkey, created_at, last_used_at from passkeys where person_id = $1 \
         order by created_at, id",
        args![person],
    )
    .await
}

pub(crate) async fn insert_passkey(tx: &mut Tx, row: &PasskeyRow) -> Result<(), StoreError> {
    tx.execute(
        "insert into passkeys (id, person_id, name, passkey, created_at) values ($1, $2, $3, $4, $5)",
        args![row.id, row.person_id, row.name, row.passkey, row.created_at],
    )
    .await
    .map(drop)
}

pub(crate) async fn use_passkey(
    tx: &mut Tx,
    id: &str,
    passkey: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "update passkeys set passkey = $2, last_used_at = $3 where id = $1",
        args![id.to_owned(), passkey.to_owned(), now],
    )
    .await
    .map(drop)
}

pub(crate) async fn delete_passkey(tx: &mut Tx, person: PersonId, id: &str) -> Result<bool, StoreError> {
    let rows = tx
        .execute("delete from passkeys where person_id = $1 and id = $2", args![person, id.to_owned()])
        .await?;
    Ok(rows == 1)
}

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
    tx.execute(
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
    .map(drop)
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
    tx.execute(
        "update sessions set last_seen_at = $2, expires_at = $3 where id = $1",
        args![id, now, expires_at],
    )
    .await
    .map(drop)
}

pub(crate) async fn delete_session(tx: &mut Tx, person: PersonId, id: SessionId) -> Result<bool, StoreError> {
    Ok(tx.execute("delete from sessions where person_id = $1 and id = $2", args![person, id]).await? == 1)
}

pub(crate) async fn prune_sessions(tx: &mut Tx, now: Timestamp, most: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from sessions where id in (select id from sessions where expires_at <= $1 limit $2)",
        args![now, most],
    )
    .await
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
    purpose: &str,
    now: Timestamp,
) -> Result<Option<LinkRow>, StoreError> {
    tx.first(
        "select hash, purpose, person_id, email, expires_at from links \
         where hash = $1 and purpose = $2 and expires_at > $3",
        args![hash, purpose.to_owned(), now],
    )
    .await
}

/// Uses a link up; answers whether it was still there.
pub(crate) async fn take_link(tx: &mut Tx, hash: Vec<u8>) -> Result<bool, StoreError> {
    Ok(tx.execute("delete from links where hash = $1", args![hash]).await? == 1)
}

/// Removes the links of that purpose: the person's, or those of nobody yet.
pub(crate) async fn delete_links(tx: &mut Tx, person: &str, purpose: &str) -> Result<(), StoreError> {
    tx.execute(
        "delete from links where person_id = $1 and purpose = $2",
        args![person.to_owned(), purpose.to_owned()],
    )
    .await
    .map(drop)
}

pub(crate) async fn prune_links(tx: &mut Tx, now: Timestamp, most: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from links where hash in (select hash from links where expires_at <= $1 limit $2)",
        args![now, most],
    )
    .await
}

/// Makes the bucket if there is none and holds it until the commit; answers the times in it.
pub(crate) async fn lock_attempts(tx: &mut Tx, bucket: &str) -> Result<String, StoreError> {
    let (times,) = tx
        .one(
            "insert into attempts (bucket, times, ends_at) values ($1, '', 0) \
             on conflict (bucket) do update set bucket = excluded.bucket returning times as value",
            args![bucket.to_owned()],
        )
        .await?;
    Ok(times)
}

pub(crate) async fn set_attempts(
    tx: &mut Tx,
    bucket: &str,
    times: &str,
    ends_at: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "update attempts set times = $2, ends_at = $3 where bucket = $1",
        args![bucket.to_owned(), times.to_owned(), ends_at],
    )
    .await
    .map(drop)
}

pub(crate) async fn prune_attempts(tx: &mut Tx, now: Timestamp, most: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from attempts where bucket in (select bucket from attempts where ends_at <= $1 limit $2)",
        args![now, most],
    )
    .await
}
