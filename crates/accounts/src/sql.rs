//! Every statement of the area.

use portico_kernel::{AccountId, PersonId, Role, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

use crate::model::{AccountStatus, NewAccount};

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from accounts limit 1";

/// An account as it is kept, with the role of whoever asked.
pub(crate) struct AccountRow {
    pub(crate) id: String,
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
            new.plan.name().to_owned(),
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

/// The accounts that the person belongs to, oldest first.
pub(crate) async fn accounts_of(tx: &mut Tx, person: &str) -> Result<Vec<AccountRow>, StoreError> {
    tx.all(
        "select accounts.id, kind, slug, name, plan, status, probe, accounts.created_at, erase_after, role \
         from members join accounts on accounts.id = members.account_id where members.person_id = $1 \
         order by accounts.id",
        args![person.to_owned()],
    )
    .await
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

/// Holds the account's row until the commit, on both databases alike; answers whether there is one.
pub(crate) async fn lock_account(tx: &mut Tx, id: AccountId) -> Result<bool, StoreError> {
    Ok(tx.execute("update accounts set id = id where id = $1", args![id]).await? == 1)
}
