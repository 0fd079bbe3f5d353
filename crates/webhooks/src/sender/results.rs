//! Stores the results of attempts, many in one transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, Code, DeliveryId, EndpointId, Hour, Problem, Timestamp};
use portico_store::StoreError;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::attempt::FinishedAttempt;
use super::lock;
use crate::model::{Outcome, Status, Transition, latency_bucket};
use crate::sql::{self, EndpointHealth, ResultRow, StatKey};
use crate::{Webhooks, limits};

/// Why an endpoint is disabled that answered 410.
const GONE: &str = "The receiver answered 410 Gone.";
/// Why an endpoint is disabled that only failed.
const FAILING: &str = "Every delivery failed for 5 days.";

/// An attempt whose result is to be stored.
pub(super) struct AttemptRecord {
    account: AccountId,
    endpoint: EndpointId,
    row: ResultRow,
    ended_at: Timestamp,
    endpoint_version: i64,
    /// `Some` when the receiver answered 410: the transition of the delivery if the endpoint was changed meanwhile.
    if_not_gone: Option<Transition>,
}

impl AttemptRecord {
    /// `if_not_gone` replaces `next` should the endpoint that answered 410 have been changed meanwhile.
    pub(super) fn new(
        engine: &Engine,
        account: AccountId,
        attempt: FinishedAttempt,
        next: Transition,
        if_not_gone: Transition,
    ) -> Self {
        let FinishedAttempt { delivery, endpoint_version, outcome, started_at, duration_ms } = attempt;
        Self {
            account,
            endpoint: delivery.endpoint,
            row: ResultRow {
                delivery: delivery.id,
                tries: delivery.tries,
                status_before: delivery.state.status,
                next,
                attempt: engine.entropy.id(started_at),
                at: started_at,
                status_code: i64::from(outcome.result.status_code),
                duration_ms,
                outcome: outcome.result.outcome,
            },
            ended_at: outcome.ended_at,
            endpoint_version,
            if_not_gone: outcome.gone.then_some(if_not_gone),
        }
    }

    /// The row to store, where these endpoints were disabled.
    fn row_with(&self, disabled: &HashSet<EndpointId>) -> ResultRow {
        let changed = self.if_not_gone.filter(|_| !disabled.contains(&self.endpoint));
        ResultRow { next: changed.unwrap_or(self.row.next), ..self.row.clone() }
    }

    fn is_delivered(&self) -> bool {
        self.row.outcome == Outcome::Delivered
    }
}

/// Stores results until the last worker has ended. What cannot be stored now is stored later; once the server stops, it is
/// tried once more and then dropped: the delivery is still due, and the next server sends it again.
pub(super) async fn write(
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    claim: String,
    mut results: mpsc::UnboundedReceiver<AttemptRecord>,
    stop: watch::Receiver<bool>,
) {
    let mut batch = Vec::with_capacity(limits::RESULTS_MAX);
    while results.recv_many(&mut batch, limits::RESULTS_MAX).await > 0 {
        let written = loop {
            match write_batch(&engine, &claim, &batch).await {
                Ok(written) => break written,
                Err(problem) if problem.code() == Code::Unavailable => {
                    tracing::warn!(%problem, cause = ?problem.cause(), count = batch.len(), "Failed to store delivery results; will try again");
                    if *stop.borrow() {
                        break WriteSummary::default();
                    }
                    engine.clock.sleep(limits::WRITE_PAUSE).await;
                }
                Err(_) => break write_singly(&engine, &claim, &batch).await,
            }
        };
        notify_workers(&webhooks, &batch, &written);
        let count = i64::try_from(batch.len()).unwrap_or(0);
        batch.clear();
        webhooks.metrics.to_write(-count);
        webhooks.sender.notify_progress();
    }
}

/// Tells workers that their results are stored. They refresh when one was not, because its delivery was changed, and when
/// an endpoint was disabled.
fn notify_workers(webhooks: &Webhooks, batch: &[AttemptRecord], written: &WriteSummary) {
    let mut by_account: HashMap<AccountId, (Vec<DeliveryId>, bool)> = HashMap::new();
    for record in batch {
        let (deliveries, refresh) = by_account.entry(record.account).or_default();
        deliveries.push(record.row.delivery);
        *refresh |=
            !written.deliveries.contains(&record.row.delivery) || written.disabled.contains(&record.endpoint);
    }
    for delivery in &written.deliveries {
        // The caller may have gone.
        lock(&webhooks.sender.waiters).remove(delivery).map(|waiter| waiter.send(()));
    }
    let workers = lock(&webhooks.sender.workers);
    for (account, (deliveries, refresh)) in by_account {
        if let Some(worker) = workers.get(&account) {
            worker.results_stored(deliveries, refresh);
        }
    }
}

/// Stores results one by one, because one of them cannot be stored at all. The delivery of that one is ended: were it left,
/// it would be sent again and again.
async fn write_singly(engine: &Arc<Engine>, claim: &str, batch: &[AttemptRecord]) -> WriteSummary {
    let mut written = WriteSummary::default();
    for record in batch {
        let delivery = record.row.delivery;
        let one = std::slice::from_ref(record);
        if let Err(problem) = write_batch(engine, claim, one).await.map(|one| written.extend(one)) {
            tracing::error!(%delivery, %problem, cause = ?problem.cause(), "Failed to store a delivery result");
            if problem.code() != Code::Unavailable
                && let Err(error) = end_delivery(engine, delivery).await
            {
                tracing::error!(%delivery, %error, "Failed to end a delivery whose result cannot be stored");
            }
        }
    }
    written
}

async fn end_delivery(engine: &Engine, delivery: DeliveryId) -> Result<(), StoreError> {
    let mut tx = engine.db.write().await?;
    sql::end_delivery(&mut tx, delivery).await?;
    tx.commit().await
}

/// Which deliveries of a batch were stored, and which endpoints were disabled.
#[derive(Default)]
struct WriteSummary {
    deliveries: HashSet<DeliveryId>,
    disabled: HashSet<EndpointId>,
}

impl WriteSummary {
    fn extend(&mut self, other: Self) {
        self.deliveries.extend(other.deliveries);
        self.disabled.extend(other.disabled);
    }
}

async fn write_batch(
    engine: &Arc<Engine>,
    claim: &str,
    batch: &[AttemptRecord],
) -> Result<WriteSummary, Problem> {
    // What disables an endpoint is stored in the same commit, with the audit entry.
    let mut ctx = Ctx::platform(engine);
    let mut disabled = HashSet::new();
    for record in batch.iter().filter(|each| each.if_not_gone.is_some()) {
        let AttemptRecord { account, endpoint, endpoint_version, .. } = *record;
        disabled.extend(disable(&mut ctx, account, endpoint, endpoint_version, GONE).await?);
    }
    let tx = ctx.tx().await?;
    let mut rows: Vec<_> = batch.iter().map(|record| record.row_with(&disabled)).collect();
    // Always in the same order, so that two transactions never wait for each other.
    rows.sort_by_key(|row| row.delivery);
    let deliveries: HashSet<_> = sql::write_results(tx, claim, &rows).await?.into_iter().collect();
    rows.retain(|row| deliveries.contains(&row.delivery));
    sql::insert_attempts(tx, &rows).await?;
    let stored: Vec<_> = batch.iter().filter(|each| deliveries.contains(&each.row.delivery)).collect();
    let failing = sql::update_health(tx, &health(&stored)).await?;
    sql::add_stats(tx, &stats(&stored)).await?;
    let now = engine.clock.now();
    let too_long = |since: Timestamp| now.since(since) >= limits::FAILING_MAX;
    for row in failing.iter().filter(|row| row.failing_since.is_some_and(too_long)) {
        disabled.extend(disable(&mut ctx, row.account_id, row.id, row.version, FAILING).await?);
    }
    // After the results, which are stored only where the delivery is still as it was read.
    let tx = ctx.tx().await?;
    let accounts: BTreeMap<_, _> = batch.iter().map(|each| (each.endpoint, each.account)).collect();
    for (endpoint, account) in accounts.into_iter().filter(|(endpoint, _)| disabled.contains(endpoint)) {
        sql::end_pending(tx, account, endpoint, limits::PRUNE_ROWS).await?;
    }
    ctx.finish().await?;
    Ok(WriteSummary { deliveries, disabled })
}

/// Sums up the attempts of each endpoint, in the order in which they ended.
fn health(stored: &[&AttemptRecord]) -> Vec<EndpointHealth> {
    let mut ordered = stored.to_vec();
    ordered.sort_by_key(|record| record.ended_at);
    let mut by_endpoint: BTreeMap<EndpointId, EndpointHealth> = BTreeMap::new();
    for record in ordered {
        let (at, delivered) = (record.ended_at, record.is_delivered());
        let status = if delivered { Status::Delivered } else { Status::Failed };
        let health = by_endpoint.entry(record.endpoint).or_insert(EndpointHealth {
            endpoint: record.endpoint,
            last_at: at,
            last_status: status,
            recovered: false,
            failing_since: None,
            delivered_version: None,
        });
        (health.last_at, health.last_status) = (at, status);
        if delivered {
            health.recovered = true;
            health.delivered_version = health.delivered_version.max(Some(record.endpoint_version));
            health.failing_since = None;
        } else {
            // The failure began when the attempt did.
            health.failing_since.get_or_insert(record.row.at);
        }
    }
    by_endpoint.into_values().collect()
}

/// Counts the attempts by hour, outcome and latency.
fn stats(stored: &[&AttemptRecord]) -> Vec<(StatKey, i64)> {
    let mut counts: BTreeMap<StatKey, i64> = BTreeMap::new();
    for record in stored {
        let key = StatKey {
            account: record.account,
            endpoint: record.endpoint,
            hour: Hour::of(record.ended_at).number(),
            outcome: record.row.outcome,
            latency_bucket: latency_bucket(record.row.duration_ms),
        };
        *counts.entry(key).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Disables an endpoint, if it is still of the version that the attempt was made with; returns it if so.
async fn disable(
    ctx: &mut Ctx,
    account: AccountId,
    endpoint: EndpointId,
    version: i64,
    reason: &'static str,
) -> Result<Option<EndpointId>, Problem> {
    if !sql::disable_endpoint(ctx.tx().await?, endpoint, version, reason).await? {
        return Ok(None);
    }
    ctx.set_account(account);
    ctx.audit_with("endpoint.disabled", &endpoint, json!({ "reason": reason }))?;
    tracing::info!(%account, %endpoint, reason, "Disabled an endpoint");
    Ok(Some(endpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::QueueKind;
    use portico_engine::example_id;

    fn record(second: i64, outcome: Outcome) -> AttemptRecord {
        let at = Timestamp::from_seconds(second);
        let next =
            Transition { status: Status::Pending, attempts: 1, queue: QueueKind::Retry, next_at: None };
        AttemptRecord {
            account: example_id(),
            endpoint: example_id(),
            row: ResultRow {
                delivery: example_id(),
                tries: 0,
                status_before: Status::Pending,
                next,
                attempt: example_id(),
                at,
                status_code: 0,
                duration_ms: 1,
                outcome,
            },
            ended_at: at,
            endpoint_version: 1,
            if_not_gone: None,
        }
    }

    fn of(attempts: &[(i64, Outcome)]) -> (bool, Option<i64>, &'static str) {
        let all: Vec<_> = attempts.iter().map(|(at, outcome)| record(*at, *outcome)).collect();
        let health = health(&all.iter().collect::<Vec<_>>());
        assert_eq!(health.len(), 1);
        (
            health[0].recovered,
            health[0].failing_since.map(Timestamp::as_seconds),
            health[0].last_status.name(),
        )
    }

    #[test]
    fn failing_begins_with_the_first_failure_after_the_last_success() {
        use Outcome::{Delivered, Timeout};
        assert_eq!(of(&[(1, Delivered)]), (true, None, "delivered"));
        assert_eq!(of(&[(1, Timeout), (2, Timeout)]), (false, Some(1), "failed"));
        assert_eq!(
            of(&[(1, Timeout), (2, Delivered), (3, Timeout), (4, Timeout)]),
            (true, Some(3), "failed")
        );
        assert_eq!(
            of(&[(4, Timeout), (2, Delivered), (1, Timeout), (3, Timeout)]),
            (true, Some(3), "failed")
        );
    }
}
