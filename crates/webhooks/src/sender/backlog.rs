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
use crate::sql::{self, BacklogRow, EndpointKey};

/// Counts the account's pending deliveries, holds back where they are too many, and makes what was held back where there is
/// room; returns whether there may be more of that to make.
pub(super) async fn balance(engine: &Engine, account: AccountId, now: Timestamp) -> Result<bool, Problem> {
    let rows = sql::backlogs(&mut engine.db.query(), account).await?;
    let rooms = room(&rows.iter().map(|row| row.pending).collect::<Vec<_>>());
    let mut left = limits::ACCOUNT_PENDING_MAX - rows.iter().map(|row| row.pending).sum::<i64>();
    let is_to_change = |(row, room): (&BacklogRow, &i64)| match row.held_after {
        None => row.enabled && *room == 0,
        Some(_) => !row.enabled || left.min(*room) > 0,
    };
    if !rows.iter().zip(&rooms).any(is_to_change) {
        return Ok(false);
    }
    let held = rows.iter().filter(|row| row.enabled && row.held_after.is_some()).count();
    let share = limits::HELD_MADE_AT_ONCE / i64::try_from(held).unwrap_or(i64::MAX).max(1);
    let mut tx = engine.db.write().await?;
    let last = lock_sequence(&mut tx, account).await?;
    sql::remove_stale_holds(&mut tx, account).await?;
    let mut has_moved = false;
    for (row, room) in rows.iter().zip(rooms).filter(|(row, _)| row.enabled) {
        let (endpoint, pending) = (row.endpoint_id, row.pending);
        let key = EndpointKey { account, endpoint };
        // Another server may have made some meanwhile.
        match sql::held_after(&mut tx, endpoint).await? {
            None if room == 0 => {
                sql::hold(&mut tx, key, last).await?;
                tracing::info!(%account, %endpoint, pending, "Holding back the deliveries of an endpoint");
            }
            Some(after) if room.min(left) > 0 => {
                let batch = Batch { after, last, count: room.min(left).min(share) };
                make_held(&mut tx, key, batch, now).await?;
                has_moved = true;
                left -= batch.count;
            }
            _ => {}
        }
    }
    tx.commit().await?;
    Ok(has_moved)
}

/// Events of which deliveries are held back: at most `count` of those after one number and up to another.
#[derive(Clone, Copy)]
struct Batch {
    after: i64,
    last: i64,
    count: i64,
}

/// Makes some of the deliveries that were held back.
async fn make_held(tx: &mut Tx, key: EndpointKey, batch: Batch, now: Timestamp) -> Result<(), StoreError> {
    let EndpointKey { account, endpoint } = key;
    let upto = sql::sequence_beyond(tx, account, batch.after, batch.count).await?.unwrap_or(batch.last);
    sql::insert_held(tx, key, batch.after, upto, now).await?;
    if upto < batch.last {
        sql::move_hold(tx, endpoint, upto).await?;
    } else {
        sql::remove_hold(tx, endpoint).await?;
        tracing::info!(%account, %endpoint, "Holding back no more deliveries of an endpoint");
    }
    Ok(())
}
