//! Every statement of the area; here those of journals and months.

mod leases;
mod usage;

use portico_kernel::{AccountId, Month, Timestamp};
use portico_store::{Query, Select, StoreError, Tx, args, delete_some, from_row};

pub(crate) use leases::*;
pub(crate) use usage::*;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from meter_journals limit 1";

/// Erases what the area keeps of an account.
pub(crate) const ERASE: [&str; 8] = [
    delete_some!("request_blocks", "id", "account_id = $1", also "account_id = $1"),
    delete_some!("usage_days", "day", "account_id = $1 order by day", also "account_id = $1"),
    "delete from usage_months where account_id = $1 and $2 > 0",
    delete_some!("usage_hours", "hour", "account_id = $1 order by hour", also "account_id = $1"),
    "delete from unit_months where account_id = $1 and $2 > 0",
    "delete from unit_budgets where account_id = $1 and $2 > 0",
    "delete from leases where account_id = $1 and $2 > 0",
    "delete from lease_locks where account_id = $1 and $2 > 0",
];

pub(crate) async fn insert_journal(tx: &mut Tx, id: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.run("insert into meter_journals (id, position, seen_at) values ($1, 0, $2)", args![id.to_owned(), now])
        .await
}

/// How far the journal is counted; `None` when it was counted to its end and closed.
pub(crate) async fn journal_position(tx: &mut impl Select, id: &str) -> Result<Option<u64>, StoreError> {
    let position: Option<i64> = tx
        .first_value("select position as value from meter_journals where id = $1", args![id.to_owned()])
        .await?;
    Ok(position.map(|position| u64::try_from(position).unwrap_or(0)))
}

/// Says that the journal is counted up to `to`; returns whether it was counted up to `from` until now.
pub(crate) async fn advance_journal(tx: &mut Tx, id: &str, from: u64, to: u64) -> Result<bool, StoreError> {
    let [from, to] = [from, to].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let rows = tx
        .execute(
            "update meter_journals set position = $3 where id = $1 and position = $2",
            args![id.to_owned(), from, to],
        )
        .await?;
    Ok(rows == 1)
}

pub(crate) async fn see_journal(tx: &mut Tx, id: &str, now: Timestamp) -> Result<(), StoreError> {
    tx.run("update meter_journals set seen_at = $2 where id = $1", args![id.to_owned(), now]).await
}

/// Every journal there is.
pub(crate) async fn journals(query: &mut Query<'_>) -> Result<Vec<String>, StoreError> {
    query.values("select id as value from meter_journals order by id", args![]).await
}

/// Lets go of what servers hold that were not seen since `seen`. Their journals stay, should they come back.
pub(crate) async fn release_dead(tx: &mut Tx, seen: Timestamp) -> Result<u64, StoreError> {
    tx.execute(
        "delete from leases where holder in (select id from meter_journals where seen_at < $1)",
        args![seen],
    )
    .await
}

/// The name of this database, which is `new` when it has none yet.
pub(crate) async fn database_name(tx: &mut Tx, new: &str) -> Result<String, StoreError> {
    tx.run(
        "insert into meter_database (id, name) values (1, $1) on conflict (id) do nothing",
        args![new.to_owned()],
    )
    .await?;
    tx.value("select name as value from meter_database where id = 1", args![]).await
}

/// Closes a journal: nothing more will come of it, and it holds no resource whose name begins with `units`.
pub(crate) async fn close_journal(tx: &mut Tx, id: &str, units: &str) -> Result<(), StoreError> {
    tx.run(
        "delete from leases where holder = $1 and resource like $2",
        args![id.to_owned(), format!("{units}%")],
    )
    .await?;
    tx.run("delete from meter_journals where id = $1", args![id.to_owned()]).await
}

/// How many servers there are, as far as they were seen after `since`.
pub(crate) async fn count_journals(tx: &mut Tx, since: Timestamp) -> Result<i64, StoreError> {
    tx.value("select count(*) as value from meter_journals where seen_at >= $1", args![since]).await
}

/// What an account used in a month.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MonthRow {
    pub(crate) used: i64,
    pub(crate) granted: i64,
    /// The highest threshold that an event told of.
    pub(crate) notified: i64,
    /// When the budget last changed; the beginning of time when it never did.
    pub(crate) budget_changed_at: Timestamp,
}

from_row!(MonthRow { used, granted, notified, budget_changed_at });

/// Adds to what the account used and was granted in the month; returns the new sums. The row stays locked until the
/// commit.
pub(crate) async fn add_to_month(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    used: i64,
    granted: i64,
) -> Result<MonthRow, StoreError> {
    tx.one(
        "insert into unit_months (account_id, month, used, granted, notified) values ($1, $2, $3, $4, 0) \
         on conflict (account_id, month) do update set used = unit_months.used + excluded.used, \
         granted = unit_months.granted + excluded.granted returning used, granted, notified, budget_changed_at",
        args![account, month.to_string(), used, granted],
    )
    .await
}

pub(crate) async fn month(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
) -> Result<Option<MonthRow>, StoreError> {
    tx.first(
        "select used, granted, notified, budget_changed_at from unit_months where account_id = $1 and month = $2",
        args![account, month.to_string()],
    )
    .await
}

pub(crate) async fn set_notified(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    threshold: i64,
) -> Result<(), StoreError> {
    tx.run(
        "update unit_months set notified = $3 where account_id = $1 and month = $2",
        args![account, month.to_string(), threshold],
    )
    .await
}

/// A budget that was in force until a moment, and what was used while it was.
pub(crate) struct PastBudgetRow {
    pub(crate) until: Timestamp,
    pub(crate) budget: i64,
    pub(crate) used: i64,
}

from_row!(PastBudgetRow { until, budget, used });

/// Keeps the budget that ends now, for the calls that were made under it and are not counted yet. The caller holds the
/// row of the month.
pub(crate) async fn keep_budget(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    past: &PastBudgetRow,
) -> Result<(), StoreError> {
    let (month, until) = (month.to_string(), past.until);
    tx.run(
        "insert into unit_budgets (account_id, month, until, budget, used) values ($1, $2, $3, $4, $5) \
         on conflict (account_id, month, until) do nothing",
        args![account, month.clone(), until, past.budget, past.used],
    )
    .await?;
    tx.run(
        "update unit_months set budget_changed_at = $3 where account_id = $1 and month = $2",
        args![account, month, until],
    )
    .await
}

/// The budgets of the month that ended after `since`, the first that ended first.
pub(crate) async fn past_budgets(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    since: Timestamp,
) -> Result<Vec<PastBudgetRow>, StoreError> {
    tx.all(
        "select until, budget, used from unit_budgets where account_id = $1 and month = $2 and until > $3 \
         order by until",
        args![account, month.to_string(), since],
    )
    .await
}

/// Sets what was used under a budget of the past.
pub(crate) async fn set_used_of_past_budget(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    past: &PastBudgetRow,
) -> Result<(), StoreError> {
    tx.run(
        "update unit_budgets set used = $4 where account_id = $1 and month = $2 and until = $3",
        args![account, month.to_string(), past.until, past.used],
    )
    .await
}

/// Removes budgets that ended before `before`.
pub(crate) async fn prune_budgets(tx: &mut Tx, before: Timestamp) -> Result<(), StoreError> {
    tx.run("delete from unit_budgets where until < $1", args![before]).await
}
