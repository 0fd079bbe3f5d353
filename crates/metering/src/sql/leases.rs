//! Statements of leases.

use portico_kernel::Timestamp;
use portico_store::{Query, Select, StoreError, Tx, args, from_row};

/// Which lease: of what, and whose.
#[derive(Debug, Clone)]
pub(crate) struct LeaseAt {
    /// The account that the resource belongs to; empty for a person's rate limit.
    pub(crate) account: String,
    pub(crate) resource: String,
    /// The journal of the server that holds it.
    pub(crate) holder: String,
}

/// Locks the resource until the commit.
pub(crate) async fn lock_resource(tx: &mut Tx, at: &LeaseAt) -> Result<(), StoreError> {
    tx.execute(
        "insert into lease_locks (account_id, resource) values ($1, $2) \
         on conflict (account_id, resource) do update set resource = excluded.resource",
        args![at.account, at.resource],
    )
    .await
    .map(drop)
}

/// What is leased of an account's units.
pub(crate) struct HeldUnitsRow {
    /// By all servers.
    pub(crate) all_held: i64,
    /// By other servers that are alive, and can release it.
    pub(crate) living: i64,
}

from_row!(HeldUnitsRow { all_held, living });

/// What is leased of the resource. A server is alive when its heartbeat is not before `seen`.
pub(crate) async fn held_units(
    tx: &mut Tx,
    at: &LeaseAt,
    seen: Timestamp,
) -> Result<HeldUnitsRow, StoreError> {
    tx.one(
        "select cast(coalesce(sum(amount), 0) as bigint) as all_held, \
         cast(coalesce(sum(case when holder <> $3 and seen_at >= $4 then amount else 0 end), 0) as bigint) as living \
         from leases left join meter_journals on meter_journals.id = leases.holder \
         where account_id = $1 and resource = $2",
        args![at.account, at.resource, at.holder, seen],
    )
    .await
}

/// A share of a rate limit that another server holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldShareRow {
    pub(crate) amount: i64,
    pub(crate) recalled: bool,
    pub(crate) renewed_at: Timestamp,
    pub(crate) frees_at: Option<Timestamp>,
    /// The last heartbeat of the server; `None` when it has ended.
    pub(crate) seen_at: Option<Timestamp>,
}

from_row!(HeldShareRow { amount, recalled, renewed_at, frees_at, seen_at });

/// The shares of a rate limit that other servers hold.
pub(crate) async fn held_shares(tx: &mut Tx, at: &LeaseAt) -> Result<Vec<HeldShareRow>, StoreError> {
    tx.all(
        "select amount, recalled, renewed_at, frees_at, seen_at from leases \
         left join meter_journals on meter_journals.id = leases.holder \
         where account_id = $1 and resource = $2 and holder <> $3",
        args![at.account, at.resource, at.holder],
    )
    .await
}

/// Gives `holder` a share of `amount` calls, whatever it had before; from here on nothing of it is recalled. The first of
/// the calls that it admitted leaves at `frees_at`.
pub(crate) async fn set_share(
    tx: &mut Tx,
    at: &LeaseAt,
    amount: i64,
    frees_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into leases (account_id, resource, holder, amount, recalled, renewed_at, frees_at) \
         values ($1, $2, $3, $4, false, $5, $6) on conflict (account_id, resource, holder) do update set \
         renewed_at = excluded.renewed_at, amount = excluded.amount, recalled = false, frees_at = excluded.frees_at",
        args![at.account, at.resource, at.holder, amount, now, frees_at],
    )
    .await
}

/// A new lease, or a change of the one that is there.
macro_rules! lease {
    ($change:literal) => {
        concat!(
            "insert into leases (account_id, resource, holder, amount, recalled, renewed_at) ",
            "values ($1, $2, $3, $4, false, $5) on conflict (account_id, resource, holder) do update set ",
            "renewed_at = excluded.renewed_at, ",
            $change
        )
    };
}

/// Gives `holder` a lease of `amount`, whatever it had before; from here on nothing of it is recalled.
pub(crate) async fn set_lease(
    tx: &mut Tx,
    at: &LeaseAt,
    amount: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        lease!("amount = excluded.amount, recalled = false"),
        args![at.account, at.resource, at.holder, amount, now],
    )
    .await
}

/// Adds `amount` to the lease; if that is something, nothing of it is recalled any more.
pub(crate) async fn extend_lease(
    tx: &mut Tx,
    at: &LeaseAt,
    amount: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        lease!(
            "amount = leases.amount + excluded.amount, \
             recalled = case when excluded.amount > 0 then false else leases.recalled end"
        ),
        args![at.account, at.resource, at.holder, amount, now],
    )
    .await
}

/// Takes `amount` off the lease, because it was used or given back.
pub(crate) async fn shrink_lease(tx: &mut Tx, at: &LeaseAt, amount: i64) -> Result<(), StoreError> {
    tx.run(
        "update leases set amount = amount - $4 where account_id = $1 and resource = $2 and holder = $3",
        args![at.account, at.resource, at.holder, amount],
    )
    .await
}

/// Asks everyone but `holder` to give back what they do not need of the resource.
pub(crate) async fn recall(tx: &mut Tx, at: &LeaseAt) -> Result<(), StoreError> {
    tx.run(
        "update leases set recalled = true where account_id = $1 and resource = $2 and holder <> $3",
        args![at.account, at.resource, at.holder],
    )
    .await
}

/// When the lease was last changed; `None` when there is none.
pub(crate) async fn lease_renewed_at(
    query: &mut Query<'_>,
    at: &LeaseAt,
) -> Result<Option<Timestamp>, StoreError> {
    query
        .first_value(
            "select renewed_at as value from leases where account_id = $1 and resource = $2 and holder = $3",
            args![at.account, at.resource, at.holder],
        )
        .await
}

/// The leases of `holder` whose resource begins so.
pub(crate) async fn leases_of(
    query: &mut Query<'_>,
    holder: &str,
    begins: &str,
) -> Result<Vec<LeaseRow>, StoreError> {
    query.all(
        "select account_id, resource from leases where holder = $1 and resource like $2 order by account_id, resource",
        args![holder.to_owned(), format!("{begins}%")],
    )
    .await
}

/// A lease, by what it is of.
pub(crate) struct LeaseRow {
    pub(crate) account_id: String,
    pub(crate) resource: String,
}

from_row!(LeaseRow { account_id, resource });

pub(crate) async fn recalled(query: &mut Query<'_>, holder: &str) -> Result<Vec<LeaseRow>, StoreError> {
    query.all(
        "select account_id, resource from leases where holder = $1 and recalled = true order by account_id, resource",
        args![holder.to_owned()],
    )
    .await
}

/// Says that what was recalled is given back.
pub(crate) async fn answer_recall(tx: &mut Tx, at: &LeaseAt, now: Timestamp) -> Result<(), StoreError> {
    tx.run(
        "update leases set recalled = false, renewed_at = $4 where account_id = $1 and resource = $2 and holder = $3",
        args![at.account, at.resource, at.holder, now],
    )
    .await
}

/// Removes leases of resources whose name begins so and that are long over.
pub(crate) async fn prune_leases(tx: &mut Tx, begins: &str, before: Timestamp) -> Result<(), StoreError> {
    let like = format!("{begins}%");
    tx.run("delete from leases where resource like $1 and renewed_at < $2", args![like, before]).await
}

/// Removes locks of resources whose name begins so and that nobody holds. A transaction of its own: whoever deals them out
/// takes the lock before the lease.
pub(crate) async fn prune_locks(tx: &mut Tx, begins: &str) -> Result<(), StoreError> {
    let like = format!("{begins}%");
    tx.run(
        "delete from lease_locks where resource like $1 and not exists (select 1 from leases \
         where leases.account_id = lease_locks.account_id and leases.resource = lease_locks.resource)",
        args![like],
    )
    .await
}
