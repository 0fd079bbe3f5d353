//! Deliveries, made with their events.

use futures_util::future::BoxFuture;
use portico_engine::ports::{AfterCommit, Outbox, StoredEvent};
use portico_kernel::{AccountId, Timestamp};
use portico_store::{StoreError, Tx};

use crate::Webhooks;
use crate::model::{Before, Lane, Status};
use crate::sender::Due;
use crate::sql::{self, MadeRow};

impl Outbox for Webhooks {
    fn fill<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        now: Timestamp,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'a, Result<Option<AfterCommit>, StoreError>> {
        Box::pin(async move {
            let mut made = sql::fill(tx, account, &events, now).await?;
            for event in &events {
                if let Some(endpoint) = event.only_to {
                    made.extend(sql::fill_one(tx, account, event.sequence, endpoint, now).await?);
                }
            }
            if made.is_empty() {
                return Ok(None);
            }
            let handed = made.into_iter().filter_map(|row| due(row, &events, now)).collect();
            let sender = self.sender.clone();
            Ok(Some(Box::new(move || sender.hand_over(account, handed)) as AfterCommit))
        })
    }
}

/// The delivery as the sender takes it: what was just written need not be read again.
fn due(row: MadeRow, events: &[StoredEvent], now: Timestamp) -> Option<Due> {
    let event = events.iter().find(|event| event.sequence == row.sequence)?;
    Some(Due {
        id: row.id,
        endpoint: row.endpoint_id,
        event: event.id,
        event_type: event.event_type.to_owned(),
        occurred_at: now,
        data: event.data.clone(),
        tries: 0,
        before: Before { status: Status::Pending, attempts: 0, lane: Lane::of_type(event.event_type) },
        next_at: now,
    })
}
