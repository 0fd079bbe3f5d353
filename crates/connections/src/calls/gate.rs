//! How much runs at once on this server: of one connection, and of one account.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use portico_kernel::{AccountId, ConnectionId, Problem};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{limits, refusals};

/// What calls pass before they are sent.
pub(crate) struct Gates {
    connections: Gate<ConnectionId>,
    accounts: Gate<AccountId>,
    rooms: Rooms,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            connections: Gate::new(limits::CALLS_AT_ONCE, Some(limits::CALLS_WAITING_MAX)),
            // Whoever waits here holds a slot of a connection: no more can than there are of these.
            accounts: Gate::new(limits::ACCOUNT_CALLS_AT_ONCE, None),
            rooms: Rooms::default(),
        }
    }
}

/// The slots of a call that is sent, until this is dropped.
pub(crate) struct Slots {
    _of_connection: Option<Slot<ConnectionId>>,
    _of_account: Slot<AccountId>,
}

impl Gates {
    /// Takes a slot of the connection, if it is made already, and of the account, once there is one of each. Refuses when too
    /// many wait already, or for too long. There is none of the server: one account is not to wait for what another fills.
    pub(crate) async fn enter(
        &self,
        account: AccountId,
        connection: Option<ConnectionId>,
    ) -> Result<Slots, Problem> {
        let all = async {
            let of_connection = match connection {
                Some(connection) => Some(self.connections.enter(connection).await?),
                None => None,
            };
            let of_account = self.accounts.enter(account).await?;
            Some(Slots { _of_connection: of_connection, _of_account: of_account })
        };
        let entered = tokio::time::timeout(limits::CALLS_WAIT_MAX, all).await;
        entered.ok().flatten().ok_or_else(refusals::busy)
    }

    /// Takes room for the parameters of a call of the account. Refuses when there is none left.
    pub(crate) fn take_room(&self, account: AccountId, size: usize) -> Result<Room, Problem> {
        self.rooms.take(account, size.max(limits::CALL_BYTES_MIN)).ok_or_else(refusals::busy)
    }
}

/// Slots by key, of which each has so many. It remembers those that somebody is at.
struct Gate<K>(Arc<Inside<K>>);

struct Inside<K> {
    at_once: usize,
    /// How many may wait for one key; `None` for any number.
    waiting_max: Option<usize>,
    open: Mutex<HashMap<K, Open>>,
}

struct Open {
    slots: Arc<Semaphore>,
    /// Those who are inside or wait.
    callers: usize,
}

/// A slot, until it is dropped.
struct Slot<K: Eq + Hash> {
    _permit: OwnedSemaphorePermit,
    _caller: AtGate<K>,
}

/// Somebody who is inside or waits.
struct AtGate<K: Eq + Hash> {
    gate: Arc<Inside<K>>,
    key: K,
}

impl<K: Eq + Hash> Drop for AtGate<K> {
    fn drop(&mut self) {
        let mut open = self.gate.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.get_mut(&self.key) {
            at.callers -= 1;
            if at.callers == 0 {
                open.remove(&self.key);
            }
        }
    }
}

impl<K: Copy + Eq + Hash> Gate<K> {
    fn new(at_once: usize, waiting_max: Option<usize>) -> Self {
        Self(Arc::new(Inside { at_once, waiting_max, open: Mutex::default() }))
    }

    /// Takes a slot, once there is one; `None` where too many wait already.
    async fn enter(&self, key: K) -> Option<Slot<K>> {
        let (slots, caller) = self.arrive(key)?;
        // It is never closed.
        let permit = slots.acquire_owned().await.ok()?;
        Some(Slot { _permit: permit, _caller: caller })
    }

    fn arrive(&self, key: K) -> Option<(Arc<Semaphore>, AtGate<K>)> {
        let Inside { at_once, waiting_max, ref open } = *self.0;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        let at =
            open.entry(key).or_insert_with(|| Open { slots: Arc::new(Semaphore::new(at_once)), callers: 0 });
        if waiting_max.is_some_and(|most| at.callers >= at_once + most) {
            return None;
        }
        at.callers += 1;
        Some((at.slots.clone(), AtGate { gate: self.0.clone(), key }))
    }
}

/// What the parameters of an account's calls take that are under way.
#[derive(Clone, Default)]
struct Rooms(Arc<Mutex<HashMap<AccountId, usize>>>);

/// Room that a call takes, until this is dropped.
pub(crate) struct Room {
    rooms: Rooms,
    account: AccountId,
    size: usize,
}

impl Rooms {
    fn take(&self, account: AccountId, size: usize) -> Option<Room> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_account = taken.get(&account).copied().unwrap_or_default() + size;
        (of_account <= limits::ACCOUNT_PARAMS_BYTES_MAX).then(|| {
            taken.insert(account, of_account);
            Room { rooms: self.clone(), account, size }
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.rooms.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_account) = taken.get_mut(&self.account) {
            *of_account -= self.size;
            if *of_account == 0 {
                taken.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use portico_kernel::Timestamp;

    use super::*;

    fn connection(number: u8) -> ConnectionId {
        ConnectionId::from_parts(Timestamp::from_seconds(1), [number; 10])
    }

    fn account(number: u8) -> AccountId {
        AccountId::from_parts(Timestamp::from_seconds(1), [number; 10])
    }

    #[tokio::test]
    async fn so_many_call_a_connection_and_so_many_wait() {
        let gates = Arc::new(Gates::default());
        let (of, id, other) = (account(0), connection(0), connection(1));
        let mut inside = Vec::new();
        for _ in 0..limits::CALLS_AT_ONCE {
            inside.push(gates.enter(of, Some(id)).await.unwrap());
        }
        let waiting: Vec<_> = (0..limits::CALLS_WAITING_MAX)
            .map(|_| {
                let gates = gates.clone();
                tokio::spawn(async move { gates.enter(of, Some(id)).await.map(drop) })
            })
            .collect();
        let most = limits::CALLS_AT_ONCE + limits::CALLS_WAITING_MAX;
        while gates.connections.0.open.lock().unwrap()[&id].callers < most {
            tokio::task::yield_now().await;
        }
        assert!(gates.enter(of, Some(id)).await.is_err(), "too many wait");
        drop(gates.enter(of, Some(other)).await.unwrap());
        drop(inside);
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
        assert!(gates.connections.0.open.lock().unwrap().is_empty());
        assert!(gates.accounts.0.open.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_account_does_not_take_all_by_many_connections() {
        let gates = Gates::default();
        let mut inside = Vec::new();
        for number in 0..limits::ACCOUNT_CALLS_AT_ONCE {
            let id = connection(u8::try_from(number).unwrap());
            inside.push(gates.enter(account(0), Some(id)).await.unwrap());
        }
        let mut one_more = Box::pin(gates.enter(account(0), Some(connection(200))));
        assert!((&mut one_more).now_or_never().is_none(), "it waits");
        drop(gates.enter(account(1), Some(connection(201))).await.unwrap());
        inside.pop();
        drop(one_more.await.unwrap());
    }

    #[test]
    fn parameters_take_room_until_the_call_is_over() {
        let gates = Gates::default();
        let half = limits::ACCOUNT_PARAMS_BYTES_MAX / 2;
        let first = gates.take_room(account(0), half).unwrap();
        let second = gates.take_room(account(0), half).unwrap();
        assert!(gates.take_room(account(0), 0).is_err(), "every call takes some");
        drop(gates.take_room(account(1), half).unwrap());
        drop(first);
        drop(gates.take_room(account(0), half).unwrap());
        drop(second);
        assert!(gates.rooms.0.lock().unwrap().is_empty());
    }
}
