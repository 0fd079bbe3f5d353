//! MQTT clients by name. A client that comes a second time ends its first connection.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::Notify;

/// How long a connection that is taken over has to keep what it has come to.
const TAKEOVER_TIME_MAX: Duration = Duration::from_secs(1);

/// The clients of this server, by who acts (`Caller::actor`) and the name that the client gave itself.
#[derive(Default, Clone)]
pub(crate) struct ClientIds(Arc<DashMap<Key, Arc<Takeover>>>);

type Key = (Box<str>, Box<str>);

/// Tells a connection that another takes its name, and that one when it has gone.
#[derive(Default)]
struct Takeover {
    over: Notify,
    gone: Notify,
}

/// A client's name, as long as it is connected.
pub(crate) struct ClientIdLease {
    ids: ClientIds,
    key: Key,
    takeover: Arc<Takeover>,
}

impl ClientIds {
    /// Takes the name. Whoever has it is told to go, and given a moment to keep what it has come to.
    pub(crate) async fn take(&self, actor: &str, client_id: &str) -> ClientIdLease {
        let key = (actor.into(), client_id.into());
        let lease = ClientIdLease { ids: self.clone(), key, takeover: Arc::default() };
        let before = self.0.insert(lease.key.clone(), lease.takeover.clone());
        if let Some(before) = before {
            before.over.notify_one();
            let _ = tokio::time::timeout(TAKEOVER_TIME_MAX, before.gone.notified()).await;
        }
        lease
    }
}

impl ClientIdLease {
    /// Waits until another connection takes the name.
    pub(crate) fn taken(&self) -> impl Future<Output = ()> + use<> {
        let takeover = self.takeover.clone();
        async move { takeover.over.notified().await }
    }
}

impl Drop for ClientIdLease {
    fn drop(&mut self) {
        self.ids.0.remove_if(&self.key, |_, takeover| Arc::ptr_eq(takeover, &self.takeover));
        self.takeover.gone.notify_one();
    }
}
