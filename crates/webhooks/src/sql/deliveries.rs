//! Deliveries: inserted with their events, read, and sent again by hand.

use portico_engine::ports::NewEvent;
use portico_kernel::{AccountId, AttemptId, DeliveryId, EndpointId, EventId, Timestamp};
use portico_store::{BulkStatement, PendingRows, Select, StoreError, Tx, args, from_row};

use super::{EndpointKey, TimeRange};
use crate::limits;
use crate::model::{Outcome, QueueKind, Status};

/// A delivery that was just inserted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewDeliveryRow {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint_id: EndpointId,
    pub(crate) event_id: EventId,
}

from_row!(NewDeliveryRow { id, endpoint_id, event_id });

/// The id of a delivery: that of event `e`, whose last three characters are replaced by the tag of endpoint `p`.
macro_rules! delivery_id {
    () => {
        "'whd_' || substr(e.id, 5, 23) || p.tag"
    };
}

/// Inserts pending deliveries of events `e` for endpoints `p`; `$1` is the time, `$2` the type that is sent in order.
macro_rules! insert_deliveries {
    ($rest:literal) => {
        concat!(
            "insert into webhook_deliveries (id, account_id, endpoint_id, sequence, event_id, event_type, created_at, \
             status, attempts, tries, lane, next_at) \
             select ",
            delivery_id!(),
            ", p.account_id, p.id, e.sequence, e.id, e.type, $1, 'pending', 0, 0, \
             case when e.type = $2 then 2 else 0 end, $1 from ",
            $rest
        )
    };
}

/// From the events' own values, since a planner that knows nothing of a new table would look through all of them.
static INSERT: BulkStatement = BulkStatement::new(
    "with e (id, sequence, type) as (values",
    "($a, (select last from account_sequences where account_id = $3) - $b, $c)",
    concat!(
        ") ",
        insert_deliveries!(
            "e join webhook_subscriptions s on s.account_id = $3 and s.event_type = e.type \
                 join webhook_endpoints p on p.id = s.endpoint_id where p.enabled \
                 and not exists (select 1 from webhook_holds h where h.endpoint_id = p.id) \
                 returning id, endpoint_id, event_id"
        )
    ),
);

/// Inserts a delivery of each of the events for each enabled endpoint that subscribes its type and whose deliveries
/// are not held back.
pub(crate) async fn insert_deliveries(
    tx: &mut Tx,
    account: AccountId,
    events: &[NewEvent],
    now: Timestamp,
) -> Result<Vec<PendingRows>, StoreError> {
    let shared = args![now, QueueKind::ORDERED_TYPE.to_owned(), account];
    let row = |event: &NewEvent| args![event.id, event.behind, event.event_type.to_string()];
    INSERT.run_for_rows(tx, shared, events.iter().map(row).collect()).await
}

/// Inserts a delivery of the event for that endpoint, if it is enabled, whatever it subscribes.
pub(crate) async fn insert_delivery(
    tx: &mut Tx,
    account: AccountId,
    event: EventId,
    endpoint: EndpointId,
    now: Timestamp,
) -> Result<PendingRows, StoreError> {
    tx.run_for_rows(
        insert_deliveries!(
            "events e join webhook_endpoints p on p.account_id = e.account_id \
             where e.account_id = $3 and e.id = $4 and p.id = $5 and p.enabled \
             returning id, endpoint_id, event_id"
        ),
        args![now, QueueKind::ORDERED_TYPE.to_owned(), account, event, endpoint],
    )
    .await
}

/// The numbers of the account's events, in that time, of which a delivery for the endpoint was never made.
pub(crate) async fn missed_events(
    tx: &mut Tx,
    key: EndpointKey,
    range: TimeRange,
    limit: i64,
) -> Result<Vec<i64>, StoreError> {
    tx
        .values(
            concat!(
                "select e.sequence as value from events e \
             join webhook_subscriptions s on s.account_id = e.account_id and s.event_type = e.type \
             join webhook_endpoints p on p.id = s.endpoint_id \
             where e.account_id = $1 and p.id = $2 and e.occurred_at >= $3 and e.occurred_at < $4 and not exists \
             (select 1 from webhook_deliveries d where d.id = ",
                delivery_id!(),
                ") order by e.occurred_at, e.sequence limit $5"
            ),
            args![key.account, key.endpoint, range.since, range.until, limit],
        )
        .await
}

static INSERT_MISSED: BulkStatement = BulkStatement::new(
    insert_deliveries!(
        "events e join webhook_endpoints p on p.account_id = e.account_id \
             where e.account_id = $3 and p.id = $4 and p.enabled and e.sequence in ("
    ),
    "$a",
    ") on conflict (id) do nothing",
);

/// Inserts deliveries of the events of these numbers for the endpoint, whatever it subscribes; returns how many.
pub(crate) async fn insert_missed(
    tx: &mut Tx,
    key: EndpointKey,
    sequences: &[i64],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let shared = args![now, QueueKind::ORDERED_TYPE.to_owned(), key.account, key.endpoint];
    INSERT_MISSED.execute(tx, shared, sequences.iter().map(|sequence| args![*sequence]).collect()).await
}

/// Inserts the endpoint's deliveries of events with numbers from `after`, excluded, to `last`, included, as if they had
/// been inserted with the events.
pub(crate) async fn insert_held(
    tx: &mut Tx,
    key: EndpointKey,
    after: i64,
    last: i64,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        insert_deliveries!(
            "events e join webhook_subscriptions s on s.account_id = e.account_id and s.event_type = e.type \
             join webhook_endpoints p on p.id = s.endpoint_id where e.account_id = $3 and p.id = $4 and p.enabled \
             and e.sequence > $5 and e.sequence <= $6 on conflict (id) do nothing"
        ),
        args![now, QueueKind::ORDERED_TYPE.to_owned(), key.account, key.endpoint, after, last],
    )
    .await
}

/// The endpoint's deliveries of events in that time that failed: they have ended, or wait for a retry.
pub(crate) async fn failed_deliveries(
    tx: &mut Tx,
    key: EndpointKey,
    range: TimeRange,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DeliveryId>, StoreError> {
    tx
        .values(
            "select d.id as value from webhook_deliveries d \
             join events e on e.account_id = d.account_id and e.sequence = d.sequence \
             where d.account_id = $1 and d.endpoint_id = $2 and d.created_at >= $3 and e.occurred_at >= $3 \
             and e.occurred_at < $4 and (d.status = 'failed' or d.status = 'abandoned' \
             or (d.status = 'pending' and d.attempts > 0 and d.next_at > $5)) order by d.created_at, d.id limit $6",
            args![key.account, key.endpoint, range.since, range.until, now, limit],
        )
        .await
}

static RESEND: BulkStatement = BulkStatement::new(
    "update webhook_deliveries set attempts = case when status = 'pending' then attempts else 0 end, \
         lane = case when event_type = $2 then 2 when status = 'pending' then 1 else 0 end, \
         by_hand = (status = 'pending'), status = 'pending', next_at = $1 where status <> 'delivered' and (next_at is null or next_at > $1) and id in (",
    "$a",
    ")",
);

/// Makes these due again, if they are not delivered yet: what has ended begins its schedule anew, what is pending is sent
/// at once. Returns how many.
pub(crate) async fn resend(tx: &mut Tx, ids: &[DeliveryId], now: Timestamp) -> Result<u64, StoreError> {
    let shared = args![now, QueueKind::ORDERED_TYPE.to_owned()];
    RESEND.execute(tx, shared, ids.iter().map(|id| args![*id]).collect()).await
}

/// Makes a delivery due now, in that queue, for an attempt by hand.
pub(crate) async fn send_now(
    tx: &mut Tx,
    id: DeliveryId,
    queue: QueueKind,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "update webhook_deliveries set next_at = $2, lane = $3, by_hand = true where id = $1",
        args![id, now, queue.number()],
    )
    .await
}

/// A delivery as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryRow {
    pub(crate) id: DeliveryId,
    pub(crate) account_id: AccountId,
    pub(crate) endpoint_id: EndpointId,
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) created_at: Timestamp,
    pub(crate) status: Status,
    pub(crate) next_at: Option<Timestamp>,
}

from_row!(DeliveryRow { id, account_id, endpoint_id, event_id, event_type, created_at, status, next_at });

/// The delivery of that id, in whichever account.
pub(crate) async fn delivery(tx: &mut Tx, id: DeliveryId) -> Result<Option<DeliveryRow>, StoreError> {
    tx.first(
        "select id, account_id, endpoint_id, event_id, event_type, created_at, status, next_at \
         from webhook_deliveries where id = $1",
        args![id],
    )
    .await
}

/// Where a page of deliveries ended.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryPosition {
    pub(crate) created_at: Timestamp,
    /// The id of the last delivery; empty to begin with the newest.
    pub(crate) id: String,
}

/// The endpoint's deliveries since `since` and before that position, newest first.
pub(crate) async fn deliveries_before(
    tx: &mut Tx,
    endpoint: EndpointId,
    since: Timestamp,
    before: &DeliveryPosition,
    limit: i64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    tx.all(
        "select id, account_id, endpoint_id, event_id, event_type, created_at, status, next_at \
         from webhook_deliveries where endpoint_id = $1 and created_at >= $2 and (created_at, id) < ($3, $4) \
         order by created_at desc, id desc limit $5",
        args![endpoint, since, before.created_at, before.id, limit],
    )
    .await
}

/// An attempt as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct AttemptRow {
    pub(crate) delivery_id: DeliveryId,
    pub(crate) number: i64,
    pub(crate) id: AttemptId,
    pub(crate) at: Timestamp,
    pub(crate) status_code: i64,
    pub(crate) duration_ms: i64,
    pub(crate) outcome: Outcome,
    pub(crate) next_retry_at: Option<Timestamp>,
}

from_row!(AttemptRow { delivery_id, number, id, at, status_code, duration_ms, outcome, next_retry_at });

static ATTEMPTS: BulkStatement = BulkStatement::new(
    "select delivery_id, number, id, at, status_code, duration_ms, outcome, next_retry_at from webhook_attempts \
         where at > $1 and delivery_id in (",
    "$a",
    ") order by delivery_id, number",
);

/// The attempts at these deliveries that are still kept.
pub(crate) async fn attempts(
    tx: &mut Tx,
    deliveries: &[DeliveryId],
    now: Timestamp,
) -> Result<Vec<AttemptRow>, StoreError> {
    let shared = args![now - limits::HISTORY_LIFE];
    ATTEMPTS.all(tx, shared, deliveries.iter().map(|id| args![*id]).collect()).await
}

/// Ends up to `limit` pending deliveries of the endpoint, if it is disabled: it may have been enabled since it was read.
/// Those of an endpoint that was deleted are removed with it. Returns how many were ended.
pub(crate) async fn end_pending(
    tx: &mut Tx,
    account: AccountId,
    endpoint: EndpointId,
    limit: i64,
) -> Result<u64, StoreError> {
    tx.execute(
        "update webhook_deliveries set status = case when status = 'pending' then 'failed' else status end, \
         next_at = null where id in (select id from webhook_deliveries where account_id = $1 and endpoint_id = $2 \
         and next_at is not null and exists (select 1 from webhook_endpoints p where p.id = $2 and p.enabled = $4 \
         and p.deleted_at is null) \
         limit $3)",
        args![account, endpoint, limit, false],
    )
    .await
}

/// Ends a delivery that cannot be sent.
pub(crate) async fn end_delivery(tx: &mut Tx, id: DeliveryId) -> Result<(), StoreError> {
    tx.run(
        "update webhook_deliveries set status = case when status = 'pending' then 'failed' else status end, \
         next_at = null where id = $1",
        args![id],
    )
    .await
}
