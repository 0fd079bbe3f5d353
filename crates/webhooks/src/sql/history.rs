//! Statistics, and what is past its time.

use std::sync::LazyLock;

use portico_kernel::{AccountId, DeliveryId, EndpointId, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

use super::ByRows;

/// An endpoint, or nothing for all of them.
fn or_all(endpoint: Option<EndpointId>) -> String {
    endpoint.map(|id| id.to_string()).unwrap_or_default()
}

/// Attempts of one hour, one outcome and about one answer time.
pub(crate) struct StatRow {
    pub(crate) hour: i64,
    pub(crate) outcome: String,
    pub(crate) step: i64,
    pub(crate) count: i64,
}

from_row!(StatRow { hour, outcome, step, count });

/// The account's statistics of these hours, of all its endpoints or of one.
pub(crate) async fn stats(
    tx: &mut Tx,
    account: AccountId,
    endpoint: Option<EndpointId>,
    (from, to): (i64, i64),
) -> Result<Vec<StatRow>, StoreError> {
    tx.all(
        "select s.hour, s.outcome, s.step, cast(sum(s.count) as bigint) as count from webhook_stats s \
         join webhook_endpoints p on p.id = s.endpoint_id and p.deleted_at is null \
         where s.account_id = $1 and s.hour >= $2 and s.hour < $3 and ($4 = '' or s.endpoint_id = $4) \
         group by s.hour, s.outcome, s.step order by s.hour, s.outcome, s.step",
        args![account, from, to, or_all(endpoint)],
    )
    .await
}

/// How many attempts of an endpoint ended how.
pub(crate) struct RecentRow {
    pub(crate) endpoint_id: EndpointId,
    pub(crate) delivered: i64,
    pub(crate) failed: i64,
}

from_row!(RecentRow { endpoint_id, delivered, failed });

/// What the account's endpoints, or one of them, did from that hour on.
pub(crate) async fn recent(
    tx: &mut Tx,
    account: AccountId,
    endpoint: Option<EndpointId>,
    from: i64,
) -> Result<Vec<RecentRow>, StoreError> {
    tx.all(
        "select endpoint_id, cast(sum(case when outcome = 'delivered' then count else 0 end) as bigint) as delivered, \
         cast(sum(case when outcome = 'delivered' then 0 else count end) as bigint) as failed from webhook_stats \
         where account_id = $1 and hour >= $2 and ($3 = '' or endpoint_id = $3) group by endpoint_id",
        args![account, from, or_all(endpoint)],
    )
    .await
}

/// Removes deliveries that are past their time, and their attempts; answers how many rows that were. `before` is the
/// id that a delivery of that time would have. What was sent again by hand stays as long as its last attempt.
pub(crate) async fn prune_deliveries(
    tx: &mut Tx,
    before: DeliveryId,
    last_before: Timestamp,
    most: i64,
) -> Result<u64, StoreError> {
    let ids = tx
        .all::<(DeliveryId,)>(
            "select id as value from webhook_deliveries where id < $1 and next_at is null \
             and created_at < $2 and (last_at is null or last_at < $2) order by id limit $3",
            args![before, last_before, most],
        )
        .await?;
    remove(tx, &ids).await
}

/// Removes deliveries of endpoints that were deleted, and their attempts.
pub(crate) async fn prune_deleted(tx: &mut Tx, endpoint: EndpointId, most: i64) -> Result<u64, StoreError> {
    let ids = tx
        .all::<(DeliveryId,)>(
            "select id as value from webhook_deliveries where endpoint_id = $1 order by created_at, id limit $2",
            args![endpoint, most],
        )
        .await?;
    if ids.is_empty() {
        return tx.execute("delete from webhook_stats where endpoint_id = $1", args![endpoint]).await;
    }
    remove(tx, &ids).await
}

static REMOVE_ATTEMPTS: LazyLock<ByRows> =
    LazyLock::new(|| ByRows::new("delete from webhook_attempts where delivery_id in (", "$a", ")", 0));
static REMOVE: LazyLock<ByRows> =
    LazyLock::new(|| ByRows::new("delete from webhook_deliveries where id in (", "$a", ")", 0));

async fn remove(tx: &mut Tx, ids: &[(DeliveryId,)]) -> Result<u64, StoreError> {
    for statement in [&REMOVE_ATTEMPTS, &REMOVE] {
        for (text, args) in statement.pieces(ids, &[], |(id,)| args![*id]) {
            tx.execute(text, args).await?;
        }
    }
    Ok(ids.len() as u64)
}

/// Endpoints that were deleted.
pub(crate) async fn deleted_endpoints(tx: &mut Tx, most: i64) -> Result<Vec<EndpointId>, StoreError> {
    let rows: Vec<(EndpointId,)> = tx
        .all(
            "select id as value from webhook_endpoints where deleted_at is not null order by deleted_at limit $1",
            args![most],
        )
        .await?;
    Ok(rows.into_iter().map(|(id,)| id).collect())
}

/// Forgets an endpoint that was deleted before that time, and whose history is gone.
pub(crate) async fn forget_endpoint(
    tx: &mut Tx,
    id: EndpointId,
    before: Timestamp,
) -> Result<u64, StoreError> {
    tx.execute("delete from webhook_endpoints where id = $1 and deleted_at < $2", args![id, before]).await
}

/// Removes statistics of hours before that one.
pub(crate) async fn prune_stats(tx: &mut Tx, before: i64, most: i64) -> Result<u64, StoreError> {
    tx.execute(
        "delete from webhook_stats where (account_id, endpoint_id, hour, outcome, step) in \
         (select account_id, endpoint_id, hour, outcome, step from webhook_stats where hour < $1 limit $2)",
        args![before, most],
    )
    .await
}
