//! Every statement of the area; here those of accounts and members.

mod invitations;

use portico_kernel::{AccountId, PersonId, Role, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

use crate::model::{AccountChange, AccountStatus, NewAccount};

pub(crate) use invitations::*;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from accounts limit 1";

/// Erases what the area keeps of an account; with a personal account the person leaves every team. The account's own
/// row goes last, when every area is done.
pub(crate) const ERASE: [&str; 3] = [
    "delete from invitations where account_id = $1 and $2 > 0",
    // The row of the person goes after the rows that name it; who they are is known by their own account alone.
    "delete from members where person_id in (select id from people where account_id = $1) and $2 > 0",
    "delete from members where account_id = $1 and person_id in \
     (select person_id from members where account_id = $1 limit $2)",
];

/// An account as it is kept, with the role of whoever asked.
#[derive(Debug, Clone)]
pub(crate) struct AccountRow {
    pub(crate) id: AccountId,
    pub(crate) kind: String,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) plan: String,
    pub(crate) status: String,
    pub(crate) probe: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) erase_after: Option<Timestamp>,
    pub(crate) role: String,
}

from_row!(AccountRow { id, kind, slug, name, plan, status, probe, created_at, erase_after, role });

pub(crate) async fn insert_account(tx: &mut Tx, new: &NewAccount, now: Timestamp) -> Result<(), StoreError> {
    tx.execute(
        "insert into accounts (id, kind, slug, name, plan, status, probe, created_at) \
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![
            new.id,
            new.kind.name().to_owned(),
            new.slug,
            new.name,
            new.plan,
            AccountStatus::Active.name().to_owned(),
            false,
            now
        ],
    )
    .await
    .map(drop)
}

/// The account, as someone outside of its members sees it.
pub(crate) async fn account(tx: &mut Tx, id: AccountId) -> Result<Option<AccountRow>, StoreError> {
    tx.first(
        "select id, kind, slug, name, plan, status, probe, created_at, erase_after, '' as role \
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
    most: i64,
) -> Result<Vec<AccountRow>, StoreError> {
    tx.all(
        accounts_of!("and ($2 is null or accounts.id < $2) order by accounts.id desc limit $3"),
        args![person, before, most],
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

/// Sets the end of an account in use; answers whether it was in use.
pub(crate) async fn erase_account(tx: &mut Tx, id: AccountId, after: Timestamp) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update accounts set status = 'erasing', erase_after = $2 where id = $1 and status <> 'erasing'",
            args![id, after],
        )
        .await?;
    Ok(rows == 1)
}

/// Keeps an account whose end is not here yet; answers whether it did.
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

/// An account whose end is here, if there is one after `passed`.
pub(crate) async fn due_for_erasure(
    tx: &mut Tx,
    now: Timestamp,
    passed: Option<AccountId>,
) -> Result<Option<AccountId>, StoreError> {
    let row: Option<(AccountId,)> = tx
        .first(
            "select id as value from accounts where erase_after is not null and erase_after <= $1 \
             and ($2 is null or id > $2) order by id limit 1",
            args![now, passed],
        )
        .await?;
    Ok(row.map(|(id,)| id))
}

/// Is the end of the account here?
pub(crate) async fn is_due_for_erasure(
    tx: &mut Tx,
    id: AccountId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let row: Option<(AccountId,)> = tx
        .first(
            "select id as value from accounts where id = $1 and erase_after is not null and erase_after <= $2",
            args![id, now],
        )
        .await?;
    Ok(row.is_some())
}

/// The person whose own account it is.
pub(crate) async fn person_of(tx: &mut Tx, account: AccountId) -> Result<Option<PersonId>, StoreError> {
    let row: Option<(PersonId,)> = tx
        .first(
            "select members.person_id as value from members join accounts on accounts.id = members.account_id \
             where accounts.id = $1 and accounts.kind = 'personal'",
            args![account],
        )
        .await?;
    Ok(row.map(|(id,)| id))
}

pub(crate) async fn set_plan(tx: &mut Tx, id: AccountId, plan: &str) -> Result<(), StoreError> {
    tx.execute("update accounts set plan = $2 where id = $1", args![id, plan.to_owned()]).await.map(drop)
}

/// Every plan that an account has.
pub(crate) async fn plans(tx: &mut Tx) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String,)> =
        tx.all("select distinct plan as value from accounts order by plan", args![]).await?;
    Ok(rows.into_iter().map(|(plan,)| plan).collect())
}

pub(crate) async fn delete_account(tx: &mut Tx, id: AccountId) -> Result<(), StoreError> {
    tx.execute("delete from accounts where id = $1", args![id]).await.map(drop)
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
        args![account, person, role.name().to_owned(), now],
    )
    .await
    .map(drop)
}

pub(crate) async fn role(tx: &mut Tx, account: AccountId, person: &str) -> Result<Option<Role>, StoreError> {
    let row: Option<(String,)> = tx
        .first(
            "select role as value from members where account_id = $1 and person_id = $2",
            args![account, person.to_owned()],
        )
        .await?;
    Ok(row.and_then(|(name,)| Role::parse(&name)))
}

/// Holds the account's row until the commit, on both databases alike; answers whether it is in use, and nothing where
/// there is none.
pub(crate) async fn lock_account(tx: &mut Tx, id: AccountId) -> Result<Option<bool>, StoreError> {
    let row: Option<(String,)> =
        tx.first("update accounts set id = id where id = $1 returning status as value", args![id]).await?;
    Ok(row.map(|(status,)| status == AccountStatus::Active.name()))
}

/// A member as they are kept.
pub(crate) struct MemberRow {
    pub(crate) person_id: PersonId,
    role: String,
    pub(crate) created_at: Timestamp,
}

from_row!(MemberRow { person_id, role, created_at });

impl MemberRow {
    pub(crate) fn role(&self) -> Result<Role, StoreError> {
        Role::parse(&self.role).ok_or_else(|| StoreError::fault(format!("{:?} is no role", self.role)))
    }
}

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

/// The members, those who joined last first.
pub(crate) async fn members_before(
    tx: &mut Tx,
    account: AccountId,
    (at, person): (Timestamp, String),
    most: i64,
) -> Result<Vec<MemberRow>, StoreError> {
    tx.all(
        "select person_id, role, created_at from members where account_id = $1 \
         and (created_at, person_id) < ($2, $3) order by created_at desc, person_id desc limit $4",
        args![account, at, person, most],
    )
    .await
}

pub(crate) async fn count_owners(tx: &mut Tx, account: AccountId) -> Result<i64, StoreError> {
    let (count,) = tx
        .one("select count(*) as value from members where account_id = $1 and role = 'owner'", args![account])
        .await?;
    Ok(count)
}

pub(crate) async fn set_role(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
    role: Role,
) -> Result<(), StoreError> {
    tx.execute(
        "update members set role = $3 where account_id = $1 and person_id = $2",
        args![account, person, role.name().to_owned()],
    )
    .await
    .map(drop)
}

pub(crate) async fn delete_member(
    tx: &mut Tx,
    account: AccountId,
    person: PersonId,
) -> Result<(), StoreError> {
    tx.execute("delete from members where account_id = $1 and person_id = $2", args![account, person])
        .await
        .map(drop)
}
