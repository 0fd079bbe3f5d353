//! The backlogs of endpoints: when too many deliveries are pending, those of further events are held back.
//!
//! Deliveries are inserted with their events, where every statement counts. So nothing is counted there: the insertion
//! only leaves out endpoints that have a hold. Holds are written here, after every so many deliveries that were made for an
//! account. A hold is the number of an event: those after it are read from the log when there is room, in order, and at
//! the end of the log the hold is removed. All of that is done under the lock of the account's sequence, so that an event
//! is either before the number, with its delivery, or after it; and several servers may do it at once.

use portico_engine::{Engine, lock_sequence};
use portico_kernel::{AccountId, Problem, Timestamp};
use portico_store::{StoreError, Tx};

use crate::limits;
use crate::model::room;
use crate::sql::{self, EndpointKey};

/// Counts the account's pending deliveries, holds back where they are too many, and makes what was held back where there is
/// room; returns whether it made any.
pub(super) async fn balance(engine: &Engine, account: AccountId, now: Timestamp) -> Result<bool, Problem> {
    let rows = sql::backlogs(&mut engine.db.query(), account).await?;
    let rooms = room(&rows.iter().map(|row| row.pending).collect::<Vec<_>>());
    let mut left = limits::ACCOUNT_PENDING_MAX - rows.iter().map(|row| row.pending).sum::<i64>();
    if rows.iter().zip(&rooms).all(|(row, room)| row.held_after.is_none() && (*room > 0 || !row.enabled)) {
        return Ok(false);
    }
    let mut tx = engine.db.write().await?;
    let last = lock_sequence(&mut tx, account).await?;
    sql::remove_stale_holds(&mut tx, account).await?;
    let mut made = 0;
    for (row, room) in rows.iter().zip(rooms).filter(|(row, _)| row.enabled) {
        let (endpoint, pending) = (row.endpoint_id, row.pending);
        let key = EndpointKey { account, endpoint };
        match row.held_after {
            None if room == 0 => {
                sql::hold(&mut tx, key, last).await?;
                tracing::info!(%account, %endpoint, pending, "Holding back the deliveries of an endpoint");
            }
            Some(after) if room.min(left) > 0 => {
                let batch = Batch { after, last, count: room.min(left).min(limits::HELD_MADE_AT_ONCE) };
                made += make_held(&mut tx, key, batch, now).await?;
                left -= batch.count;
            }
            _ => {}
        }
    }
    tx.commit().await?;
    Ok(made > 0)
}

/// Events of which deliveries are held back: at most `count` of those after one number and up to another.
#[derive(Clone, Copy)]
struct Batch {
    after: i64,
    last: i64,
    count: i64,
}

/// Makes some of the deliveries that were held back; returns how many.
async fn make_held(tx: &mut Tx, key: EndpointKey, batch: Batch, now: Timestamp) -> Result<u64, StoreError> {
    let EndpointKey { account, endpoint } = key;
    let upto = sql::sequence_beyond(tx, account, batch.after, batch.count).await?.unwrap_or(batch.last);
    let made = sql::insert_held(tx, key, batch.after, upto, now).await?;
    if upto < batch.last {
        sql::move_hold(tx, endpoint, upto).await?;
    } else {
        sql::remove_hold(tx, endpoint).await?;
        tracing::info!(%account, %endpoint, "Holding back no more deliveries of an endpoint");
    }
    Ok(made)
}
