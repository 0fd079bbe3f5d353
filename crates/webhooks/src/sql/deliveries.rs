//! How deliveries are made, read, and sent again by hand.

use portico_engine::ports::StoredEvent;
use portico_kernel::{AccountId, AttemptId, DeliveryId, EndpointId, EventId, Timestamp};
use portico_store::{BulkStatement, Select, StoreError, Tx, args, from_row};

use crate::limits;
use crate::model::{Lane, Outcome, Status};

/// A delivery that was just made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MadeRow {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint_id: EndpointId,
    pub(crate) sequence: i64,
}

from_row!(MadeRow { id, endpoint_id, sequence });

/// The id of a delivery: that of event `e`, whose last three characters give way to the tag of endpoint `p`. The same as
/// [`delivery_id`](crate::testing::delivery_id).
macro_rules! delivery_id {
    () => {
        "'whd_' || substr(e.id, 5, 23) || p.tag"
    };
}

/// Makes pending deliveries of events `e` for endpoints `p`; `$1` is the time, `$2` the type that keeps its order.
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
static FILL: BulkStatement = BulkStatement::new(
    "with e (id, sequence, type) as (values",
    "($a, $b, $c)",
    concat!(
        ") ",
        insert_deliveries!(
            "e join webhook_subscriptions s on s.account_id = $3 and s.event_type = e.type \
                 join webhook_endpoints p on p.id = s.endpoint_id where p.enabled returning id, endpoint_id, sequence"
        )
    ),
);

/// Makes a delivery of each of the events for each enabled endpoint that subscribes its type.
pub(crate) async fn fill(
    tx: &mut Tx,
    account: AccountId,
    events: &[StoredEvent],
    now: Timestamp,
) -> Result<Vec<MadeRow>, StoreError> {
    let shared = args![now, Lane::ORDERED_TYPE.to_owned(), account];
    let row = |event: &StoredEvent| args![event.id, event.sequence, event.event_type.to_owned()];
    FILL.all(tx, shared, events.iter().map(row).collect()).await
}

/// Makes a delivery of the event for that endpoint, if it is enabled, whatever it subscribes.
pub(crate) async fn fill_one(
    tx: &mut Tx,
    account: AccountId,
    sequence: i64,
    endpoint: EndpointId,
    now: Timestamp,
) -> Result<Vec<MadeRow>, StoreError> {
    tx.all(
        insert_deliveries!(
            "events e join webhook_endpoints p on p.account_id = e.account_id \
             where e.account_id = $3 and e.sequence = $4 and p.id = $5 and p.enabled \
             returning id, endpoint_id, sequence"
        ),
        args![now, Lane::ORDERED_TYPE.to_owned(), account, sequence, endpoint],
    )
    .await
}

/// The numbers of those of the account's events, in that time, of which a delivery for the endpoint was never made.
pub(crate) async fn missed(
    tx: &mut Tx,
    (account, endpoint): (AccountId, EndpointId),
    (since, until): (Timestamp, Timestamp),
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
            args![account, endpoint, since, until, limit],
        )
        .await
}

static FILL_MISSED: BulkStatement = BulkStatement::new(
    insert_deliveries!(
        "events e join webhook_endpoints p on p.account_id = e.account_id \
             where e.account_id = $3 and p.id = $4 and p.enabled and e.sequence in ("
    ),
    "$a",
    ") on conflict (id) do nothing",
);

/// Makes deliveries of the events of these numbers for the endpoint, whatever it subscribes.
pub(crate) async fn fill_missed(
    tx: &mut Tx,
    (account, endpoint): (AccountId, EndpointId),
    sequences: &[i64],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let shared = args![now, Lane::ORDERED_TYPE.to_owned(), account, endpoint];
    FILL_MISSED.execute(tx, shared, sequences.iter().map(|sequence| args![*sequence]).collect()).await
}

/// The endpoint's deliveries of events in that time that failed: they have ended, or wait to be tried again.
pub(crate) async fn failed(
    tx: &mut Tx,
    (account, endpoint): (AccountId, EndpointId),
    (since, until): (Timestamp, Timestamp),
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
            args![account, endpoint, since, until, now, limit],
        )
        .await
}

static RESEND: BulkStatement = BulkStatement::new(
    "update webhook_deliveries set attempts = case when status = 'pending' then attempts else 0 end, \
         lane = case when event_type = $2 then 2 when status = 'pending' then 1 else 0 end, \
         status = 'pending', next_at = $1 where status <> 'delivered' and (next_at is null or next_at > $1) and id in (",
    "$a",
    ")",
);

/// Sends these again, if they are not delivered yet: what has ended gets a schedule of its own anew, what waits is sent
/// at once.
pub(crate) async fn resend(tx: &mut Tx, ids: &[DeliveryId], now: Timestamp) -> Result<u64, StoreError> {
    let shared = args![now, Lane::ORDERED_TYPE.to_owned()];
    RESEND.execute(tx, shared, ids.iter().map(|id| args![*id]).collect()).await
}

/// Lets a delivery be sent at once.
pub(crate) async fn send_now(
    tx: &mut Tx,
    id: DeliveryId,
    lane: Lane,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "update webhook_deliveries set next_at = $2, lane = $3 where id = $1",
        args![id, now, lane.number()],
    )
    .await
}

/// A delivery as it is on record.
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

/// The endpoint's deliveries since `since` and before that one, newest first.
pub(crate) async fn deliveries_before(
    tx: &mut Tx,
    endpoint: EndpointId,
    since: Timestamp,
    (before, before_id): (Timestamp, &str),
    limit: i64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    tx.all(
        "select id, account_id, endpoint_id, event_id, event_type, created_at, status, next_at \
         from webhook_deliveries where endpoint_id = $1 and created_at >= $2 and (created_at, id) < ($3, $4) \
         order by created_at desc, id desc limit $5",
        args![endpoint, since, before, before_id.to_owned(), limit],
    )
    .await
}

/// An attempt as it is on record.
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

/// The attempts at these deliveries that are still on record.
pub(crate) async fn attempts(
    tx: &mut Tx,
    deliveries: &[DeliveryId],
    now: Timestamp,
) -> Result<Vec<AttemptRow>, StoreError> {
    let shared = args![now - limits::HISTORY_LIFE];
    ATTEMPTS.all(tx, shared, deliveries.iter().map(|id| args![*id]).collect()).await
}

/// Ends up to `limit` deliveries of the endpoint that wait, if it is disabled: whoever read so may not know that it was
/// enabled since. Those of one that was deleted go with it.
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
pub(crate) async fn end_one(tx: &mut Tx, id: DeliveryId) -> Result<(), StoreError> {
    tx.run(
        "update webhook_deliveries set status = case when status = 'pending' then 'failed' else status end, \
         next_at = null where id = $1",
        args![id],
    )
    .await
}
