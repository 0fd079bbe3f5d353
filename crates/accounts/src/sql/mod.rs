//! Every statement of the area; here those of accounts and members.

mod changes;
mod invitations;

use portico_kernel::{AccountId, PersonId, Role, Timestamp};
use portico_store::{Query, Select, StoreError, Tx, args, delete_some, from_row};

use crate::model::{AccountChange, AccountKind, AccountStatus, NewAccount};

pub(crate) use changes::*;
pub(crate) use invitations::*;

/// Succeeds when the area can serve.
pub(crate) const PROBE: &str = "select id from accounts limit 1";

/// Erases what the area keeps of an account; with a personal account the person leaves every team. The account's own
/// row goes last, when every area is done.
pub(crate) const ERASE: [&str; 3] = [
    "delete from invitations where account_id = $1 and $2 > 0",
    // The row of the person goes after the rows that name it; who they are is known by their own account alone.
    "delete from members where person_id in (select id from people where account_id = $1) and $2 > 0",
    delete_some!("members", "person_id", "account_id = $1", also "account_id = $1"),
];

/// A row of `accounts`, with the role of the person who asked.
#[derive(Debug, Clone)]
pub(crate) struct AccountRow {
    pub(crate) id: AccountId,
    pub(crate) kind: AccountKind,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) plan: String,
    pub(crate) status: AccountStatus,
    pub(crate) probe: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) erase_after: Option<Timestamp>,
    /// `None` where nobody asked.
    pub(crate) role: Option<Role>,
}

from_row!(AccountRow { id, kind, slug, name, plan, status, probe, created_at, erase_after, role });

pub(crate) async fn insert_account(tx: &mut Tx, new: &NewAccount, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into accounts (id, kind, slug, name, plan, status, probe, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![new.id, new.kind, new.slug, new.name, new.plan, AccountStatus::Active, false, now],
    )
    .await
    .map(drop)
}

/// The account, as someone outside of its members sees it.
pub(crate) async fn account(tx: &mut Tx, id: AccountId) -> Result<Option<AccountRow>, StoreError> {
    tx.first(
        "select id, kind, slug, name, plan, status, probe, created_at, erase_after, cast(null as text) as role \
         from accounts where id = $1",
        args![id],
    )
    .await
}

macro_rules! accounts_of {
    ($rest:literal) => {
        concat!(
            "select accounts.id, kind, slug, name, plan, status, probe, accounts.created_at, erase_after, role ",
            "from members join accounts on accounts.id = members.account_id where members.person_id = $1 ",
            $rest
        )
    };
}

/// The account, as a member of it sees it.
pub(crate) async fn account_of(
    tx: &mut Tx,
    id: AccountId,
    person: PersonId,
) -> Result<Option<AccountRow>, StoreError> {
    tx.first(accounts_of!("and accounts.id = $2"), args![person, id]).await
}

/// The accounts that the person belongs to, oldest first.
pub(crate) async fn accounts_of(tx: &mut Tx, person: PersonId) -> Result<Vec<AccountRow>, StoreError> {
    tx.all(accounts_of!("order by accounts.id"), args![person]).await
}

/// The accounts that the person belongs to, newest first.
pub(crate) async fn accounts_before(
    tx: &mut Tx,
    person: PersonId,
    before: Option<String>,
    limit: i64,
) -> Result<Vec<AccountRow>, StoreError> {
    tx.all(
        accounts_of!("and ($2 is null or accounts.id < $2) order by accounts.id desc limit $3"),
        args![person, before, limit],
    )
    .await
}

/// A team that the person alone owns, if there is one.
pub(crate) async fn sole_owner_of(tx: &mut Tx, person: PersonId) -> Result<Option<AccountRow>, StoreError> {
    tx.first(
        accounts_of!(
            "and role = 'owner' and kind = 'team' and status = 'active' and not exists (select 1 from members other \
             where other.account_id = accounts.id and other.role = 'owner' and other.person_id <> $1) \
             order by accounts.id limit 1"
        ),
        args![person],
    )
    .await
}

pub(crate) async fn update_account(
    tx: &mut Tx,
    id: AccountId,
    change: &AccountChange,
) -> Result<(), StoreError> {
    tx.execute(
        "update accounts set name = coalesce($2, name), slug = coalesce($3, slug) where id = $1",
        args![id, change.name, change.slug],
    )
    .await
    .map(drop)
}

/// Schedules the erasure of an account; returns whether it was not scheduled already.
pub(crate) async fn erase_account(tx: &mut Tx, id: AccountId, after: Timestamp) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update accounts set status = 'erasing', erase_after = $2 where id = $1 and status <> 'erasing'",
            args![id, after],
        )
        .await?;
    Ok(rows == 1)
}

/// Cancels an erasure whose time has not come; returns whether it did.
pub(crate) async fn keep_account(tx: &mut Tx, id: AccountId, now: Timestamp) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update accounts set status = 'active', erase_after = null \
             where id = $1 and status = 'erasing' and erase_after > $2",
            args![id, now],
        )
        .await?;
    Ok(rows == 1)
}

/// The first account after `failed` whose erasure is due.
pub(crate) async fn due_for_erasure(
    tx: &mut Tx,
    now: Timestamp,
    failed: Option<AccountId>,
) -> Result<Option<AccountId>, StoreError> {
    tx.first_value(
        "select id as value from accounts where erase_after is not null and erase_after <= $1 \
             and ($2 is null or id > $2) order by id limit 1",
        args![now, failed],
    )
    .await
}

/// Is the erasure of the account due?
pub(crate) async fn is_due_for_erasure(
    tx: &mut Tx,
    id: AccountId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let row: Option<AccountId> = tx
        .first_value(
            "select id as value from accounts where id = $1 and erase_after is not null and erase_after <= $2",
            args![id, now],
        )
        .await?;
    Ok(row.is_some())
}

/// The person whose own account it is.
pub(crate) async fn person_of(tx: &mut Tx, account: AccountId) -> Result<Option<PersonId>, StoreError> {
    tx.first_value(
        "select members.person_id as value from members join accounts on accounts.id = members.account_id \
             where accounts.id = $1 and accounts.kind = 'personal'",
        args![account],
    )
    .await
}

pub(crate) async fn set_plan(tx: &mut Tx, id: AccountId, plan: &str) -> Result<(), StoreError> {
    tx.run("update accounts set plan = $2 where id = $1", args![id, plan.to_owned()]).await
}

/// Every plan that an account has.
pub(crate) async fn plans(query: &mut Query<'_>) -> Result<Vec<String>, StoreError> {
    query.values("select distinct plan as value from accounts order by plan", args![]).await
}

pub(crate) async fn delete_account(tx: &mut Tx, id: AccountId) -> Result<(), StoreError> {
    tx.run("delete from accounts where id = $1", args![id]).await
}

pub(crate) async fn insert_member(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
    role: Role,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.execute(
        "insert into members (account_id, person_id, role, created_at) values ($1, $2, $3, $4)",
        args![account, person, role, now],
    )
    .await
    .map(drop)
}

pub(crate) async fn role(tx: &mut Tx, account: AccountId, person: &str) -> Result<Option<Role>, StoreError> {
    tx.first_value(
        "select role as value from members where account_id = $1 and person_id = $2",
        args![account, person.to_owned()],
    )
    .await
}

/// Locks the account's row until the commit; returns whether the account is active, `None` where there is no such
/// account.
pub(crate) async fn lock_account(tx: &mut Tx, id: AccountId) -> Result<Option<bool>, StoreError> {
    let status: Option<AccountStatus> = tx
        .first_value("update accounts set id = id where id = $1 returning status as value", args![id])
        .await?;
    Ok(status.map(|status| status == AccountStatus::Active))
}

/// A row of `members`.
pub(crate) struct MemberRow {
    pub(crate) person_id: PersonId,
    pub(crate) role: Role,
    pub(crate) created_at: Timestamp,
}

from_row!(MemberRow { person_id, role, created_at });

pub(crate) async fn member(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
) -> Result<Option<MemberRow>, StoreError> {
    tx.first(
        "select person_id, role, created_at from members where account_id = $1 and person_id = $2",
        args![account, person],
    )
    .await
}

/// The members before that cursor, the last to join first.
pub(crate) async fn members_before(
    tx: &mut Tx,
    account: AccountId,
    joined_before: Timestamp,
    person_before: String,
    limit: i64,
) -> Result<Vec<MemberRow>, StoreError> {
    tx.all(
        "select person_id, role, created_at from members where account_id = $1 \
         and (created_at, person_id) < ($2, $3) order by created_at desc, person_id desc limit $4",
        args![account, joined_before, person_before, limit],
    )
    .await
}

pub(crate) async fn count_owners(tx: &mut Tx, account: AccountId) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from members where account_id = $1 and role = 'owner'", args![account])
        .await
}

pub(crate) async fn set_role(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
    role: Role,
) -> Result<(), StoreError> {
    tx.run(
        "update members set role = $3 where account_id = $1 and person_id = $2",
        args![account, person, role],
    )
    .await
}

pub(crate) async fn delete_member(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
) -> Result<(), StoreError> {
    tx.run("delete from members where account_id = $1 and person_id = $2", args![account, person]).await
}
