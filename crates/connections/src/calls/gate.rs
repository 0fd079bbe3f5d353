//! How many calls of one connection run at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use portico_kernel::{ConnectionId, Problem};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{limits, refusals};

/// The gates of connections that somebody calls now.
#[derive(Clone, Default)]
pub(crate) struct Gates(Arc<Mutex<HashMap<ConnectionId, Gate>>>);

struct Gate {
    slots: Arc<Semaphore>,
    /// Those who are inside or wait.
    callers: usize,
}

/// A slot of a connection, until it is dropped.
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    _caller: AtGate,
}

/// Somebody who calls a connection or waits to.
struct AtGate {
    gates: Gates,
    connection: ConnectionId,
}

impl Drop for AtGate {
    fn drop(&mut self) {
        let mut gates = self.gates.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get_mut(&self.connection) {
            gate.callers -= 1;
            if gate.callers == 0 {
                gates.remove(&self.connection);
            }
        }
    }
}

impl Gates {
    /// Takes one of the connection's slots, once there is one. Refuses when too many wait already, or for too long.
    pub(crate) async fn enter(&self, connection: ConnectionId) -> Result<Slot, Problem> {
        let (slots, caller) = self.arrive(connection).ok_or_else(refusals::busy)?;
        let waiting = tokio::time::timeout(limits::CALLS_WAIT_MAX, slots.acquire_owned());
        match waiting.await {
            Ok(Ok(permit)) => Ok(Slot { _permit: permit, _caller: caller }),
            // The semaphore is never closed; whoever waited in vain is told the same.
            Ok(Err(_)) | Err(_) => Err(refusals::busy()),
        }
    }

    fn arrive(&self, connection: ConnectionId) -> Option<(Arc<Semaphore>, AtGate)> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = gates
            .entry(connection)
            .or_insert_with(|| Gate { slots: Arc::new(Semaphore::new(limits::CALLS_AT_ONCE)), callers: 0 });
        if gate.callers >= limits::CALLS_AT_ONCE + limits::CALLS_WAITING_MAX {
            return None;
        }
        gate.callers += 1;
        Some((gate.slots.clone(), AtGate { gates: self.clone(), connection }))
    }
}

#[cfg(test)]
mod tests {
    use portico_kernel::Timestamp;

    use super::*;

    #[tokio::test]
    async fn so_many_call_and_so_many_wait() {
        let gates = Gates::default();
        let id = ConnectionId::from_parts(Timestamp::from_seconds(1), [0; 10]);
        let other = ConnectionId::from_parts(Timestamp::from_seconds(1), [1; 10]);
        let mut inside = Vec::new();
        for _ in 0..limits::CALLS_AT_ONCE {
            inside.push(gates.enter(id).await.unwrap());
        }
        let waiting: Vec<_> = (0..limits::CALLS_WAITING_MAX)
            .map(|_| {
                tokio::spawn({
                    let gates = gates.clone();
                    async move { gates.enter(id).await.map(drop) }
                })
            })
            .collect();
        while gates.0.lock().unwrap()[&id].callers < limits::CALLS_AT_ONCE + limits::CALLS_WAITING_MAX {
            tokio::task::yield_now().await;
        }
        assert!(gates.enter(id).await.is_err(), "too many wait");
        drop(gates.enter(other).await.unwrap());
        drop(inside);
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert!(gates.0.lock().unwrap().is_empty());
    }
}
