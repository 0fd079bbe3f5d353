//! The deliveries of one endpoint, as an account's worker holds them in memory.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{DeliveryId, Timestamp};

use super::PendingDelivery;
use crate::model::{ConcurrencyLimit, Outcome, QueueKind, SigningKey};
use crate::sql::EndpointRow;
use crate::{Webhooks, limits};

/// Where deliveries go, and what signs them.
pub(super) struct Target {
    pub(super) row: EndpointRow,
    pub(super) keys: Vec<SigningKey>,
    /// The host that must take a delivery before it is called often; `None` for the account's own inbox, and for hosts
    /// that the operator allows by their network.
    pub(super) host_to_prove: Option<String>,
}

impl Target {
    /// The endpoint as it is now.
    pub(super) fn new(webhooks: &Webhooks, engine: &Engine, row: EndpointRow, now: Timestamp) -> Arc<Self> {
        let (keys, host_to_prove) = (row.keys(engine, now), webhooks.host_to_prove(&row));
        Arc::new(Self { row, keys, host_to_prove })
    }
}

/// Of so many deliveries at least one is a retry, when there are any.
const RETRY_EVERY: u64 = 8;

/// One queue of an endpoint, as far as it was read.
#[derive(Default)]
struct Queue {
    deliveries: VecDeque<PendingDelivery>,
    /// May there be more in the database?
    more: bool,
}

/// An endpoint, its three queues, and the deliveries in flight to it.
pub(super) struct EndpointQueue {
    pub(super) target: Arc<Target>,
    /// Was the endpoint changed since it was read? Nothing is sent to it until it is read again.
    stale: bool,
    limit: ConcurrencyLimit,
    new: Queue,
    retry: Queue,
    ordered: Queue,
    /// Every delivery that is queued, in flight, or whose result is not stored yet,
    known: HashSet<DeliveryId>,
    /// and of the last, those that were delivered.
    delivered: HashSet<DeliveryId>,
    in_flight: usize,
    /// Of the ordered deliveries, the one that the others wait for: it is in flight, or failed and is not stored yet.
    blocked_by: Option<DeliveryId>,
    started: u64,
    /// The delivery that was answered with 410, until that is stored.
    gone: Option<DeliveryId>,
}

impl EndpointQueue {
    pub(super) fn new(target: Arc<Target>) -> Self {
        let limit = ConcurrencyLimit::new(target.row.failing_since.is_some());
        Self {
            target,
            stale: false,
            limit,
            new: Queue::default(),
            retry: Queue::default(),
            ordered: Queue::default(),
            known: HashSet::new(),
            delivered: HashSet::new(),
            in_flight: 0,
            blocked_by: None,
            started: 0,
            gone: None,
        }
    }

    fn queue(&mut self, kind: QueueKind) -> &mut Queue {
        match kind {
            QueueKind::New => &mut self.new,
            QueueKind::Retry => &mut self.retry,
            QueueKind::Ordered => &mut self.ordered,
        }
    }

    /// Notes that the database has deliveries of that kind that were not read.
    pub(super) fn expect(&mut self, kind: QueueKind) {
        self.queue(kind).more = true;
    }

    /// Queues a delivery that was just committed, if there is room and no other must be read before it.
    pub(super) fn hand_over(&mut self, delivery: PendingDelivery) {
        let kind = delivery.state.queue;
        if !self.is_usable() {
            return self.expect(kind);
        }
        // Two commits may be handed over in either order; the database knows which was first.
        if kind == QueueKind::Ordered || self.new.more || self.new.deliveries.len() >= 2 * limits::READ_AHEAD
        {
            self.expect(kind);
        } else if self.known.insert(delivery.id) {
            self.new.deliveries.push_back(delivery);
        }
    }

    /// Returns the queues that are to be read, and the limit of rows of each: deliveries that are known come up again.
    pub(super) fn to_read(&self) -> Vec<(QueueKind, i64)> {
        let limit = i64::try_from(limits::READ_AHEAD + self.known.len()).unwrap_or(i64::MAX);
        let wants = |queue: &Queue| queue.more && queue.deliveries.len() <= limits::READ_AHEAD / 2;
        let mut kinds = Vec::new();
        kinds.extend(wants(&self.new).then_some((QueueKind::New, limit)));
        kinds.extend(wants(&self.retry).then_some((QueueKind::Retry, limit)));
        // The one in flight decides which one is next.
        kinds.extend((self.ordered.more && self.blocked_by.is_none()).then_some((QueueKind::Ordered, limit)));
        kinds
    }

    /// Queues the deliveries that were read of a kind, of which there may be more when the page is `full`. Returns when
    /// the first is due, if none is yet.
    pub(super) fn add_page(
        &mut self,
        kind: QueueKind,
        rows: Vec<PendingDelivery>,
        full: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if kind == QueueKind::Ordered {
            return self.add_ordered_page(rows, full, now);
        }
        for delivery in rows {
            if self.known.insert(delivery.id) {
                self.queue(kind).deliveries.push_back(delivery);
            }
        }
        self.queue(kind).more = full;
        None
    }

    fn add_ordered_page(
        &mut self,
        rows: Vec<PendingDelivery>,
        full: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        for delivery in self.ordered.deliveries.drain(..) {
            self.known.remove(&delivery.id);
        }
        self.ordered.more = full;
        // What was delivered and is not stored yet comes up again, as it was.
        for delivery in rows.into_iter().filter(|delivery| !self.delivered.contains(&delivery.id)) {
            if self.known.contains(&delivery.id) {
                // It is in flight, by hand; the others wait for it.
                self.ordered.more = true;
                break;
            }
            if delivery.next_at > now {
                return self.ordered.deliveries.is_empty().then_some(delivery.next_at);
            }
            self.known.insert(delivery.id);
            self.ordered.deliveries.push_back(delivery);
        }
        None
    }

    /// Takes the delivery that is to be sent next, if the endpoint may be sent more. `share` is its fair share of the
    /// account's slots.
    pub(super) fn next(&mut self, share: usize) -> Option<PendingDelivery> {
        if !self.is_usable() || self.in_flight >= self.limit.current().min(share) {
            return None;
        }
        let retry_first = self.started.is_multiple_of(RETRY_EVERY);
        let (new, retry) = (&mut self.new.deliveries, &mut self.retry.deliveries);
        let delivery = if self.blocked_by.is_none() && !self.ordered.deliveries.is_empty() {
            self.blocked_by = self.ordered.deliveries.front().map(|delivery| delivery.id);
            self.ordered.deliveries.pop_front()
        } else if retry_first {
            retry.pop_front().or_else(|| new.pop_front())
        } else {
            new.pop_front().or_else(|| retry.pop_front())
        };
        if delivery.is_some() {
            self.in_flight += 1;
            self.started += 1;
        }
        delivery
    }

    /// Returns whether a delivery is queued that could be sent next.
    pub(super) fn has_next(&self) -> bool {
        let has_ordered = self.blocked_by.is_none() && !self.ordered.deliveries.is_empty();
        has_ordered || !self.new.deliveries.is_empty() || !self.retry.deliveries.is_empty()
    }

    /// Notes that the endpoint was changed.
    pub(super) fn mark_stale(&mut self) {
        self.stale = true;
    }

    /// Notes that the endpoint was read.
    pub(super) fn mark_fresh(&mut self) {
        self.stale = false;
    }

    /// Returns whether anything can be sent to it. Nothing is sent unsigned, nor to an endpoint that answered 410, even
    /// before that is stored.
    pub(super) fn is_usable(&self) -> bool {
        self.target.row.enabled && !self.target.keys.is_empty() && self.gone.is_none() && !self.stale
    }

    /// Notes that the receiver answered that delivery with 410.
    pub(super) fn mark_gone(&mut self, id: DeliveryId) {
        self.gone = Some(id);
        self.clear();
    }

    /// The number of attempts in flight to it.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many attempts were started.
    pub(super) fn started(&self) -> u64 {
        self.started
    }

    pub(super) fn is_slow(&self) -> bool {
        self.limit.is_slow()
    }

    /// Notes that an attempt ended. The delivery stays known until its result is stored.
    pub(super) fn attempt_ended(&mut self, id: DeliveryId, outcome: Outcome, duration_ms: i64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.limit.record(outcome, duration_ms);
        if outcome == Outcome::Delivered {
            self.delivered.insert(id);
            self.blocked_by = self.blocked_by.filter(|blocked_by| *blocked_by != id);
        }
    }

    /// Notes that an attempt panicked: there will be no result.
    pub(super) fn attempt_lost(&mut self, id: DeliveryId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.result_stored(id);
    }

    /// Notes that the result is stored. If others waited for it, the database knows which of them is next.
    pub(super) fn result_stored(&mut self, id: DeliveryId) {
        self.known.remove(&id);
        self.delivered.remove(&id);
        self.gone = self.gone.filter(|gone| *gone != id);
        if self.blocked_by == Some(id) {
            self.blocked_by = None;
            self.ordered.more = true;
        }
    }

    /// Forgets what is queued: it is to be read again.
    pub(super) fn clear(&mut self) {
        for kind in [QueueKind::New, QueueKind::Retry, QueueKind::Ordered] {
            let queue = self.queue(kind);
            queue.more |= !queue.deliveries.is_empty();
            let ids: Vec<_> = queue.deliveries.drain(..).map(|delivery| delivery.id).collect();
            for id in ids {
                self.known.remove(&id);
            }
        }
    }

    /// Returns whether any delivery is queued, in flight, or not stored yet.
    pub(super) fn is_busy(&self) -> bool {
        let more = self.new.more || self.retry.more || self.ordered.more;
        !self.known.is_empty() || (more && self.target.row.enabled)
    }
}

#[cfg(test)]
mod tests {
    use portico_engine::example_id;
    use portico_kernel::{Secret, Timestamp};

    use super::*;
    use crate::model::{DeliveryState, Status};

    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    fn queue() -> EndpointQueue {
        let row = EndpointRow {
            id: example_id(),
            account_id: example_id(),
            tag: String::new(),
            url: String::new(),
            inbox_id: None,
            description: String::new(),
            secret: Vec::new(),
            old_secret: None,
            old_secret_until: None,
            secret_rotated_at: None,
            enabled: true,
            disabled_reason: String::new(),
            created_by: String::new(),
            url_set_by: String::new(),
            created_at: NOW,
            last_delivery_at: None,
            last_delivery_status: String::new(),
            failing_since: None,
            version: 1,
            proven_at: None,
        };
        EndpointQueue::new(Arc::new(Target {
            row,
            keys: vec![SigningKey::new(Secret::new(vec![1]))],
            host_to_prove: None,
        }))
    }

    fn delivery(number: u8, kind: QueueKind, next_at: Timestamp) -> PendingDelivery {
        PendingDelivery {
            id: DeliveryId::from_parts(NOW, [number; 10]),
            endpoint: example_id(),
            event: example_id(),
            event_type: "key.created".to_owned(),
            occurred_at: NOW,
            data: String::new(),
            tries: 0,
            state: DeliveryState { status: Status::Pending, attempts: 0, by_hand: false, queue: kind },
            next_at,
        }
    }

    fn next(queue: &mut EndpointQueue) -> Option<DeliveryId> {
        queue.next(16).map(|delivery| delivery.id)
    }

    #[test]
    fn what_is_read_and_handed_over_is_sent_once() {
        let mut queue = queue();
        let one = delivery(1, QueueKind::New, NOW);
        queue.hand_over(one.clone());
        queue.expect(QueueKind::New);
        assert!(queue.add_page(QueueKind::New, vec![one.clone()], false, NOW).is_none());
        queue.hand_over(one.clone());
        assert_eq!((next(&mut queue), next(&mut queue)), (Some(one.id), None));
        queue.attempt_ended(one.id, Outcome::Delivered, 1);
        queue.add_page(QueueKind::New, vec![one.clone()], false, NOW);
        assert_eq!(next(&mut queue), None, "its result is not stored yet");
        queue.result_stored(one.id);
        assert!(!queue.is_busy());
    }

    #[test]
    fn order_is_kept_one_at_a_time() {
        let mut queue = queue();
        let [a, b] = [1, 2].map(|number| delivery(number, QueueKind::Ordered, NOW));
        queue.expect(QueueKind::Ordered);
        queue.add_page(QueueKind::Ordered, vec![a.clone(), b.clone()], false, NOW);
        assert_eq!((next(&mut queue), next(&mut queue)), (Some(a.id), None));
        queue.attempt_ended(a.id, Outcome::Delivered, 1);
        assert_eq!(next(&mut queue), Some(b.id), "though the first is not stored yet");
        queue.attempt_ended(b.id, Outcome::Status, 1);
        queue.expect(QueueKind::Ordered);
        assert!(queue.to_read().is_empty(), "the database knows which is next only once it is stored");
        queue.result_stored(b.id);
        assert_eq!(queue.to_read().len(), 1);
        let later = delivery(2, QueueKind::Ordered, Timestamp::from_seconds(2_000));
        let behind = delivery(3, QueueKind::Ordered, NOW);
        assert_eq!(
            queue.add_page(QueueKind::Ordered, vec![later.clone(), behind], false, NOW),
            Some(later.next_at)
        );
        assert_eq!(next(&mut queue), None, "those behind it wait");
    }

    #[test]
    fn order_waits_for_one_that_is_sent_by_hand() {
        let mut queue = queue();
        let by_hand = delivery(1, QueueKind::New, NOW);
        queue.hand_over(by_hand.clone());
        assert_eq!(next(&mut queue), Some(by_hand.id));
        let behind = delivery(2, QueueKind::Ordered, NOW);
        queue.expect(QueueKind::Ordered);
        queue.add_page(
            QueueKind::Ordered,
            vec![delivery(1, QueueKind::Ordered, NOW), behind.clone()],
            false,
            NOW,
        );
        assert_eq!(next(&mut queue), None);
        queue.attempt_ended(by_hand.id, Outcome::Delivered, 1);
        queue.add_page(
            QueueKind::Ordered,
            vec![delivery(1, QueueKind::Ordered, NOW), behind.clone()],
            false,
            NOW,
        );
        assert_eq!(next(&mut queue), Some(behind.id));
    }

    #[test]
    fn retries_neither_go_first_nor_starve() {
        let mut queue = queue();
        for number in 0..20 {
            queue.hand_over(delivery(number, QueueKind::New, NOW));
        }
        queue.expect(QueueKind::Retry);
        let again: Vec<_> = (100..110).map(|number| delivery(number, QueueKind::Retry, NOW)).collect();
        let retries: Vec<_> = again.iter().map(|delivery| delivery.id).collect();
        queue.add_page(QueueKind::Retry, again, false, NOW);
        let mut sent = Vec::new();
        while let Some(id) = next(&mut queue) {
            queue.attempt_ended(id, Outcome::Delivered, 1);
            sent.push(id);
        }
        assert_eq!(sent.len(), 30);
        let early = sent[..16].iter().filter(|id| retries.contains(id)).count();
        assert_eq!(early, 2, "one in eight");
    }

    #[test]
    fn one_that_was_changed_takes_nothing_until_it_is_read_and_loses_nothing() {
        let mut queue = queue();
        queue.hand_over(delivery(1, QueueKind::New, NOW));
        queue.mark_stale();
        queue.hand_over(delivery(2, QueueKind::New, NOW));
        assert_eq!(next(&mut queue), None);
        assert!(queue.is_busy());
        queue.mark_fresh();
        assert_eq!(next(&mut queue), Some(delivery(1, QueueKind::New, NOW).id));
        assert_eq!(queue.to_read().len(), 1, "the other is read from the database");
    }

    #[test]
    fn a_disabled_one_takes_nothing_and_is_not_waited_for() {
        let mut queue = queue();
        queue.hand_over(delivery(1, QueueKind::New, NOW));
        let row = EndpointRow { enabled: false, ..queue.target.row.clone() };
        queue.target = Arc::new(Target { row, keys: Vec::new(), host_to_prove: None });
        queue.clear();
        assert_eq!(next(&mut queue), None);
        assert!(!queue.is_busy());
    }
}
