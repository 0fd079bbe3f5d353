//! The pool of idle connections.

use std::collections::HashMap;
use std::mem;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use url::Host;

use crate::connection::Connection;
use crate::target::Target;

/// Idle connections with one key.
const IDLE_PER_KEY: usize = 16;
/// Idle connections altogether. A further one is closed: those in the pool are as likely to be of use.
const IDLE_MAX: usize = 512;
/// How often expired connections are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// After how many sweeps a connection is closed: thirty seconds.
const SWEEPS: u64 = 30;

/// What a connection can be used for: one name, proven by its certificate where there is TLS, at one address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    secure: bool,
    host: Host<String>,
    /// With the port.
    peer: SocketAddr,
}

impl PoolKey {
    pub(crate) fn new(target: &Target, peer: SocketAddr) -> Self {
        Self { secure: target.secure, host: target.host.clone(), peer }
    }
}

struct IdleConnection {
    connection: Connection,
    /// The number of sweeps before it was put into the pool.
    since: u64,
}

#[derive(Default)]
struct PoolState {
    idle: HashMap<PoolKey, Vec<IdleConnection>>,
    total: usize,
    sweeps: u64,
    sweeper: Option<AbortHandle>,
}

/// Idle connections that wait for the next call with the same key. The caller has just checked the addresses.
#[derive(Default)]
pub(crate) struct Pool(Arc<Mutex<PoolState>>);

impl Pool {
    /// A connection that the other side has not closed, to one of `addresses`.
    pub(crate) async fn take(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
    ) -> Option<(Connection, PoolKey)> {
        let (mut idle, mut key) = self.pick(target, addresses)?;
        // The reactor gets a turn, so that a connection that was closed in between is noticed.
        tokio::task::yield_now().await;
        while !idle.is_idle().await {
            (idle, key) = self.pick(target, addresses)?;
        }
        Some((idle, key))
    }

    /// The one that was used last, since it is the least likely to be closed.
    fn pick(&self, target: &Target, addresses: &[SocketAddr]) -> Option<(Connection, PoolKey)> {
        let mut key = PoolKey::new(target, *addresses.first()?);
        let mut state = lock(&self.0);
        for address in addresses {
            key.peer = *address;
            let Some(waiting) = state.idle.get_mut(&key) else { continue };
            let Some(idle) = waiting.pop() else { continue };
            state.total -= 1;
            return Some((idle.connection, key));
        }
        None
    }

    /// Adds `connection`, if the pool is not full. Its last response must have ended.
    pub(crate) fn put(&self, key: PoolKey, connection: Connection) {
        let mut state = lock(&self.0);
        if state.total >= IDLE_MAX {
            return;
        }
        let since = state.sweeps;
        let waiting = state.idle.entry(key).or_default();
        if waiting.len() >= IDLE_PER_KEY {
            return;
        }
        waiting.push(IdleConnection { connection, since });
        state.total += 1;
        if state.sweeper.as_ref().is_none_or(AbortHandle::is_finished) {
            state.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(&self.0))).abort_handle());
        }
    }

    /// As the sweeper does when it comes round.
    #[cfg(test)]
    pub(crate) fn sweep(&self) {
        lock(&self.0).take_expired();
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.0).total
    }
}

impl Drop for PoolState {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

impl PoolState {
    /// Removes expired connections, and returns them to be closed.
    fn take_expired(&mut self) -> Vec<IdleConnection> {
        self.sweeps += 1;
        let mut old = Vec::new();
        for waiting in self.idle.values_mut() {
            // They are in the order in which they were added.
            let young = waiting.iter().position(|idle| self.sweeps - idle.since < SWEEPS);
            let kept = waiting.split_off(young.unwrap_or(waiting.len()));
            old.append(&mut mem::replace(waiting, kept));
        }
        self.idle.retain(|_, waiting| !waiting.is_empty());
        self.total -= old.len();
        old
    }
}

/// Closes expired connections, until the pool is empty.
async fn sweep(state: Weak<Mutex<PoolState>>) {
    let mut turns = tokio::time::interval(SWEEP_EVERY);
    // The first comes at once.
    turns.tick().await;
    loop {
        turns.tick().await;
        let Some(state) = state.upgrade() else { return };
        let mut state = lock(&state);
        let old = state.take_expired();
        let is_done = state.total == 0;
        if is_done {
            state.sweeper = None;
        }
        // Closing takes time, and must not happen under the lock.
        drop(state);
        drop(old);
        if is_done {
            return;
        }
    }
}

fn lock(state: &Mutex<PoolState>) -> MutexGuard<'_, PoolState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
