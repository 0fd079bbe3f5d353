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

impl Target {
    /// Can anything be sent to it? Nothing goes out unsigned.
    pub(super) fn is_usable(&self) -> bool {
        self.row.enabled && !self.keys.is_empty()
    }
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
    /// Everything that is queued, under way, or not written yet.
    known: HashSet<DeliveryId>,
    in_flight: usize,
    /// Of those that keep their order, the one that the others wait for: it is under way, or failed and is not written yet.
    waited_for: Option<DeliveryId>,
    begun: u64,
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
            in_flight: 0,
            waited_for: None,
            begun: 0,
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
        // The first whose result is not written yet comes up again, as it was; it is not sent twice.
        let mut rows = rows.into_iter().filter(|due| !self.known.contains(&due.id)).peekable();
        let later = rows.peek().map(|due| due.next_at).filter(|next| *next > now);
        if later.is_none() {
            self.in_order.due = rows.take_while(|due| due.next_at <= now).collect();
            self.known.extend(self.in_order.due.iter().map(|due| due.id));
        }
        later
    }

    /// Takes what is to be sent next, if the endpoint may be sent more. `most` is its fair share of the account's.
    pub(super) fn next(&mut self, most: usize) -> Option<Due> {
        if !self.target.is_usable() || self.in_flight >= self.pace.most().min(most) {
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

    /// How many more it would take, for a courier that shares among several.
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
        if self.waited_for == Some(id) && outcome == Outcome::Delivered {
            self.waited_for = None;
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
