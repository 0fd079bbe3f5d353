//! What a worker reads: its account's endpoints, and their deliveries that are due.

use std::collections::HashMap;
use std::sync::Arc;

use portico_kernel::{DeliveryId, EndpointId, Problem, Timestamp};

use super::AccountWorker;
use crate::limits;
use crate::model::QueueKind;
use crate::sender::PendingDelivery;
use crate::sender::endpoint_queue::{EndpointQueue, Target};
use crate::sql::{self, EndpointKey, EndpointRow};

impl AccountWorker {
    /// Reads the account's endpoints, and clears the queues of those that have changed.
    pub(super) async fn read_endpoints(&mut self, now: Timestamp) -> Result<(), Problem> {
        let mut rows: HashMap<_, _> = sql::endpoints(&mut self.engine.db.query(), self.account)
            .await?
            .into_iter()
            .map(|row| (row.id, row))
            .collect();
        self.endpoints_read_at = now;
        self.rates.read_hosts(rows.values());
        // One that was deleted stays as long as an attempt is in flight to it.
        self.queues.retain(|id, queue| rows.contains_key(id) || queue.in_flight() > 0);
        for (id, queue) in &mut self.queues {
            queue.mark_fresh();
            match rows.remove(id) {
                Some(row) if row.version == queue.target.row.version && !overlap_ended(queue, now) => {}
                Some(row) => {
                    queue.target = Target::new(&self.webhooks, &self.engine, row, now);
                    queue.clear();
                }
                None => {
                    queue.clear();
                    let row = EndpointRow { enabled: false, ..queue.target.row.clone() };
                    queue.target = Arc::new(Target { row, keys: Vec::new(), host_to_prove: None });
                }
            }
        }
        for (id, row) in rows {
            let target = Target::new(&self.webhooks, &self.engine, row, now);
            self.queues.insert(id, EndpointQueue::new(target));
        }
        Ok(())
    }

    /// Finds out which queues have pending deliveries, and ends those of endpoints that are disabled.
    pub(super) async fn read_queue_heads(&mut self, now: Timestamp) -> Result<(), Problem> {
        let heads = sql::queue_heads(&mut self.engine.db.query(), self.account).await?;
        self.next_at = None;
        for head in heads {
            match self.queues.get_mut(&head.endpoint_id) {
                // What is in flight is stored first: the two would wait for each other's rows.
                Some(queue) if !queue.target.row.enabled && queue.is_busy() => {
                    self.due_at(now + limits::POLL_EVERY);
                }
                Some(queue) if queue.target.row.enabled && head.next_at <= now => {
                    queue.expect(QueueKind::from_number(head.lane));
                }
                Some(queue) if queue.target.row.enabled => self.due_at(head.next_at),
                Some(_) => self.end_pending(head.endpoint_id).await?,
                None => {
                    let mut query = self.engine.db.query();
                    match sql::endpoint(&mut query, head.endpoint_id).await? {
                        // It was created after the endpoints were read.
                        Some(_) => self.refresh = true,
                        // It was deleted, and its deliveries will be with it.
                        None => self.due_at(now + limits::POLL_EVERY),
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends some of the deliveries that are pending for a disabled endpoint. The rest follows with the next refresh, which
    /// comes at once: other writers have their turn in between.
    async fn end_pending(&mut self, endpoint: EndpointId) -> Result<(), Problem> {
        let mut tx = self.engine.db.write().await?;
        let ended = sql::end_pending(&mut tx, self.account, endpoint, limits::PRUNE_ROWS).await?;
        tx.commit().await?;
        self.refresh |= ended == limits::PRUNE_ROWS.unsigned_abs();
        Ok(())
    }

    pub(super) async fn read_queues(&mut self, now: Timestamp) -> Result<(), Problem> {
        let usable = self.queues.iter().filter(|(_, queue)| queue.is_usable());
        let to_read: Vec<_> = usable
            .flat_map(|(id, queue)| queue.to_read().into_iter().map(|(kind, limit)| (*id, kind, limit)))
            .collect();
        for (endpoint, kind, limit) in to_read {
            let key = EndpointKey { account: self.account, endpoint };
            let mut query = self.engine.db.query();
            let rows = sql::pending_deliveries(&mut query, key, kind, now, limit).await?;
            let full = i64::try_from(rows.len()).is_ok_and(|read| read == limit);
            let mut page = Vec::with_capacity(rows.len());
            for row in rows {
                let id = row.id;
                match PendingDelivery::read(row, kind) {
                    Some(delivery) => page.push(delivery),
                    None => self.end_delivery(id).await?,
                }
            }
            let queue = self.queues.get_mut(&endpoint);
            if let Some(next) = queue.and_then(|queue| queue.add_page(kind, page, full, now)) {
                self.due_at(next);
            }
        }
        Ok(())
    }

    /// Ends a delivery whose event was deleted: there is nothing left to send.
    async fn end_delivery(&mut self, id: DeliveryId) -> Result<(), Problem> {
        tracing::error!(account = %self.account, delivery = %id, "Ended a delivery without an event");
        let mut tx = self.engine.db.write().await?;
        sql::end_delivery(&mut tx, id).await?;
        Ok(tx.commit().await?)
    }
}

/// Returns whether the old secret, which signed beside the new one for a day, has expired since.
fn overlap_ended(queue: &EndpointQueue, now: Timestamp) -> bool {
    queue.target.keys.len() > 1 && queue.target.row.old_secret_until.is_some_and(|until| until <= now)
}
