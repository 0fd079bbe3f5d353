//! The results of attempts, many in one statement.

use portico_kernel::{AccountId, AttemptId, DeliveryId, EndpointId, Timestamp};
use portico_store::{BulkStatement, StoreError, Tx, args, from_row};

use crate::model::{Outcome, Status, Transition};

/// The result of an attempt.
#[derive(Debug, Clone)]
pub(crate) struct ResultRow {
    pub(crate) delivery: DeliveryId,
    /// The attempts before this one, and the status: the result is stored only where the delivery still has both.
    pub(crate) tries: i64,
    pub(crate) status_before: Status,
    pub(crate) next: Transition,
    pub(crate) attempt: AttemptId,
    pub(crate) at: Timestamp,
    pub(crate) status_code: i64,
    pub(crate) duration_ms: i64,
    pub(crate) outcome: Outcome,
}

static UPDATE: BulkStatement = BulkStatement::new(
    "with results (delivery_id, tried, was, state, made, in_lane, due, ended_at) as (values",
    "($a, $b, $c, $d, $e, $f, $g, $h)",
    ") update webhook_deliveries set status = results.state, attempts = results.made, tries = tries + 1, \
         by_hand = false, lane = results.in_lane, next_at = results.due, last_at = results.ended_at from results \
         where webhook_deliveries.id = results.delivery_id and webhook_deliveries.tries = results.tried \
         and webhook_deliveries.status = results.was and exists (select 1 from webhook_queues q where q.account_id = webhook_deliveries.account_id \
         and q.claim = $1) returning id as value",
);

static INSERT: BulkStatement = BulkStatement::new(
    "insert into webhook_attempts (delivery_id, number, id, at, status_code, duration_ms, outcome, next_retry_at) \
         values",
    "($a, $b, $c, $d, $e, $f, $g, $h)",
    "",
);

/// Stores the results of those deliveries that are still as they were and still claimed; returns which.
pub(crate) async fn write_results(
    tx: &mut Tx,
    claim: &str,
    rows: &[ResultRow],
) -> Result<Vec<DeliveryId>, StoreError> {
    let update = |row: &ResultRow| {
        let Transition { status, attempts, queue, next_at } = row.next;
        let before = row.status_before;
        args![row.delivery, row.tries, before, status, attempts, queue.number(), next_at, row.at]
    };
    UPDATE.values(tx, args![claim.to_owned()], rows.iter().map(update).collect()).await
}

pub(crate) async fn insert_attempts(tx: &mut Tx, rows: &[ResultRow]) -> Result<(), StoreError> {
    let insert = |row: &ResultRow| {
        let (number, next) = (row.tries + 1, row.next.next_at);
        args![row.delivery, number, row.attempt, row.at, row.status_code, row.duration_ms, row.outcome, next]
    };
    INSERT.run(tx, args![], rows.iter().map(insert).collect()).await
}

/// The sum of some attempts to an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct EndpointHealth {
    pub(crate) endpoint: EndpointId,
    pub(crate) last_at: Timestamp,
    pub(crate) last_status: Status,
    /// Was one of them delivered?
    pub(crate) recovered: bool,
    /// The first that failed after the last that was delivered.
    pub(crate) failing_since: Option<Timestamp>,
    /// The version of the endpoint to which the last one was delivered: the address may have been changed since.
    pub(crate) delivered_version: Option<i64>,
}

/// Since when an endpoint has been failing.
pub(crate) struct FailingRow {
    pub(crate) id: EndpointId,
    pub(crate) account_id: AccountId,
    pub(crate) version: i64,
    pub(crate) failing_since: Option<Timestamp>,
}

from_row!(FailingRow { id, account_id, version, failing_since });

static HEALTH: BulkStatement = BulkStatement::new(
    "with health (endpoint, ended_at, state, recovered, since, delivered_version) as (values",
    "($a, $b, $c, $d, $e, $f)",
    ") update webhook_endpoints set last_delivery_at = health.ended_at, last_delivery_status = health.state, \
         failing_since = case when health.recovered then health.since \
         else coalesce(webhook_endpoints.failing_since, health.since) end, \
         proven_at = case when webhook_endpoints.version = health.delivered_version \
         then coalesce(webhook_endpoints.proven_at, health.ended_at) else webhook_endpoints.proven_at end from health \
         where webhook_endpoints.id = health.endpoint returning id, account_id, version, failing_since",
);

/// Stores the health of endpoints; returns since when each has been failing.
pub(crate) async fn update_health(
    tx: &mut Tx,
    rows: &[EndpointHealth],
) -> Result<Vec<FailingRow>, StoreError> {
    let update = |row: &EndpointHealth| {
        let EndpointHealth { recovered, failing_since, delivered_version, .. } = *row;
        args![row.endpoint, row.last_at, row.last_status, recovered, failing_since, delivered_version]
    };
    HEALTH.all(tx, args![], rows.iter().map(update).collect()).await
}

/// Attempts of one hour, one outcome and one bucket of the latency histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StatKey {
    pub(crate) account: AccountId,
    pub(crate) endpoint: EndpointId,
    pub(crate) hour: i64,
    pub(crate) outcome: Outcome,
    pub(crate) latency_bucket: i64,
}

static COUNT: BulkStatement = BulkStatement::new(
    "insert into webhook_stats (account_id, endpoint_id, hour, outcome, step, count) values",
    "($a, $b, $c, $d, $e, $f)",
    "on conflict (account_id, endpoint_id, hour, outcome, step) \
         do update set count = webhook_stats.count + excluded.count",
);

/// Adds to the statistics.
pub(crate) async fn add_stats(tx: &mut Tx, rows: &[(StatKey, i64)]) -> Result<(), StoreError> {
    let insert = |(key, count): &(StatKey, i64)| {
        args![key.account, key.endpoint, key.hour, key.outcome, key.latency_bucket, *count]
    };
    COUNT.run(tx, args![], rows.iter().map(insert).collect()).await
}
