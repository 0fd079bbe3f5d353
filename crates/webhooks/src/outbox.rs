//! Deliveries are inserted in the transaction of their events.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_engine::ports::{AfterCommit, NewEvent, Outbox};
use portico_kernel::{AccountId, Timestamp};
use portico_store::{PendingRows, StoreError, Tx};

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
        events: Arc<[NewEvent]>,
    ) -> BoxFuture<'a, Result<AfterCommit, StoreError>> {
        Box::pin(async move {
            let mut inserted = sql::insert_deliveries(tx, account, &events, now).await?;
            for event in events.iter() {
                if let Some(endpoint) = event.only_to {
                    inserted.push(sql::insert_delivery(tx, account, event.id, endpoint, now).await?);
                }
            }
            let sender = self.sender.clone();
            Ok(Box::new(move || match pending_deliveries(&inserted, &events, now) {
                Ok(pending) if pending.is_empty() => {}
                Ok(pending) => sender.hand_over(account, pending),
                Err(error) => {
                    tracing::error!(%error, %account, "Deliveries were committed, and do not read");
                }
            }) as AfterCommit)
        })
    }
}

/// The deliveries for the sender, which need not read what was just inserted.
fn pending_deliveries(
    inserted: &[PendingRows],
    events: &[NewEvent],
    now: Timestamp,
) -> Result<Vec<PendingDelivery>, StoreError> {
    let mut pending = Vec::new();
    for rows in inserted {
        for NewDeliveryRow { id, endpoint_id, event_id } in rows.all()? {
            let Some(event) = events.iter().find(|event| event.id == event_id) else { continue };
            let queue = QueueKind::of_type(&event.event_type);
            pending.push(PendingDelivery {
                id,
                endpoint: endpoint_id,
                event: event.id,
                event_type: event.event_type.to_string(),
                occurred_at: event.occurred_at,
                data: event.data.clone(),
                tries: 0,
                state: DeliveryState { status: Status::Pending, attempts: 0, by_hand: false, queue },
                next_at: now,
            });
        }
    }
    Ok(pending)
}
