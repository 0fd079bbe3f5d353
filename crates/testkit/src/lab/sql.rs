//! Every statement of the lab.

use portico_kernel::{AccountId, Timestamp};
use portico_store::{Db, Select, StoreError, Tx, args, delete_some, from_row};

/// Erases what the lab keeps of an account.
pub(crate) const ERASE: [&str; 2] = [
    delete_some!("lab_things", "number", "account_id = $1", also "account_id = $1"),
    "delete from lab_numbers where account_id = $1 and $2 > 0",
];

/// A thing as it is kept.
pub(crate) struct ThingRow {
    pub(crate) number: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) size: i64,
    pub(crate) color: String,
    pub(crate) created_at: Timestamp,
}

/// A thing that is to be kept. The database numbers it.
pub(crate) struct NewThing {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) size: i64,
    pub(crate) color: String,
    pub(crate) created_at: Timestamp,
}

from_row!(ThingRow { number, id, name, size, color, created_at });

/// Makes the lab's tables; they are no migration, because the platform has no lab.
pub async fn create_tables(db: &Db) {
    let mut tx = db.write().await.unwrap();
    tx.execute(
        "create table if not exists lab_things (account_id text not null, number bigint not null, id text not null, \
         name text not null, size bigint not null, color text not null, created_at bigint not null, \
         primary key (account_id, number))",
        args![],
    )
    .await
    .unwrap();
    tx.execute("create unique index if not exists lab_things_by_id on lab_things (account_id, id)", args![])
        .await
        .unwrap();
    tx.execute(
        "create table if not exists lab_numbers (account_id text primary key, last bigint not null)",
        args![],
    )
    .await
    .unwrap();
    tx.execute(
        "create table if not exists lab_work (id text not null, attempt bigint not null, primary key (id, attempt))",
        args![],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
}

/// Notes that an attempt at a piece of work was begun.
pub(crate) async fn note_work(tx: &mut Tx, id: &str, attempt: i64) -> Result<(), StoreError> {
    tx.run("insert into lab_work (id, attempt) values ($1, $2)", args![id.to_owned(), attempt]).await
}

/// Keeps a thing under the account's next number. That one is read where the thing is inserted, so that nothing is waited
/// for while other writers of the account wait for this one.
pub(crate) async fn insert_thing(
    tx: &mut Tx,
    account: AccountId,
    new: NewThing,
) -> Result<ThingRow, StoreError> {
    tx.run(
        "insert into lab_numbers (account_id, last) values ($1, 1) \
             on conflict (account_id) do update set last = lab_numbers.last + 1",
        args![account],
    )
    .await?;
    tx.one(
        "insert into lab_things (account_id, number, id, name, size, color, created_at) \
         values ($1, (select last from lab_numbers where account_id = $1), $2, $3, $4, $5, $6) \
         returning number, id, name, size, color, created_at",
        args![account, new.id, new.name, new.size, new.color, new.created_at],
    )
    .await
}

pub(crate) async fn thing(tx: &mut Tx, account: AccountId, id: &str) -> Result<Option<ThingRow>, StoreError> {
    tx.first(
        "select number, id, name, size, color, created_at from lab_things where account_id = $1 and id = $2",
        args![account, id.to_owned()],
    )
    .await
}

/// Newest first; `color` filters when it is not empty.
pub(crate) async fn things_before(
    tx: &mut Tx,
    account: AccountId,
    before: i64,
    color: &str,
    limit: i64,
) -> Result<Vec<ThingRow>, StoreError> {
    tx.all(
        "select number, id, name, size, color, created_at from lab_things where account_id = $1 and number < $2 \
         and ($3 = '' or color = $3) order by number desc limit $4",
        args![account, before, color.to_owned(), limit],
    )
    .await
}

pub(crate) async fn rename_thing(
    tx: &mut Tx,
    account: AccountId,
    id: &str,
    name: &str,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update lab_things set name = $3 where account_id = $1 and id = $2",
            args![account, id.to_owned(), name.to_owned()],
        )
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn delete_thing(tx: &mut Tx, account: AccountId, id: &str) -> Result<bool, StoreError> {
    let rows = tx
        .execute("delete from lab_things where account_id = $1 and id = $2", args![account, id.to_owned()])
        .await?;
    Ok(rows == 1)
}
