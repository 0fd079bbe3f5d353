//! Statements of people and how they sign in.

use portico_engine::ports::PersonRecord;
use portico_kernel::{AccountId, PersonId, Timestamp};
use portico_store::{Select, StoreError, Tx, Value, args, from_row};

pub(crate) use super::sessions::*;

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

/// How many ids one statement takes. A shorter list repeats its first id, so that there is one text.
const PEOPLE_AT_ONCE: usize = 32;

/// The people of these ids, in any order.
pub(crate) async fn people(tx: &mut Tx, ids: &[PersonId]) -> Result<Vec<PersonRow>, StoreError> {
    let mut rows: Vec<PersonRow> = Vec::with_capacity(ids.len());
    for some in ids.chunks(PEOPLE_AT_ONCE) {
        let padded = some.iter().chain(std::iter::repeat(&some[0])).take(PEOPLE_AT_ONCE);
        let found = tx.all(
            "select id, email, name, email_verified, account_id from people where id in \
             ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
             $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32)",
            padded.map(Value::to_arg).collect(),
        );
        rows.append(&mut found.await?);
    }
    Ok(rows)
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
    let row: Option<PersonId> = tx.first_value("select id as value from people limit 1", args![]).await?;
    Ok(row.is_some())
}

pub(crate) async fn set_name(tx: &mut Tx, person: PersonId, name: &str) -> Result<(), StoreError> {
    tx.run("update people set name = $2 where id = $1", args![person, name.to_owned()]).await
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

/// A password as it is kept.
pub(crate) struct PasswordRow {
    pub(crate) hash: String,
    pub(crate) changed_at: Timestamp,
}

from_row!(PasswordRow { hash, changed_at });

pub(crate) async fn password(tx: &mut Tx, person: PersonId) -> Result<Option<PasswordRow>, StoreError> {
    tx.first("select hash, changed_at from passwords where person_id = $1", args![person]).await
}

/// When the password was last changed; it stays as it is until the commit.
pub(crate) async fn lock_password(tx: &mut Tx, person: PersonId) -> Result<Option<Timestamp>, StoreError> {
    tx.first_value(
        "update passwords set person_id = person_id where person_id = $1 returning changed_at as value",
        args![person],
    )
    .await
}

pub(crate) async fn set_password(
    tx: &mut Tx,
    person: PersonId,
    hash: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into passwords (person_id, hash, changed_at) values ($1, $2, $3) \
         on conflict (person_id) do update set hash = excluded.hash, changed_at = excluded.changed_at",
        args![person, hash.to_owned(), now],
    )
    .await
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
    tx.run(
        "insert into totp_secrets (person_id, sealed, last_step, created_at) values ($1, $2, $3, $4) \
         on conflict (person_id) do update set sealed = excluded.sealed, last_step = excluded.last_step",
        args![person, sealed, step, now],
    )
    .await
}

/// Takes a code of the time step `step`; returns whether it was not taken before.
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
    tx.run("delete from totp_secrets where person_id = $1", args![person]).await?;
    tx.run("delete from recovery_codes where person_id = $1", args![person]).await
}

pub(crate) async fn insert_recovery_code(
    tx: &mut Tx,
    person: PersonId,
    hash: Vec<u8>,
) -> Result<(), StoreError> {
    tx.run("insert into recovery_codes (person_id, hash) values ($1, $2)", args![person, hash]).await
}

/// Uses a recovery code up; returns whether there was one.
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
    tx.value("select count(*) as value from recovery_codes where person_id = $1", args![person]).await
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

/// Stores the passkey as a sign-in left it; false when it is not `row` any more that is stored.
pub(crate) async fn use_passkey(
    tx: &mut Tx,
    row: &PasskeyRow,
    passkey: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update passkeys set passkey = $2, last_used_at = $3 where id = $1 and passkey = $4",
            args![row.id, passkey.to_owned(), now, row.passkey],
        )
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn delete_passkey(tx: &mut Tx, person: PersonId, id: &str) -> Result<bool, StoreError> {
    let rows = tx
        .execute("delete from passkeys where person_id = $1 and id = $2", args![person, id.to_owned()])
        .await?;
    Ok(rows == 1)
}
