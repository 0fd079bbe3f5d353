//! What became of attempts, many at once.

use std::sync::LazyLock;

use portico_kernel::{AccountId, AttemptId, DeliveryId, EndpointId, Timestamp};
use portico_store::{StoreError, Tx, args, from_row};

use super::ByRows;
use crate::model::After;

/// How an attempt ended.
#[derive(Debug, Clone)]
pub(crate) struct ResultRow {
    pub(crate) delivery: DeliveryId,
    /// The attempts that were made before this one, and how it stood: whoever finds it otherwise writes nothing.
    pub(crate) tries: i64,
    pub(crate) was: &'static str,
    pub(crate) after: After,
    pub(crate) attempt: AttemptId,
    pub(crate) at: Timestamp,
    pub(crate) status_code: i64,
    pub(crate) duration_ms: i64,
    pub(crate) outcome: &'static str,
}

static UPDATE: LazyLock<ByRows> = LazyLock::new(|| {
    ByRows::new(
        "with results (delivery_id, tried, was, state, made, in_lane, due, ended_at) as (values",
        "($a, $b, $c, $d, $e, $f, $g, $h)",
        ") update webhook_deliveries set status = results.state, attempts = results.made, tries = tries + 1, \
         lane = results.in_lane, next_at = results.due, last_at = results.ended_at from results \
         where webhook_deliveries.id = results.delivery_id and webhook_deliveries.tries = results.tried \
         and webhook_deliveries.status = results.was and exists (select 1 from webhook_queues q where q.account_id = webhook_deliveries.account_id \
         and q.claim = $1) returning id as value",
        1,
    )
});

static INSERT: LazyLock<ByRows> = LazyLock::new(|| {
    ByRows::new(
        "insert into webhook_attempts (delivery_id, number, id, at, status_code, duration_ms, outcome, next_retry_at) \
         values",
        "($a, $b, $c, $d, $e, $f, $g, $h)",
        "",
        0,
    )
});

/// Writes results, of those deliveries alone that are still as they were and still claimed; answers which.
pub(crate) async fn write_results(
    tx: &mut Tx,
    claim: &str,
    rows: &[ResultRow],
) -> Result<Vec<DeliveryId>, StoreError> {
    let shared = args![claim.to_owned()];
    let mut written = Vec::new();
    let update = UPDATE.pieces(rows, &shared, |row| {
        let After { status, attempts, lane, next_at } = row.after;
        let (was, state) = (row.was.to_owned(), status.name().to_owned());
        args![row.delivery, row.tries, was, state, attempts, lane.number(), next_at, row.at]
    });
    for (text, args) in update {
        let ids: Vec<(DeliveryId,)> = tx.all(text, args).await?;
        written.extend(ids.into_iter().map(|(id,)| id));
    }
    Ok(written)
}

pub(crate) async fn insert_attempts(tx: &mut Tx, rows: &[ResultRow]) -> Result<(), StoreError> {
    let insert = INSERT.pieces(rows, &[], |row| {
        let (number, next) = (row.tries + 1, row.after.next_at);
        args![
            row.delivery,
            number,
            row.attempt,
            row.at,
            row.status_code,
            row.duration_ms,
            row.outcome.to_owned(),
            next
        ]
    });
    for (text, args) in insert {
        tx.execute(text, args).await?;
    }
    Ok(())
}

/// What the attempts of a while say of an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) endpoint: EndpointId,
    pub(crate) last_at: Timestamp,
    pub(crate) last_status: &'static str,
    /// Was one of them taken?
    pub(crate) recovered: bool,
    /// The first that failed after the last that was taken.
    pub(crate) failing_since: Option<Timestamp>,
}

/// Since when an endpoint fails.
pub(crate) struct FailingRow {
    pub(crate) id: EndpointId,
    pub(crate) account_id: AccountId,
    pub(crate) version: i64,
    pub(crate) failing_since: Option<Timestamp>,
}

from_row!(FailingRow { id, account_id, version, failing_since });

static HEALTH: LazyLock<ByRows> = LazyLock::new(|| {
    ByRows::new(
        "with health (endpoint, ended_at, state, recovered, since) as (values",
        "($a, $b, $c, $d, $e)",
        ") update webhook_endpoints set last_delivery_at = health.ended_at, last_delivery_status = health.state, \
         failing_since = case when health.recovered then health.since \
         else coalesce(webhook_endpoints.failing_since, health.since) end from health \
         where webhook_endpoints.id = health.endpoint returning id, account_id, version, failing_since",
        0,
    )
});

/// Notes how endpoints do; answers since when each fails.
pub(crate) async fn note_health(tx: &mut Tx, rows: &[Health]) -> Result<Vec<FailingRow>, StoreError> {
    let mut all = Vec::new();
    let update = HEALTH.pieces(rows, &[], |row| {
        args![row.endpoint, row.last_at, row.last_status.to_owned(), row.recovered, row.failing_since]
    });
    for (text, args) in update {
        all.extend(tx.all(text, args).await?);
    }
    Ok(all)
}

/// Attempts of one hour, one outcome and about one answer time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StatKey {
    pub(crate) account: AccountId,
    pub(crate) endpoint: EndpointId,
    pub(crate) hour: i64,
    pub(crate) outcome: &'static str,
    pub(crate) step: i64,
}

static COUNT: LazyLock<ByRows> = LazyLock::new(|| {
    ByRows::new(
        "insert into webhook_stats (account_id, endpoint_id, hour, outcome, step, count) values",
        "($a, $b, $c, $d, $e, $f)",
        "on conflict (account_id, endpoint_id, hour, outcome, step) \
         do update set count = webhook_stats.count + excluded.count",
        0,
    )
});

/// Adds to the statistics.
pub(crate) async fn count(tx: &mut Tx, rows: &[(StatKey, i64)]) -> Result<(), StoreError> {
    let insert = COUNT.pieces(rows, &[], |(key, count)| {
        args![key.account, key.endpoint, key.hour, key.outcome.to_owned(), key.step, *count]
    });
    for (text, args) in insert {
        tx.execute(text, args).await?;
    }
    Ok(())
}
