//! Statistics, and the removal of expired history.

use std::ops::Range;

use portico_kernel::{AccountId, DeliveryId, EndpointId, Timestamp};
use portico_store::{BulkStatement, Select, StoreError, Tx, args, delete_some, from_row};

use super::EndpointKey;
use crate::model::Outcome;

/// Attempts of one hour, one outcome and one bucket of the latency histogram.
pub(crate) struct StatRow {
    pub(crate) hour: i64,
    pub(crate) outcome: Outcome,
    /// The bucket.
    pub(crate) step: i64,
    pub(crate) count: i64,
}

from_row!(StatRow { hour, outcome, step, count });

/// Statistics of the account's endpoints from hour `$2` to before hour `$3`, each found by its own index range.
macro_rules! of_endpoints {
    ($columns:literal, $which:literal, $rest:literal) => {
        concat!(
            "select ",
            $columns,
            " from webhook_endpoints p join webhook_stats s on s.account_id = p.account_id and s.endpoint_id = p.id \
             where p.account_id = $1 and p.deleted_at is null and s.hour >= $2 and s.hour < $3",
            $which,
            $rest
        )
    };
}

macro_rules! stats {
    ($which:literal) => {
        of_endpoints!(
            "s.hour, s.outcome, s.step, cast(sum(s.count) as bigint) as count",
            $which,
            " group by s.hour, s.outcome, s.step order by s.hour, s.outcome, s.step"
        )
    };
}

/// The statistics of these hours, of all of the account's endpoints or of one.
pub(crate) async fn stats(
    tx: &mut Tx,
    account: AccountId,
    endpoint: Option<EndpointId>,
    hours: Range<i64>,
) -> Result<Vec<StatRow>, StoreError> {
    match endpoint {
        None => tx.all(stats!(""), args![account, hours.start, hours.end]).await,
        Some(id) => tx.all(stats!(" and p.id = $4"), args![account, hours.start, hours.end, id]).await,
    }
}

/// How many attempts of an endpoint ended how.
pub(crate) struct RecentRow {
    pub(crate) endpoint_id: EndpointId,
    pub(crate) delivered: i64,
    pub(crate) failed: i64,
}

from_row!(RecentRow { endpoint_id, delivered, failed });

macro_rules! recent {
    ($which:literal) => {
        of_endpoints!(
            "s.endpoint_id, cast(sum(case when s.outcome = 'delivered' then s.count else 0 end) as bigint) as delivered, \
             cast(sum(case when s.outcome = 'delivered' then 0 else s.count end) as bigint) as failed",
            $which,
            " group by s.endpoint_id"
        )
    };
}

/// The attempts of the account's endpoints, or of one of them, from that hour on.
pub(crate) async fn recent(
    tx: &mut Tx,
    account: AccountId,
    endpoint: Option<EndpointId>,
    from: i64,
) -> Result<Vec<RecentRow>, StoreError> {
    match endpoint {
        None => tx.all(recent!(""), args![account, from, i64::MAX]).await,
        Some(id) => tx.all(recent!(" and p.id = $4"), args![account, from, i64::MAX, id]).await,
    }
}

/// Expired deliveries. `before` is the id that a delivery of that time would have. One that was sent again by hand stays
/// as long as its last attempt.
pub(crate) async fn expired_deliveries(
    tx: &mut Tx,
    before: DeliveryId,
    last_before: Timestamp,
    limit: i64,
) -> Result<Vec<DeliveryId>, StoreError> {
    tx.values(
        "select id as value from webhook_deliveries where id < $1 and next_at is null \
             and created_at < $2 and (last_at is null or last_at < $2) order by id limit $3",
        args![before, last_before, limit],
    )
    .await
}

/// Removes some of the history of a deleted endpoint; returns how many rows.
pub(crate) async fn remove_history(tx: &mut Tx, key: EndpointKey, limit: i64) -> Result<u64, StoreError> {
    let ids: Vec<DeliveryId> = tx
        .values(
            "select id as value from webhook_deliveries where endpoint_id = $1 order by created_at, id limit $2",
            args![key.endpoint, limit],
        )
        .await?;
    if ids.is_empty() {
        let delete = "delete from webhook_stats where account_id = $1 and endpoint_id = $2";
        return tx.execute(delete, args![key.account, key.endpoint]).await;
    }
    remove_deliveries(tx, &ids).await
}

static REMOVE: BulkStatement = BulkStatement::new("delete from webhook_deliveries where id in (", "$a", ")");

/// Removes deliveries, and with them their attempts; returns how many deliveries.
pub(crate) async fn remove_deliveries(tx: &mut Tx, ids: &[DeliveryId]) -> Result<u64, StoreError> {
    REMOVE.run(tx, args![], ids.iter().map(|id| args![*id]).collect()).await?;
    Ok(ids.len() as u64)
}

/// An endpoint that was deleted.
pub(crate) struct DeletedRow {
    pub(crate) id: EndpointId,
    pub(crate) account_id: AccountId,
}

from_row!(DeletedRow { id, account_id });

/// Endpoints that were deleted.
pub(crate) async fn deleted_endpoints(tx: &mut Tx, limit: i64) -> Result<Vec<DeletedRow>, StoreError> {
    tx.all(
        "select id, account_id from webhook_endpoints where deleted_at is not null order by deleted_at limit $1",
        args![limit],
    )
    .await
}

/// Removes the row of an endpoint that was deleted before that time, and whose history is removed.
pub(crate) async fn remove_endpoint(
    tx: &mut Tx,
    id: EndpointId,
    before: Timestamp,
) -> Result<u64, StoreError> {
    let removed = "delete from webhook_endpoints where id = $1 and deleted_at < $2";
    let removed = tx.execute(removed, args![id, before]).await?;
    if removed > 0 {
        super::remove_hold(tx, id).await?;
    }
    Ok(removed)
}

/// Removes statistics of hours before that one.
pub(crate) async fn prune_stats(tx: &mut Tx, before: i64, limit: i64) -> Result<u64, StoreError> {
    tx.execute(
        delete_some!("webhook_stats", "account_id, endpoint_id, hour, outcome, step", "hour < $1"),
        args![before, limit],
    )
    .await
}
