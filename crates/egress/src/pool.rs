//! Connections that wait for the next call to the same place.

use std::collections::HashMap;
use std::mem;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use url::Host;

use crate::connection::Connection;
use crate::target::Target;

/// How many wait for one place.
const IDLE_PER_PLACE: usize = 16;
/// How many wait altogether. What comes later is not kept: those that wait are as likely to be of use.
const IDLE_MAX: usize = 512;
/// How often the old ones are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// How many times a connection is passed over before it is closed: thirty seconds of waiting.
const SWEEPS: u64 = 30;

/// What a connection is good for: one name, proven where it had to be, at one address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    secure: bool,
    host: Host<String>,
    /// With the port.
    peer: SocketAddr,
}

impl Place {
    pub(crate) fn new(target: &Target, peer: SocketAddr) -> Self {
        Self { secure: target.secure, host: target.host.clone(), peer }
    }
}

struct Idle {
    connection: Connection,
    /// How many sweeps there had been when it came.
    since: u64,
}

#[derive(Default)]
struct Room {
    idle: HashMap<Place, Vec<Idle>>,
    total: usize,
    sweeps: u64,
    sweeper: Option<AbortHandle>,
}

/// Connections that wait for the next call to the same place. Whoever takes one has just had the address checked.
#[derive(Default)]
pub(crate) struct Pool(Arc<Mutex<Room>>);

impl Pool {
    /// A connection that the other side has not closed, to one of `addresses`.
    pub(crate) async fn take(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
    ) -> Option<(Connection, Place)> {
        let (mut idle, mut place) = self.pick(target, addresses)?;
        // The reactor gets a turn, so that it tells of whoever has hung up in between.
        tokio::task::yield_now().await;
        while !idle.is_idle().await {
            (idle, place) = self.pick(target, addresses)?;
        }
        Some((idle, place))
    }

    /// The one that has waited least, since it is the least likely to be closed.
    fn pick(&self, target: &Target, addresses: &[SocketAddr]) -> Option<(Connection, Place)> {
        let mut place = Place::new(target, *addresses.first()?);
        let mut room = lock(&self.0);
        for address in addresses {
            place.peer = *address;
            let Some(waiting) = room.idle.get_mut(&place) else { continue };
            let Some(idle) = waiting.pop() else { continue };
            room.total -= 1;
            return Some((idle.connection, place));
        }
        None
    }

    /// Lets `connection` wait, if there is room. It must have nothing left to say.
    pub(crate) fn keep(&self, place: Place, connection: Connection) {
        let mut room = lock(&self.0);
        if room.total >= IDLE_MAX {
            return;
        }
        let since = room.sweeps;
        let waiting = room.idle.entry(place).or_default();
        if waiting.len() >= IDLE_PER_PLACE {
            return;
        }
        waiting.push(Idle { connection, since });
        room.total += 1;
        if room.sweeper.as_ref().is_none_or(AbortHandle::is_finished) {
            room.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(&self.0))).abort_handle());
        }
    }

    /// As the sweeper does when it comes round.
    #[cfg(test)]
    pub(crate) fn sweep(&self) {
        lock(&self.0).old();
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.0).total
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

impl Room {
    /// Takes out those that have waited for too long.
    fn old(&mut self) -> Vec<Idle> {
        self.sweeps += 1;
        let mut old = Vec::new();
        for waiting in self.idle.values_mut() {
            // They wait in the order in which they came.
            let young = waiting.iter().position(|idle| self.sweeps - idle.since < SWEEPS);
            let kept = waiting.split_off(young.unwrap_or(waiting.len()));
            old.append(&mut mem::replace(waiting, kept));
        }
        self.idle.retain(|_, waiting| !waiting.is_empty());
        self.total -= old.len();
        old
    }
}

/// Closes what has waited for too long, until nothing waits any more.
async fn sweep(room: Weak<Mutex<Room>>) {
    let mut turns = tokio::time::interval(SWEEP_EVERY);
    // The first comes at once.
    turns.tick().await;
    loop {
        turns.tick().await;
        let Some(room) = room.upgrade() else { return };
        let mut room = lock(&room);
        let old = room.old();
        let is_done = room.total == 0;
        if is_done {
            room.sweeper = None;
        }
        // Closing takes time, which nobody shall spend waiting for the room.
        drop(room);
        drop(old);
        if is_done {
            return;
        }
    }
}

fn lock(room: &Mutex<Room>) -> MutexGuard<'_, Room> {
    room.lock().unwrap_or_else(PoisonError::into_inner)
}
