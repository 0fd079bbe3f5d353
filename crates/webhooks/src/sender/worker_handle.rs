//! The handle by which others talk to an account's worker.

use std::collections::HashSet;
use std::mem;
use std::sync::Mutex;

use portico_kernel::{DeliveryId, EndpointId, Timestamp};
use tokio::sync::Notify;

use super::{PendingDelivery, lock};
use crate::limits;

/// What the supervisor, commits and the writer of results tell an account's worker, and what the worker says about
/// itself.
#[derive(Default)]
pub(super) struct WorkerHandle {
    state: Mutex<HandleState>,
    notify: Notify,
}

/// What has come since the worker last asked.
#[derive(Default)]
pub(super) struct WorkerInbox {
    /// Deliveries that were just committed.
    pub(super) committed: Vec<PendingDelivery>,
    /// Deliveries whose result is stored, or never will be.
    pub(super) stored: Vec<DeliveryId>,
    /// Endpoints that were changed.
    pub(super) changed: HashSet<EndpointId>,
    /// Are the endpoints and the due deliveries to be read again?
    pub(super) refresh: bool,
}

#[derive(Default)]
struct HandleState {
    inbox: WorkerInbox,
    mode: WorkerMode,
    /// Does the worker wait for something new?
    waiting: bool,
    /// Since when the account has nothing to send at all.
    idle_since: Option<Timestamp>,
}

/// What a worker is to do. A later mode replaces an earlier one, never the other way round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkerMode {
    /// Send.
    #[default]
    Run,
    /// Begin no more attempts, and end when those in flight have ended.
    Drain,
    /// End at once: another server has the account, or the time is up.
    Stop,
}

impl WorkerHandle {
    fn update(&self, change: impl FnOnce(&mut HandleState)) {
        let mut state = lock(&self.state);
        change(&mut state);
        (state.waiting, state.idle_since) = (false, None);
        drop(state);
        self.notify.notify_one();
    }

    /// Gives it deliveries that were just committed.
    pub(super) fn hand_over(&self, deliveries: Vec<PendingDelivery>) {
        self.update(|state| {
            if state.inbox.committed.len() + deliveries.len() > limits::HANDED_OVER_MAX {
                // They are in the database; there is no hurry, since the worker does not keep up anyway.
                state.inbox.refresh = true;
            } else {
                state.inbox.committed.extend(deliveries);
            }
        });
    }

    /// Lets it read the endpoints and the due deliveries again.
    pub(super) fn refresh(&self) {
        self.update(|state| state.inbox.refresh = true);
    }

    /// Tells it that an endpoint was changed: nothing is sent to it as it was before.
    pub(super) fn endpoint_changed(&self, endpoint: EndpointId) {
        self.update(|state| {
            state.inbox.changed.insert(endpoint);
            state.inbox.refresh = true;
        });
    }

    /// Tells it that the results of these deliveries are stored.
    pub(super) fn results_stored(&self, deliveries: impl IntoIterator<Item = DeliveryId>, refresh: bool) {
        self.update(|state| {
            state.inbox.stored.extend(deliveries);
            state.inbox.refresh |= refresh;
        });
    }

    pub(super) fn set_mode(&self, mode: WorkerMode) {
        self.update(|state| state.mode = state.mode.max(mode));
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.state).mode == WorkerMode::Stop
    }

    /// For the worker: takes what has come.
    pub(super) fn take(&self) -> (WorkerInbox, WorkerMode) {
        let mut state = lock(&self.state);
        (mem::take(&mut state.inbox), state.mode)
    }

    /// For the worker: takes the endpoints that were changed, before the rest of what has come.
    pub(super) fn take_changed(&self) -> HashSet<EndpointId> {
        mem::take(&mut lock(&self.state).inbox.changed)
    }

    /// For the worker: resolves when something has come.
    pub(super) async fn notified(&self) {
        self.notify.notified().await;
    }

    /// For the worker: it waits, and if the account has nothing to send at all, since `idle_since`. Ignored when
    /// something has come meanwhile.
    pub(super) fn set_waiting(&self, idle_since: Option<Timestamp>) {
        let mut state = lock(&self.state);
        let WorkerInbox { committed, stored, refresh, changed: _ } = &state.inbox;
        if committed.is_empty() && stored.is_empty() && !refresh {
            state.waiting = true;
            state.idle_since = state.idle_since.filter(|_| idle_since.is_some()).or(idle_since);
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        lock(&self.state).waiting
    }

    /// Returns whether the account has had nothing to send for so long that it can be released.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        lock(&self.state).idle_since.is_some_and(|since| now.since(since) >= limits::IDLE_LIFE)
    }
}
