//! Who is connected under which name. A client that comes a second time ends its first connection.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::Notify;

use super::CLOSE_TIME_MAX;
use crate::lines::Lines;

/// The clients of this server, by their credential and the name that they gave themselves within it.
#[derive(Default)]
pub(crate) struct Clients(DashMap<Key, Arc<State>>);

type Key = (Box<str>, Box<str>);

#[derive(Default)]
struct State {
    over: Notify,
    gone: Notify,
}

/// A client's name, as long as it is connected.
pub(super) struct Name {
    lines: Arc<Lines>,
    key: Key,
    state: Arc<State>,
}

impl Name {
    /// Takes the name. Whoever has it is told to go, and given a moment to keep what it has come to.
    pub(super) async fn take(lines: &Arc<Lines>, credential: &str, client_id: &str) -> Self {
        let (key, state) = ((credential.into(), client_id.into()), Arc::<State>::default());
        let name = Self { lines: lines.clone(), key, state };
        let before = match lines.clients.0.entry(name.key.clone()) {
            Entry::Occupied(mut entry) => Some(entry.insert(name.state.clone())),
            Entry::Vacant(entry) => {
                entry.insert(name.state.clone());
                None
            }
        };
        if let Some(before) = before {
            before.over.notify_one();
            let _ = tokio::time::timeout(CLOSE_TIME_MAX, before.gone.notified()).await;
        }
        name
    }

    /// Waits until another connection takes the name.
    pub(super) async fn taken(&self) {
        self.state.over.notified().await;
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.lines.clients.0.remove_if(&self.key, |_, state| Arc::ptr_eq(state, &self.state));
        self.state.gone.notify_one();
    }
}
