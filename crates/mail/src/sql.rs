//! Every statement of the area.

use portico_kernel::{MailId, Timestamp};
use portico_store::{Select, StoreError, Tx, args, from_row};

use crate::limits;

/// Runs when the area can serve.
pub(crate) const PROBE: &str = "select id from mails limit 1";

/// A message that was claimed.
pub(crate) struct MailRow {
    pub(crate) id: MailId,
    pub(crate) sealed: Vec<u8>,
    pub(crate) attempts: i64,
    pub(crate) created_at: Timestamp,
}

from_row!(MailRow { id, sealed, attempts, created_at });

pub(crate) async fn insert(
    tx: &mut Tx,
    id: MailId,
    sealed: Vec<u8>,
    now: Timestamp,
) -> Result<(), StoreError> {
    tx.run(
        "insert into mails (id, sealed, attempts, next_at, created_at) values ($1, $2, 0, $3, $3)",
        args![id, sealed, now],
    )
    .await
}

/// Claims messages that are due, and counts the attempt. The conditions are repeated: of two servers that chose the same
/// row the second waits for the first, and then checks the outer ones again.
pub(crate) async fn claim(tx: &mut Tx, claim: &str, now: Timestamp) -> Result<Vec<MailRow>, StoreError> {
    tx.all(
        "update mails set claim = $1, claimed_until = $2, attempts = attempts + 1 where id in (select id from mails \
         where failed_at is null and next_at <= $3 and (claimed_until is null or claimed_until <= $3) \
         order by next_at, id limit $4) \
         and failed_at is null and next_at <= $3 and (claimed_until is null or claimed_until <= $3) \
         returning id, sealed, attempts, created_at",
        args![claim.to_owned(), now + limits::LEASE, now, limits::BATCH_MAX],
    )
    .await
}

/// Removes a message that was sent; returns false when the claim was lost.
pub(crate) async fn remove(tx: &mut Tx, id: MailId, claim: &str) -> Result<bool, StoreError> {
    let rows = tx.run("delete from mails where id = $1 and claim = $2", args![id, claim.to_owned()]).await?;
    Ok(rows == 1)
}

/// Reschedules the message to `at`; returns false when the claim was lost.
pub(crate) async fn reschedule(
    tx: &mut Tx,
    id: MailId,
    claim: &str,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update mails set next_at = $3, claim = null, claimed_until = null where id = $1 and claim = $2",
            args![id, claim.to_owned(), at],
        )
        .await?;
    Ok(rows == 1)
}

/// Gives the message up, and removes its content; returns false when the claim was lost.
pub(crate) async fn give_up(
    tx: &mut Tx,
    id: MailId,
    claim: &str,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let rows = tx
        .execute(
            "update mails set failed_at = $3, sealed = $4, claim = null, claimed_until = null \
             where id = $1 and claim = $2",
            args![id, claim.to_owned(), now, Vec::<u8>::new()],
        )
        .await?;
    Ok(rows == 1)
}
