//! What a courier knows of one endpoint.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use portico_kernel::{DeliveryId, Timestamp};

use super::Due;
use crate::limits;
use crate::model::{Lane, Outcome, Pace, SigningKey};
use crate::sql::EndpointRow;

/// Where deliveries go, and what signs them.
pub(super) struct Target {
    pub(super) row: EndpointRow,
    pub(super) keys: Vec<SigningKey>,
}

/// Of so many deliveries at least one is a retry, when there are any.
const RETRY_EVERY: u64 = 8;

/// One lane of an endpoint, as far as it was read.
#[derive(Default)]
struct Queue {
    due: VecDeque<Due>,
    /// May there be more in the database?
    more: bool,
}

/// An endpoint, its queues, and what is under way to it.
pub(super) struct Receiver {
    pub(super) target: Arc<Target>,
    pace: Pace,
    first: Queue,
    again: Queue,
    in_order: Queue,
    /// Everything that is queued, under way, or not written yet,
    known: HashSet<DeliveryId>,
    /// and of the last, what was taken.
    taken: HashSet<DeliveryId>,
    in_flight: usize,
    /// Of those that keep their order, the one that the others wait for: it is under way, or failed and is not written yet.
    waited_for: Option<DeliveryId>,
    begun: u64,
    /// The delivery whose receiver said that it is gone, until that is written.
    gone: Option<DeliveryId>,
}

impl Receiver {
    pub(super) fn new(target: Arc<Target>) -> Self {
        let pace = Pace::new(target.row.failing_since.is_some());
        Self {
            target,
            pace,
            first: Queue::default(),
            again: Queue::default(),
            in_order: Queue::default(),
            known: HashSet::new(),
            taken: HashSet::new(),
            in_flight: 0,
            waited_for: None,
            begun: 0,
            gone: None,
        }
    }

    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::First => &mut self.first,
            Lane::Again => &mut self.again,
            Lane::InOrder => &mut self.in_order,
        }
    }

    /// There is something in that lane of the database.
    pub(super) fn expect(&mut self, lane: Lane) {
        self.queue(lane).more = true;
    }

    /// Takes a delivery that was just committed, if there is room and nothing waits before it.
    pub(super) fn hand_over(&mut self, due: Due) {
        let lane = due.before.lane;
        if !self.is_usable() {
            return self.expect(lane);
        }
        // Two commits may be told of in either order; the database knows which was first.
        if lane == Lane::InOrder || self.first.more || self.first.due.len() >= 2 * limits::READ_AHEAD {
            self.expect(lane);
        } else if self.known.insert(due.id) {
            self.first.due.push_back(due);
        }
    }

    /// The lanes that are to be read, and how many rows of each: those that are known come up again.
    pub(super) fn to_read(&self) -> Vec<(Lane, i64)> {
        let most = i64::try_from(limits::READ_AHEAD + self.known.len()).unwrap_or(i64::MAX);
        let wants = |queue: &Queue| queue.more && queue.due.len() <= limits::READ_AHEAD / 2;
        let mut lanes = Vec::new();
        lanes.extend(wants(&self.first).then_some((Lane::First, most)));
        lanes.extend(wants(&self.again).then_some((Lane::Again, most)));
        // What is under way decides which one is next.
        lanes.extend((self.in_order.more && self.waited_for.is_none()).then_some((Lane::InOrder, most)));
        lanes
    }

    /// Takes what was read of a lane, of which there may be more when it is `full`. Answers when the lane is due, if it
    /// is not yet.
    pub(super) fn read(
        &mut self,
        lane: Lane,
        rows: Vec<Due>,
        full: bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if lane == Lane::InOrder {
            return self.read_in_order(rows, full, now);
        }
        for due in rows {
            if self.known.insert(due.id) {
                self.queue(lane).due.push_back(due);
            }
        }
        self.queue(lane).more = full;
        None
    }

    fn read_in_order(&mut self, rows: Vec<Due>, full: bool, now: Timestamp) -> Option<Timestamp> {
        for due in self.in_order.due.drain(..) {
            self.known.remove(&due.id);
        }
        self.in_order.more = full;
        // What was taken and is not written yet comes up again, as it was.
        for due in rows.into_iter().filter(|due| !self.taken.contains(&due.id)) {
            if self.known.contains(&due.id) {
                // It is under way, by hand; the others wait for it.
                self.in_order.more = true;
                break;
            }
            if due.next_at > now {
                return self.in_order.due.is_empty().then_some(due.next_at);
            }
            self.known.insert(due.id);
            self.in_order.due.push_back(due);
        }
        None
    }

    /// Takes what is to be sent next, if the endpoint may be sent more. `most` is its fair share of the account's.
    pub(super) fn next(&mut self, most: usize) -> Option<Due> {
        if !self.is_usable() || self.in_flight >= self.pace.most().min(most) {
            return None;
        }
        let retry_first = self.begun.is_multiple_of(RETRY_EVERY);
        let due = if self.waited_for.is_none() && !self.in_order.due.is_empty() {
            self.waited_for = self.in_order.due.front().map(|due| due.id);
            self.in_order.due.pop_front()
        } else if retry_first {
            self.again.due.pop_front().or_else(|| self.first.due.pop_front())
        } else {
            self.first.due.pop_front().or_else(|| self.again.due.pop_front())
        };
        if due.is_some() {
            self.in_flight += 1;
            self.begun += 1;
        }
        due
    }

    /// Can anything be sent to it? Nothing goes out unsigned, nor to one that is gone, even before the database knows.
    pub(super) fn is_usable(&self) -> bool {
        self.target.row.enabled && !self.target.keys.is_empty() && self.gone.is_none()
    }

    /// The receiver wants nothing more, as it said to that delivery.
    pub(super) fn is_gone(&mut self, id: DeliveryId) {
        self.gone = Some(id);
        self.forget_queued();
    }

    /// How much is under way to it.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn is_slow(&self) -> bool {
        self.pace.is_slow()
    }

    /// An attempt ended. It stays known until its result is written.
    pub(super) fn ended(&mut self, id: DeliveryId, outcome: Outcome, duration_ms: i64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.pace.ended(outcome, duration_ms);
        if outcome == Outcome::Delivered {
            self.taken.insert(id);
            self.waited_for = self.waited_for.filter(|waited_for| *waited_for != id);
        }
    }

    /// An attempt came to no end.
    pub(super) fn lost(&mut self, id: DeliveryId) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.written(id);
    }

    /// The result is written. If others waited for it, which of them is next stands in the database.
    pub(super) fn written(&mut self, id: DeliveryId) {
        self.known.remove(&id);
        self.taken.remove(&id);
        self.gone = self.gone.filter(|gone| *gone != id);
        if self.waited_for == Some(id) {
            self.waited_for = None;
            self.in_order.more = true;
        }
    }

    /// Forgets what is queued: it is to be read again.
    pub(super) fn forget_queued(&mut self) {
        for lane in [Lane::First, Lane::Again, Lane::InOrder] {
            let queue = self.queue(lane);
            queue.more |= !queue.due.is_empty();
            let ids: Vec<_> = queue.due.drain(..).map(|due| due.id).collect();
            for id in ids {
                self.known.remove(&id);
            }
        }
    }

    /// Is anything queued, under way or not written yet?
    pub(super) fn is_busy(&self) -> bool {
        let more = self.first.more || self.again.more || self.in_order.more;
        !self.known.is_empty() || (more && self.target.row.enabled)
    }
}

#[cfg(test)]
mod tests {
    use portico_engine::example_id;
    use portico_kernel::{Secret, Timestamp};

    use super::*;
    use crate::model::{Before, Status};

    const NOW: Timestamp = Timestamp::from_seconds(1_000);

    fn receiver() -> Receiver {
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
            created_at: NOW,
            last_delivery_at: None,
            last_delivery_status: String::new(),
            failing_since: None,
            version: 1,
        };
        Receiver::new(Arc::new(Target { row, keys: vec![SigningKey::new(Secret::new(vec![1]))] }))
    }

    fn due(number: u8, lane: Lane, next_at: Timestamp) -> Due {
        Due {
            id: DeliveryId::from_parts(NOW, [number; 10]),
            endpoint: example_id(),
            event: example_id(),
            event_type: "key.created".to_owned(),
            occurred_at: NOW,
            data: String::new(),
            tries: 0,
            before: Before { status: Status::Pending, attempts: 0, lane },
            next_at,
        }
    }

    fn next(receiver: &mut Receiver) -> Option<DeliveryId> {
        receiver.next(16).map(|due| due.id)
    }

    #[test]
    fn what_is_read_and_handed_over_is_sent_once() {
        let mut receiver = receiver();
        let one = due(1, Lane::First, NOW);
        receiver.hand_over(one.clone());
        receiver.expect(Lane::First);
        assert!(receiver.read(Lane::First, vec![one.clone()], false, NOW).is_none());
        receiver.hand_over(one.clone());
        assert_eq!((next(&mut receiver), next(&mut receiver)), (Some(one.id), None));
        receiver.ended(one.id, Outcome::Delivered, 1);
        receiver.read(Lane::First, vec![one.clone()], false, NOW);
        assert_eq!(next(&mut receiver), None, "its result is not written yet");
        receiver.written(one.id);
        assert!(!receiver.is_busy());
    }

    #[test]
    fn order_is_kept_one_at_a_time() {
        let mut receiver = receiver();
        let [a, b] = [1, 2].map(|number| due(number, Lane::InOrder, NOW));
        receiver.expect(Lane::InOrder);
        receiver.read(Lane::InOrder, vec![a.clone(), b.clone()], false, NOW);
        assert_eq!((next(&mut receiver), next(&mut receiver)), (Some(a.id), None));
        receiver.ended(a.id, Outcome::Delivered, 1);
        assert_eq!(next(&mut receiver), Some(b.id), "though the first is not written yet");
        receiver.ended(b.id, Outcome::Status, 1);
        receiver.expect(Lane::InOrder);
        assert!(
            receiver.to_read().is_empty(),
            "which is next stands in the database only once it is written"
        );
        receiver.written(b.id);
        assert_eq!(receiver.to_read().len(), 1);
        let later = due(2, Lane::InOrder, Timestamp::from_seconds(2_000));
        let behind = due(3, Lane::InOrder, NOW);
        assert_eq!(
            receiver.read(Lane::InOrder, vec![later.clone(), behind], false, NOW),
            Some(later.next_at)
        );
        assert_eq!(next(&mut receiver), None, "those behind it wait");
    }

    #[test]
    fn order_waits_for_one_that_is_sent_by_hand() {
        let mut receiver = receiver();
        let by_hand = due(1, Lane::First, NOW);
        receiver.hand_over(by_hand.clone());
        assert_eq!(next(&mut receiver), Some(by_hand.id));
        let behind = due(2, Lane::InOrder, NOW);
        receiver.expect(Lane::InOrder);
        receiver.read(Lane::InOrder, vec![due(1, Lane::InOrder, NOW), behind.clone()], false, NOW);
        assert_eq!(next(&mut receiver), None);
        receiver.ended(by_hand.id, Outcome::Delivered, 1);
        receiver.read(Lane::InOrder, vec![due(1, Lane::InOrder, NOW), behind.clone()], false, NOW);
        assert_eq!(next(&mut receiver), Some(behind.id));
    }

    #[test]
    fn retries_neither_go_first_nor_starve() {
        let mut receiver = receiver();
        for number in 0..20 {
            receiver.hand_over(due(number, Lane::First, NOW));
        }
        receiver.expect(Lane::Again);
        let again: Vec<_> = (100..110).map(|number| due(number, Lane::Again, NOW)).collect();
        let retries: Vec<_> = again.iter().map(|due| due.id).collect();
        receiver.read(Lane::Again, again, false, NOW);
        let mut sent = Vec::new();
        while let Some(id) = next(&mut receiver) {
            receiver.ended(id, Outcome::Delivered, 1);
            sent.push(id);
        }
        assert_eq!(sent.len(), 30);
        let early = sent[..16].iter().filter(|id| retries.contains(id)).count();
        assert_eq!(early, 2, "one in eight");
    }

    #[test]
    fn a_disabled_one_takes_nothing_and_is_not_waited_for() {
        let mut receiver = receiver();
        receiver.hand_over(due(1, Lane::First, NOW));
        let row = EndpointRow { enabled: false, ..receiver.target.row.clone() };
        receiver.target = Arc::new(Target { row, keys: Vec::new() });
        receiver.forget_queued();
        assert_eq!(next(&mut receiver), None);
        assert!(!receiver.is_busy());
    }
}
