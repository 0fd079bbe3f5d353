//! Who sends what, and what is due.

use portico_kernel::{AccountId, DeliveryId, EndpointId, EventId, Timestamp};
use portico_store::{BulkStatement, Query, Select, StoreError, Tx, args, from_row};

use crate::model::{Lane, Status};

/// The first delivery of each lane, found by leaping from one lane to the next: however many deliveries wait in a lane,
/// it is one step. The next lane is one of the same endpoint, or of the next endpoint, or of the next account; asked for
/// in three questions, because neither database leaps by a comparison of three columns at once.
macro_rules! agenda {
    ($where:literal, $beyond:literal, $rest:literal) => {
        concat!(
            "with recursive agenda (account_id, endpoint_id, lane, next_at) as (select account_id, endpoint_id, lane, \
             next_at from (select account_id, endpoint_id, lane, next_at from webhook_deliveries where ",
            $where,
            " next_at is not null order by account_id, endpoint_id, lane, place limit 1) as one \
             union all select d.account_id, d.endpoint_id, d.lane, d.next_at from agenda a \
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

/// The accounts with something due that nobody else sends.
pub(crate) async fn due_accounts(
    query: &mut Query<'_>,
    claim: &str,
    now: Timestamp,
) -> Result<Vec<AccountId>, StoreError> {
    query
        .values(
            agenda!(
                "",
                ", (select n.id from webhook_deliveries n where n.next_at is not null and n.account_id > a.account_id \
                 order by n.account_id, n.endpoint_id, n.lane, n.place limit 1)",
                "select distinct a.account_id as value from agenda a \
                 left join webhook_queues q on q.account_id = a.account_id where a.next_at <= $1 \
                 and (q.account_id is null or q.claimed_until <= $1 or q.claim = $2)"
            ),
            args![now, claim.to_owned()],
        )
        .await
}

/// When the first delivery of a lane is due.
pub(crate) struct AgendaRow {
    pub(crate) endpoint_id: EndpointId,
    pub(crate) lane: i64,
    pub(crate) next_at: Timestamp,
}

from_row!(AgendaRow { endpoint_id, lane, next_at });

/// Every lane of the account in which something waits.
pub(crate) async fn agenda(query: &mut Query<'_>, account: AccountId) -> Result<Vec<AgendaRow>, StoreError> {
    query
        .all(
            agenda!("account_id = $1 and", "", "select endpoint_id, lane, next_at from agenda"),
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

/// Claims those of the accounts that nobody else sends; returns which.
pub(crate) async fn claim(
    tx: &mut Tx,
    accounts: &[AccountId],
    claim: &str,
    until: Timestamp,
    now: Timestamp,
) -> Result<Vec<AccountId>, StoreError> {
    let shared = args![claim.to_owned(), until, now];
    CLAIM.values(tx, shared, accounts.iter().map(|account| args![*account]).collect()).await
}

/// Keeps what is claimed until `until`; returns what that is.
pub(crate) async fn keep_claims(
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

pub(crate) async fn release(tx: &mut Tx, claim: &str, account: AccountId) -> Result<(), StoreError> {
    tx.run(
        "delete from webhook_queues where claim = $1 and account_id = $2",
        args![claim.to_owned(), account],
    )
    .await
}

pub(crate) async fn release_all(tx: &mut Tx, claim: &str) -> Result<u64, StoreError> {
    tx.execute("delete from webhook_queues where claim = $1", args![claim.to_owned()]).await
}

/// Lets go of every claim; right only where no other process can hold one.
pub(crate) async fn forget_claims(tx: &mut Tx) -> Result<u64, StoreError> {
    tx.execute("delete from webhook_queues", args![]).await
}

/// A delivery that is to be sent.
pub(crate) struct DueRow {
    pub(crate) id: DeliveryId,
    pub(crate) endpoint_id: EndpointId,
    pub(crate) event_id: EventId,
    pub(crate) event_type: String,
    pub(crate) status: Status,
    pub(crate) attempts: i64,
    pub(crate) tries: i64,
    pub(crate) next_at: Timestamp,
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) data: Option<String>,
}

from_row!(DueRow {
    id,
    endpoint_id,
    event_id,
    event_type,
    status,
    attempts,
    tries,
    next_at,
    occurred_at,
    data,
});

macro_rules! select_due {
    ($rest:literal) => {
        concat!(
            "select d.id, d.endpoint_id, d.event_id, d.event_type, d.status, d.attempts, d.tries, d.next_at, \
             e.occurred_at, e.data from webhook_deliveries d \
             left join events e on e.account_id = d.account_id and e.sequence = d.sequence \
             where d.account_id = $1 and d.endpoint_id = $2 and ",
            $rest
        )
    };
}

/// What is due in a lane, longest first; in the lane that keeps its order what comes first, due or not.
pub(crate) async fn due(
    query: &mut Query<'_>,
    (account, endpoint): (AccountId, EndpointId),
    lane: Lane,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DueRow>, StoreError> {
    if lane == Lane::InOrder {
        return query
            .all(
                select_due!("d.lane = $3 and d.next_at is not null order by d.place limit $4"),
                args![account, endpoint, lane.number(), limit],
            )
            .await;
    }
    query
        .all(
            select_due!("d.lane = $3 and d.next_at is not null and d.place <= $4 order by d.place limit $5"),
            args![account, endpoint, lane.number(), now, limit],
        )
        .await
}
