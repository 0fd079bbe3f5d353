//! What came of attempts is written, many at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use portico_engine::{Ctx, Engine};
use portico_kernel::{AccountId, Code, DeliveryId, EndpointId, Hour, Problem, Timestamp};
use portico_store::StoreError;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::attempt::Done;
use super::lock;
use crate::model::{After, Outcome, Status, step_of};
use crate::sql::{self, Health, ResultRow, StatKey};
use crate::{Webhooks, limits};

/// Why an endpoint is disabled whose receiver said that it is gone.
const GONE: &str = "The receiver answered 410 Gone.";
/// Why one is that only failed.
const FAILING: &str = "Every delivery failed for 5 days.";

/// An attempt that is to be written.
pub(super) struct Finished {
    account: AccountId,
    endpoint: EndpointId,
    row: ResultRow,
    ended_at: Timestamp,
    version: i64,
    /// Did the receiver say that it is gone? What comes of the delivery if the endpoint was changed meanwhile.
    gone: Option<After>,
}

impl Finished {
    /// `after` is what the delivery comes to, and what it would if its endpoint were not gone after all.
    pub(super) fn new(
        engine: &Engine,
        account: AccountId,
        done: Done,
        (after, if_not_gone): (After, After),
    ) -> Self {
        let Done { due, version, ended, began_at, duration_ms } = done;
        Self {
            account,
            endpoint: due.endpoint,
            row: ResultRow {
                delivery: due.id,
                tries: due.tries,
                was: due.before.status,
                after,
                attempt: engine.entropy.id(began_at),
                at: began_at,
                status_code: i64::from(ended.status_code),
                duration_ms,
                outcome: ended.outcome,
            },
            ended_at: ended.at,
            version,
            gone: ended.gone.then_some(if_not_gone),
        }
    }

    /// What is written, where these endpoints were disabled.
    fn row_with(&self, disabled: &HashSet<EndpointId>) -> ResultRow {
        let after = self.gone.filter(|_| !disabled.contains(&self.endpoint)).unwrap_or(self.row.after);
        ResultRow { after, ..self.row.clone() }
    }

    fn is_delivered(&self) -> bool {
        self.row.outcome == Outcome::Delivered
    }
}

/// Writes results until nobody makes any more. What cannot be written now is written later; once the server stops, it is
/// tried once more and then left: the delivery is still due, and the next server sends it again.
pub(super) async fn write(
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    claim: String,
    mut results: mpsc::UnboundedReceiver<Finished>,
    stop: watch::Receiver<bool>,
) {
    let mut batch = Vec::with_capacity(limits::RESULTS_MAX);
    while results.recv_many(&mut batch, limits::RESULTS_MAX).await > 0 {
        let written = loop {
            match write_batch(&engine, &claim, &batch).await {
                Ok(written) => break written,
                Err(problem) if problem.code() == Code::Unavailable => {
                    tracing::warn!(%problem, cause = ?problem.cause(), count = batch.len(), "Results cannot be written yet");
                    if *stop.borrow() {
                        break Written::default();
                    }
                    engine.clock.sleep(limits::WRITE_PAUSE).await;
                }
                Err(_) => break write_singly(&engine, &claim, &batch).await,
            }
        };
        tell(&webhooks, &batch, &written);
        let count = i64::try_from(batch.len()).unwrap_or(0);
        batch.clear();
        webhooks.metrics.to_write(-count);
        webhooks.sender.moved();
    }
}

/// Tells couriers that their results are written. They look again at what was not, because another changed it, and at
/// endpoints that were disabled by it.
fn tell(webhooks: &Webhooks, batch: &[Finished], written: &Written) {
    let mut by_account: HashMap<AccountId, (Vec<DeliveryId>, bool)> = HashMap::new();
    for finished in batch {
        let (deliveries, look) = by_account.entry(finished.account).or_default();
        deliveries.push(finished.row.delivery);
        *look |= !written.deliveries.contains(&finished.row.delivery)
            || written.disabled.contains(&finished.endpoint);
    }
    for delivery in &written.deliveries {
        // Whoever waited may have left.
        lock(&webhooks.sender.waiting).remove(delivery).map(|waiting| waiting.send(()));
    }
    let couriers = lock(&webhooks.sender.couriers);
    for (account, (deliveries, look)) in by_account {
        if let Some(mailbox) = couriers.get(&account) {
            mailbox.written(deliveries, look);
        }
    }
}

/// One of the results cannot be written at all. The others are, and that delivery ends: were it left, it would be sent
/// again and again.
async fn write_singly(engine: &Arc<Engine>, claim: &str, batch: &[Finished]) -> Written {
    let mut written = Written::default();
    for finished in batch {
        let delivery = finished.row.delivery;
        let one = std::slice::from_ref(finished);
        if let Err(problem) = write_batch(engine, claim, one).await.map(|one| written.extend(one)) {
            tracing::error!(%delivery, %problem, cause = ?problem.cause(), "A result cannot be written");
            if problem.code() != Code::Unavailable
                && let Err(error) = end(engine, delivery).await
            {
                tracing::error!(%delivery, %error, "Nor can the delivery be ended");
            }
        }
    }
    written
}

async fn end(engine: &Engine, delivery: DeliveryId) -> Result<(), StoreError> {
    let mut tx = engine.db.write().await?;
    sql::end_one(&mut tx, delivery).await?;
    tx.commit().await
}

/// What a batch came to.
#[derive(Default)]
struct Written {
    deliveries: HashSet<DeliveryId>,
    disabled: HashSet<EndpointId>,
}

impl Written {
    fn extend(&mut self, other: Self) {
        self.deliveries.extend(other.deliveries);
        self.disabled.extend(other.disabled);
    }
}

async fn write_batch(engine: &Arc<Engine>, claim: &str, batch: &[Finished]) -> Result<Written, Problem> {
    // What disables an endpoint is written with it, and with the audit entry.
    let mut ctx = Ctx::platform(engine);
    let mut disabled = HashSet::new();
    for finished in batch.iter().filter(|each| each.gone.is_some()) {
        disabled
            .extend(disable(&mut ctx, finished.account, (finished.endpoint, finished.version), GONE).await?);
    }
    let tx = ctx.tx().await?;
    let mut rows: Vec<_> = batch.iter().map(|finished| finished.row_with(&disabled)).collect();
    // Always in the same order, so that two transactions never wait for each other.
    rows.sort_by_key(|row| row.delivery);
    let deliveries: HashSet<_> = sql::write_results(tx, claim, &rows).await?.into_iter().collect();
    rows.retain(|row| deliveries.contains(&row.delivery));
    sql::insert_attempts(tx, &rows).await?;
    let kept: Vec<_> = batch.iter().filter(|each| deliveries.contains(&each.row.delivery)).collect();
    let failing = sql::note_health(tx, &health(&kept)).await?;
    sql::count(tx, &counts(&kept)).await?;
    let now = engine.clock.now();
    let too_long = |since: Timestamp| now.since(since) >= limits::FAILING_MAX;
    for row in failing.iter().filter(|row| row.failing_since.is_some_and(too_long)) {
        disabled.extend(disable(&mut ctx, row.account_id, (row.id, row.version), FAILING).await?);
    }
    // Only now, since what was written above stood as it was read.
    let tx = ctx.tx().await?;
    let of: BTreeMap<_, _> = batch.iter().map(|each| (each.endpoint, each.account)).collect();
    for (endpoint, account) in of.into_iter().filter(|(endpoint, _)| disabled.contains(endpoint)) {
        sql::end_pending(tx, account, endpoint, limits::PRUNE_ROWS).await?;
    }
    ctx.finish().await?;
    Ok(Written { deliveries, disabled })
}

/// What the attempts say of each endpoint, in the order in which they ended.
fn health(kept: &[&Finished]) -> Vec<Health> {
    let mut ordered = kept.to_vec();
    ordered.sort_by_key(|finished| finished.ended_at);
    let mut by_endpoint: BTreeMap<EndpointId, Health> = BTreeMap::new();
    for finished in ordered {
        let (at, delivered) = (finished.ended_at, finished.is_delivered());
        let status = if delivered { Status::Delivered } else { Status::Failed };
        let health = by_endpoint.entry(finished.endpoint).or_insert(Health {
            endpoint: finished.endpoint,
            last_at: at,
            last_status: status,
            recovered: false,
            failing_since: None,
        });
        (health.last_at, health.last_status) = (at, status);
        if delivered {
            health.recovered = true;
            health.failing_since = None;
        } else {
            // It began to fail when the attempt did.
            health.failing_since.get_or_insert(finished.row.at);
        }
    }
    by_endpoint.into_values().collect()
}

fn counts(kept: &[&Finished]) -> Vec<(StatKey, i64)> {
    let mut counts: BTreeMap<StatKey, i64> = BTreeMap::new();
    for finished in kept {
        let key = StatKey {
            account: finished.account,
            endpoint: finished.endpoint,
            hour: Hour::of(finished.ended_at).number(),
            outcome: finished.row.outcome,
            step: step_of(finished.row.duration_ms),
        };
        *counts.entry(key).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Disables an endpoint, if it is still as it was when the attempt was made; answers which it disabled.
async fn disable(
    ctx: &mut Ctx,
    account: AccountId,
    (endpoint, version): (EndpointId, i64),
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
    use crate::model::Lane;
    use portico_engine::example_id;

    fn finished(second: i64, outcome: Outcome) -> Finished {
        let at = Timestamp::from_seconds(second);
        let after = After { status: Status::Pending, attempts: 1, lane: Lane::Again, next_at: None };
        Finished {
            account: example_id(),
            endpoint: example_id(),
            row: ResultRow {
                delivery: example_id(),
                tries: 0,
                was: Status::Pending,
                after,
                attempt: example_id(),
                at,
                status_code: 0,
                duration_ms: 1,
                outcome,
            },
            ended_at: at,
            version: 1,
            gone: None,
        }
    }

    fn of(attempts: &[(i64, Outcome)]) -> (bool, Option<i64>, &'static str) {
        let all: Vec<_> = attempts.iter().map(|(at, outcome)| finished(*at, *outcome)).collect();
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
