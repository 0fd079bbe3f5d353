//! Deliveries are inserted in the transaction of their events.

use futures_util::future::BoxFuture;
use portico_engine::ports::{AfterCommit, Outbox, StoredEvent};
use portico_kernel::{AccountId, Timestamp};
use portico_store::{StoreError, Tx};

use crate::Webhooks;
use crate::model::{DeliveryState, QueueKind, Status};
use crate::sender::PendingDelivery;
use crate::sql::{self, NewDeliveryRow};

impl Outbox for Webhooks {
    fn fill<'a>(
        &'a self,
        tx: &'a mut Tx,
        account: AccountId,
        now: Timestamp,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'a, Result<Option<AfterCommit>, StoreError>> {
        Box::pin(async move {
            let mut inserted = sql::insert_deliveries(tx, account, &events, now).await?;
            for event in &events {
                if let Some(endpoint) = event.only_to {
                    inserted.extend(sql::insert_delivery(tx, account, event.sequence, endpoint, now).await?);
                }
            }
            if inserted.is_empty() {
                return Ok(None);
            }
            let pending =
                inserted.into_iter().filter_map(|row| pending_delivery(row, &events, now)).collect();
            let sender = self.sender.clone();
            Ok(Some(Box::new(move || sender.hand_over(account, pending)) as AfterCommit))
        })
    }
}

/// The delivery for the sender, which need not read what was just inserted.
fn pending_delivery(row: NewDeliveryRow, events: &[StoredEvent], now: Timestamp) -> Option<PendingDelivery> {
    let event = events.iter().find(|event| event.sequence == row.sequence)?;
    let queue = QueueKind::of_type(event.event_type);
    Some(PendingDelivery {
        id: row.id,
        endpoint: row.endpoint_id,
        event: event.id,
        event_type: event.event_type.to_owned(),
        occurred_at: now,
        data: event.data.clone(),
        tries: 0,
        state: DeliveryState { status: Status::Pending, attempts: 0, by_hand: false, queue },
        next_at: now,
    })
}
