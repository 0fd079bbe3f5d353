//! Statements of the order in which accounts change.

use portico_kernel::{AccountChangeId, AccountId};
use portico_store::{BulkStatement, Select, StoreError, Tx, args, delete_some, from_row};

use super::AccountRow;

/// Erases what is kept of an account's changes.
pub(crate) const ERASE_CHANGES: [&str; 2] = [
    delete_some!("account_changes", "id", "account_id = $1"),
    "delete from account_order where account_id = $1 and $2 > 0",
];

/// Notes that the account changes with the commit; it gets its number later.
pub(crate) async fn insert_change(
    tx: &mut Tx,
    id: AccountChangeId,
    account: AccountId,
) -> Result<(), StoreError> {
    tx.run("insert into account_changes (id, account_id) values ($1, $2)", args![id, account]).await
}

/// Are there changes without a number?
pub(crate) async fn has_changes(tx: &mut impl Select) -> Result<bool, StoreError> {
    let id: Option<AccountChangeId> =
        tx.first_value("select id as value from account_changes limit 1", args![]).await?;
    Ok(id.is_some())
}

/// The last number that was given. With `lock`, nobody else gives one before the commit.
pub(crate) async fn last_number(tx: &mut Tx, lock: bool) -> Result<i64, StoreError> {
    let sql = if lock {
        "update account_order_last set number = number where id = 1 returning number as value"
    } else {
        "select number as value from account_order_last where id = 1"
    };
    tx.value(sql, args![]).await
}

/// Takes up to `limit` changes that are committed; returns their accounts.
pub(crate) async fn take_changes(tx: &mut Tx, limit: i64) -> Result<Vec<AccountId>, StoreError> {
    tx.values(
        "delete from account_changes where id in (select id from account_changes order by id limit $1) \
         returning account_id as value",
        args![limit],
    )
    .await
}

/// Gives the accounts the numbers after `last`, in their order. The caller has locked the last number.
pub(crate) async fn number_accounts(
    tx: &mut Tx,
    last: i64,
    accounts: impl Iterator<Item = AccountId>,
) -> Result<(), StoreError> {
    static ROWS: BulkStatement = BulkStatement::new(
        "insert into account_order (account_id, number) values",
        "($a, $b)",
        "on conflict (account_id) do update set number = excluded.number",
    );
    let rows: Vec<_> = (last + 1..).zip(accounts).map(|(number, account)| args![account, number]).collect();
    let last = last + i64::try_from(rows.len()).unwrap_or(0);
    ROWS.run(tx, args![], rows).await?;
    tx.run("update account_order_last set number = $1 where id = 1", args![last]).await
}

/// An account and the number of its last change.
pub(crate) struct ChangedRow {
    pub(crate) number: i64,
    pub(crate) account: AccountRow,
}

impl portico_store::FromRow for ChangedRow {
    fn from_row(row: &portico_store::Row) -> Result<Self, StoreError> {
        Ok(Self { number: row.get("number")?, account: AccountRow::from_row(row)? })
    }
}

/// Accounts whose last change has a number after `after`, in the order of these.
pub(crate) async fn changed_after(
    tx: &mut Tx,
    after: i64,
    limit: i64,
) -> Result<Vec<ChangedRow>, StoreError> {
    tx.all(
        "select number, id, kind, slug, name, plan, status, probe, created_at, erase_after, \
         cast(null as text) as role from account_order join accounts on id = account_id \
         where number > $1 order by number limit $2",
        args![after, limit],
    )
    .await
}

/// Whether an account is active.
pub(crate) struct StatusRow {
    pub(crate) id: AccountId,
    pub(crate) status: crate::AccountStatus,
}

from_row!(StatusRow { id, status });

/// Those of these accounts that there are.
pub(crate) async fn statuses(tx: &mut Tx, accounts: Vec<AccountId>) -> Result<Vec<StatusRow>, StoreError> {
    static ROWS: BulkStatement =
        BulkStatement::new("select id, status from accounts where id in (", "$a", ")");
    ROWS.all(tx, args![], accounts.into_iter().map(|id| args![id]).collect()).await
}
