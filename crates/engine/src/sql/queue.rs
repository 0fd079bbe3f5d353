//! The statements of the queues.

use portico_kernel::Timestamp;
use portico_store::{Query, Select, StoreError, Tx, args, delete_some, from_row};

use crate::queue::{NewItem, QueueItem};

/// Runs when queues can be read: the probe of an area whose work is in one.
pub const PROBE: &str = "select id from queue_items limit 1";

from_row!(QueueItem { id, payload, attempts, created_at });

/// How much of a queue is due.
pub(crate) struct DueRow {
    pub(crate) queue: String,
    pub(crate) items: i64,
    pub(crate) oldest: Timestamp,
}

from_row!(DueRow { queue, items, oldest });

/// Adds an item; one of the same id stays as it is.
pub(crate) async fn insert(
    tx: &mut Tx,
    queue: &str,
    item: &NewItem<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let account = item.account.map(|account| account.to_string()).unwrap_or_default();
    tx.run(
        "insert into queue_items (id, queue, account_id, payload, attempts, due_at, created_at) \
         values ($1, $2, $3, $4, 0, $5, $6) on conflict (id) do nothing",
        args![item.id, queue.to_owned(), account, item.payload.to_vec(), item.due_at, now],
    )
    .await
}

/// Adds an item, or makes the one of the same id as it would be then.
pub(crate) async fn reschedule(
    tx: &mut Tx,
    queue: &str,
    item: &NewItem<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let account = item.account.map(|account| account.to_string()).unwrap_or_default();
    tx.run(
        "insert into queue_items (id, queue, account_id, payload, attempts, due_at, created_at) \
         values ($1, $2, $3, $4, 0, $5, $6) on conflict (id) do update set payload = excluded.payload, attempts = 0, \
         due_at = excluded.due_at, claim = null, claimed_until = null, failed_at = null",
        args![item.id, queue.to_owned(), account, item.payload.to_vec(), item.due_at, now],
    )
    .await
}

/// The queues of which something is due.
pub(crate) async fn due(mut query: Query<'_>, now: Timestamp) -> Result<Vec<DueRow>, StoreError> {
    query
        .all(
            "select queue, count(*) as items, min(due_at) as oldest from queue_items where failed_at is null \
         and due_at <= $1 and (claimed_until is null or claimed_until <= $1) group by queue",
            args![now],
        )
        .await
}

/// Claims items that are due, and counts the attempt. The conditions stand twice: of two servers that chose the same row
/// the second waits for the first, and then looks at the outer ones again.
pub(crate) async fn claim(
    tx: &mut Tx,
    queue: &str,
    claim: &str,
    now: Timestamp,
    until: Timestamp,
    limit: i64,
) -> Result<Vec<QueueItem>, StoreError> {
    tx.all(
        "update queue_items set claim = $1, claimed_until = $2, attempts = attempts + 1 where id in \
         (select id from queue_items where queue = $5 and failed_at is null and due_at <= $3 \
         and (claimed_until is null or claimed_until <= $3) order by due_at, id limit $4) \
         and failed_at is null and due_at <= $3 and (claimed_until is null or claimed_until <= $3) \
         returning id, payload, attempts, created_at",
        args![claim.to_owned(), until, now, limit, queue.to_owned()],
    )
    .await
}

/// Renews a claim; false when it was lost.
pub(crate) async fn renew(tx: &mut Tx, id: &str, claim: &str, until: Timestamp) -> Result<bool, StoreError> {
    let renew = "update queue_items set claimed_until = $3 where id = $1 and claim = $2";
    Ok(tx.execute(renew, args![id.to_owned(), claim.to_owned(), until]).await? == 1)
}

/// Removes an item that is done; false when the claim was lost.
pub(crate) async fn remove(tx: &mut Tx, id: &str, claim: &str) -> Result<bool, StoreError> {
    let remove = "delete from queue_items where id = $1 and claim = $2";
    Ok(tx.execute(remove, args![id.to_owned(), claim.to_owned()]).await? == 1)
}

/// Lets the item wait until `at`; false when the claim was lost.
pub(crate) async fn put_off(
    tx: &mut Tx,
    id: &str,
    claim: &str,
    at: Timestamp,
    attempts: i64,
) -> Result<bool, StoreError> {
    let put_off = "update queue_items set due_at = $3, attempts = $4, claim = null, claimed_until = null \
                   where id = $1 and claim = $2";
    Ok(tx.execute(put_off, args![id.to_owned(), claim.to_owned(), at, attempts]).await? == 1)
}

/// Gives the item up and forgets its payload; false when the claim was lost.
pub(crate) async fn give_up(tx: &mut Tx, id: &str, claim: &str, now: Timestamp) -> Result<bool, StoreError> {
    let give_up = "update queue_items set failed_at = $3, payload = $4, claim = null, claimed_until = null \
                   where id = $1 and claim = $2";
    Ok(tx.execute(give_up, args![id.to_owned(), claim.to_owned(), now, Vec::<u8>::new()]).await? == 1)
}

/// Makes an item that nobody works on due at `now`, if it is due only after `latest`.
pub(crate) async fn pull_forward(
    tx: &mut Tx,
    id: &str,
    now: Timestamp,
    latest: Timestamp,
) -> Result<(), StoreError> {
    let pull = "update queue_items set due_at = $2 where id = $1 and claim is null and due_at > $3";
    tx.run(pull, args![id.to_owned(), now, latest]).await
}

/// Removes up to `limit` items that were given up before `before`.
pub(crate) async fn prune_failed(tx: &mut Tx, before: Timestamp, limit: i64) -> Result<u64, StoreError> {
    tx.execute(delete_some!("queue_items", "id", "failed_at < $1"), args![before, limit]).await
}
