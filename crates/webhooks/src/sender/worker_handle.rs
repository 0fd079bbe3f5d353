//! What others tell a courier.

use std::mem;
use std::sync::Mutex;

use portico_kernel::{DeliveryId, Timestamp};
use tokio::sync::Notify;

use super::{Due, lock};
use crate::limits;

/// What others tell a courier, and what it tells of itself.
#[derive(Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    notify: Notify,
}

/// What has come since the courier last looked.
#[derive(Default)]
pub(super) struct News {
    /// Deliveries that were just committed.
    pub(super) handed: Vec<Due>,
    /// Deliveries whose result is written, or never will be.
    pub(super) written: Vec<DeliveryId>,
    /// Something else has changed.
    pub(super) look: bool,
}

#[derive(Default)]
struct State {
    news: News,
    order: Order,
    /// Does the courier wait for something new?
    resting: bool,
    /// Since when nothing at all waits to be sent.
    idle_since: Option<Timestamp>,
}

/// What a courier is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Send.
    #[default]
    Send,
    /// Begin nothing more, and end with what is under way.
    Finish,
    /// End at once: the account is another server's, or the time is up.
    Leave,
}

impl Mailbox {
    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        (state.resting, state.idle_since) = (false, None);
        drop(state);
        self.notify.notify_one();
    }

    pub(super) fn hand_over(&self, deliveries: Vec<Due>) {
        self.tell(|state| {
            if state.news.handed.len() + deliveries.len() > limits::HANDED_MAX {
                // They stand in the database; there is no hurry, since it does not keep up anyway.
                state.news.look = true;
            } else {
                state.news.handed.extend(deliveries);
            }
        });
    }

    pub(super) fn look(&self) {
        self.tell(|state| state.news.look = true);
    }

    pub(super) fn written(&self, deliveries: impl IntoIterator<Item = DeliveryId>, look: bool) {
        self.tell(|state| {
            state.news.written.extend(deliveries);
            state.news.look |= look;
        });
    }

    /// Orders are only ever sharpened.
    pub(super) fn order(&self, order: Order) {
        self.tell(|state| state.order = state.order.max(order));
    }

    pub(super) fn take(&self) -> (News, Order) {
        let mut state = lock(&self.state);
        (mem::take(&mut state.news), state.order)
    }

    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }

    /// The courier has nothing to do for now; if nothing waits at all, since `idle`. Not so when something came
    /// meanwhile.
    pub(super) fn rest(&self, idle: Option<Timestamp>) {
        let mut state = lock(&self.state);
        let News { handed, written, look } = &state.news;
        if handed.is_empty() && written.is_empty() && !look {
            state.resting = true;
            state.idle_since = state.idle_since.filter(|_| idle.is_some()).or(idle);
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        lock(&self.state).resting
    }

    /// Had it nothing to send for long?
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        lock(&self.state).idle_since.is_some_and(|since| now.since(since) >= limits::IDLE_LIFE)
    }
}
