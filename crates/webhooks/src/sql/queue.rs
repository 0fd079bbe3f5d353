//! Claims on accounts, and the queues of due deliveries. The column `lane` holds a [`QueueKind`], `place` the position
//! in that queue.

use portico_kernel::{AccountId, DeliveryId, EndpointId, EventId, Timestamp};
use portico_store::{BulkStatement, Query, Select, StoreError, Tx, args, from_row};

use super::EndpointKey;
use crate::model::{QueueKind, Status};

/// The first delivery of each queue, found by skipping from one queue to the next (a loose index scan): however many
/// deliveries a queue has, it is one step. The next queue is one of the same endpoint, or of the next endpoint, or of the
/// next account; in three subqueries, because neither database skips by a comparison of three columns at once.
macro_rules! queue_heads {
    ($where:literal, $beyond:literal, $rest:literal) => {
        concat!(
            "with recursive heads (account_id, endpoint_id, lane, next_at) as (select account_id, endpoint_id, lane, \
             next_at from (select account_id, endpoint_id, lane, next_at from webhook_deliveries where ",
            $where,
            " next_at is not null order by account_id, endpoint_id, lane, place limit 1) as one \
             union all select d.account_id, d.endpoint_id, d.lane, d.next_at from heads a \
             join webhook_deliveries d on d.id = coalesce(\
             (select n.id from webhook_deliveries n where n.next_at is not null and n.account_id = a.account_id \
             and n.endpoint_id = a.endpoint_id and n.lane > a.lane order by n.lane, n.place limit 1), \
             (select n.id from webhook_deliveries n where n.next_at is not null and n.account_id = a.account_id \
             and n.endpoint_id > a.endpoint_id order by n.endpoint_id, n.lane, n.place limit 1)",
            $beyond,
            ")) ",
            $rest
        )
    };
}

/// The accounts with due deliveries that no other server has claimed.
pub(crate) async fn due_accounts(
    query: &mut Query<'_>,
    claim: &str,
    now: Timestamp,
) -> Result<Vec<AccountId>, StoreError> {
    query
        .values(
            queue_heads!(
                "",
                ", (select n.id from webhook_deliveries n where n.next_at is not null and n.account_id > a.account_id \
                 order by n.account_id, n.endpoint_id, n.lane, n.place limit 1)",
                "select distinct a.account_id as value from heads a \
                 left join webhook_queues q on q.account_id = a.account_id where a.next_at <= $1 \
                 and (q.account_id is null or q.claimed_until <= $1 or q.claim = $2)"
            ),
            args![now, claim.to_owned()],
        )
        .await
}

/// When the first delivery of a queue is due.
pub(crate) struct QueueHeadRow {
    pub(crate) endpoint_id: EndpointId,
    pub(crate) lane: i64,
    pub(crate) next_at: Timestamp,
}

from_row!(QueueHeadRow { endpoint_id, lane, next_at });

/// Every queue of the account that has a pending delivery.
pub(crate) async fn queue_heads(
    query: &mut Query<'_>,
    account: AccountId,
) -> Result<Vec<QueueHeadRow>, StoreError> {
    query
        .all(
            queue_heads!("account_id = $1 and", "", "select endpoint_id, lane, next_at from heads"),
            args![account],
        )
        .await
}

static CLAIM: BulkStatement = BulkStatement::new(
    "insert into webhook_queues (account_id, claim, claimed_until) values",
    "($a, $1, $2)",
    "on conflict (account_id) do update set claim = excluded.claim, claimed_until = excluded.claimed_until \
         where webhook_queues.claimed_until <= $3 or webhook_queues.claim = $1 returning account_id as value",
);

/// Claims those of the accounts that no other server has claimed; returns which.
pub(crate) async fn claim_accounts(
    tx: &mut Tx,
    accounts: &[AccountId],
    claim: &str,
    until: Timestamp,
    now: Timestamp,
) -> Result<Vec<AccountId>, StoreError> {
    let shared = args![claim.to_owned(), until, now];
    CLAIM.values(tx, shared, accounts.iter().map(|account| args![*account]).collect()).await
}

/// Renews the claims until `until`; returns the accounts.
pub(crate) async fn renew_claims(
    tx: &mut Tx,
    claim: &str,
    until: Timestamp,
) -> Result<Vec<AccountId>, StoreError> {
    tx.values(
        "update webhook_queues set claimed_until = $2 where claim = $1 returning account_id as value",
        args![claim.to_owned(), until],
    )
    .await
}

pub(crate) async fn release_claim(tx: &mut Tx, claim: &str, account: AccountId) -> Result<(), StoreError> {
    tx.run(
        "delete from webhook_queues where claim = $1 and account_id = $2",
        args![claim.to_owned(), account],
    )
    .await
}

pub(crate) async fn release_claims(tx: &mut Tx, claim: &str) -> Result<u64, StoreError> {
    tx.execute("delete from webhook_queues where claim = $1", args![claim.to_owned()]).await
}

/// Deletes every claim; right only where no other process can hold one.
pub(crate) async fn delete_all_claims(tx: &mut Tx) -> Result<u64, StoreError> {
    tx.execute("delete from webhook_queues", args![]).await
}

/// A delivery that is to be sent.
pub(crate) struct PendingDeliveryRow {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint_id: EndpointId,
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) status: Status,
    pub(crate) attempts: i64,
    pub(crate) tries: i64,
    pub(crate) by_hand: bool,
    pub(crate) next_at: Timestamp,
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) data: Option<String>,
}

from_row!(PendingDeliveryRow {
    id,
    endpoint_id,
    event_id,
    event_type,
    status,
    attempts,
    tries,
    by_hand,
    next_at,
    occurred_at,
    data,
});

macro_rules! select_pending {
    ($rest:literal) => {
        concat!(
            "select d.id, d.endpoint_id, d.event_id, d.event_type, d.status, d.attempts, d.tries, d.by_hand, d.next_at, \
             e.occurred_at, e.data from webhook_deliveries d \
             left join events e on e.account_id = d.account_id and e.sequence = d.sequence \
             where d.account_id = $1 and d.endpoint_id = $2 and ",
            $rest
        )
    };
}

/// The due deliveries of a queue, longest due first; in the ordered queue its first deliveries, due or not.
pub(crate) async fn pending_deliveries(
    query: &mut Query<'_>,
    key: EndpointKey,
    kind: QueueKind,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<PendingDeliveryRow>, StoreError> {
    let EndpointKey { account, endpoint } = key;
    if kind == QueueKind::Ordered {
        return query
            .all(
                select_pending!("d.lane = $3 and d.next_at is not null order by d.place limit $4"),
                args![account, endpoint, kind.number(), limit],
            )
            .await;
    }
    query
        .all(
            select_pending!(
                "d.lane = $3 and d.next_at is not null and d.place <= $4 order by d.place limit $5"
            ),
            args![account, endpoint, kind.number(), now, limit],
        )
        .await
}
