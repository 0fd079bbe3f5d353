//! The queue of passwords that wait to be hashed or checked. Networks take turns, so that one that fills the queue keeps
//! nobody else waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::limits;

/// Bounds how many run, and how many wait.
pub(super) struct PasswordQueue {
    workers: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    running: usize,
    /// The networks that wait, in the order of their turns.
    networks: VecDeque<Network>,
}

/// What waits of one network, oldest first. There is always something.
struct Network {
    name: String,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// The right to run. When it is dropped, the next one runs.
pub(super) struct Permit(Arc<Mutex<State>>);

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PasswordQueue {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, state: Arc::default() }
    }

    /// Waits for a permit; `None` when too many wait already.
    pub(super) async fn enter(&self, network: &str) -> Option<Permit> {
        let waiting = {
            let mut state = lock(&self.state);
            if state.running < self.workers {
                state.running += 1;
                return Some(Permit(self.state.clone()));
            }
            state.add(network)?
        };
        waiting.await.ok()
    }
}

impl State {
    /// Adds one of the network. When the queue is full, the last one of the network that has most waiting makes room,
    /// unless that is this one.
    fn add(&mut self, name: &str) -> Option<oneshot::Receiver<Permit>> {
        for network in &mut self.networks {
            network.waiting.retain(|waiting| !waiting.is_closed());
        }
        self.networks.retain(|network| !network.waiting.is_empty());
        let own = self.networks.iter().find(|network| network.name == name);
        let own = own.map_or(0, |network| network.waiting.len());
        if own >= limits::PASSWORDS_WAITING_OF_NETWORK_MAX {
            return None;
        }
        let all: usize = self.networks.iter().map(|network| network.waiting.len()).sum();
        if all >= limits::PASSWORDS_WAITING_MAX {
            let longest = self.networks.iter_mut().max_by_key(|network| network.waiting.len());
            // Whoever makes room has more left than the one who comes.
            longest.filter(|longest| longest.waiting.len() > own + 1)?.waiting.pop_back();
        }
        let (sender, receiver) = oneshot::channel();
        match self.networks.iter_mut().find(|network| network.name == name) {
            Some(network) => network.waiting.push_back(sender),
            None => self.networks.push_back(Network { name: name.to_owned(), waiting: [sender].into() }),
        }
        Some(receiver)
    }

    /// The first one of the network whose turn it is.
    fn next(&mut self) -> Option<oneshot::Sender<Permit>> {
        let mut network = self.networks.pop_front()?;
        let next = network.waiting.pop_front();
        if !network.waiting.is_empty() {
            self.networks.push_back(network);
        }
        next
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        let next = state.next();
        if next.is_none() {
            state.running -= 1;
        }
        drop(state);
        // A permit that its receiver no longer waits for is dropped here, and goes to the one after.
        if let Some(next) = next {
            drop(next.send(Self(self.0.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Entering<'q> = Pin<Box<dyn Future<Output = Option<Permit>> + 'q>>;

    fn poll(entering: &mut Entering<'_>) -> Poll<Option<Permit>> {
        entering.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Those who wait, each with its network.
    struct Waiting<'q>(&'q PasswordQueue, Vec<(&'q str, Entering<'q>)>);

    impl<'q> Waiting<'q> {
        fn add(&mut self, network: &'q str, count: usize) {
            for _ in 0..count {
                let mut entering: Entering<'q> = Box::pin(self.0.enter(network));
                assert!(poll(&mut entering).is_pending(), "{network} waits");
                self.1.push((network, entering));
            }
        }

        /// The first one that waits no longer: its network, and its permit or none.
        fn done(&mut self) -> Option<(&'q str, Option<Permit>)> {
            let done = |(index, (_, entering)): (usize, &mut (&str, Entering<'_>))| match poll(entering) {
                Poll::Ready(permit) => Some((index, permit)),
                Poll::Pending => None,
            };
            let (index, permit) = self.1.iter_mut().enumerate().find_map(done)?;
            Some((self.1.remove(index).0, permit))
        }

        /// Ends what runs, again and again; returns whose turn it was, until nobody waits.
        fn turns(&mut self, mut running: Permit) -> Vec<&'q str> {
            let mut turns = Vec::new();
            while !self.1.is_empty() {
                drop(running);
                let (network, permit) = self.done().unwrap();
                turns.push(network);
                running = permit.unwrap();
            }
            turns
        }
    }

    fn is_refused(queue: &PasswordQueue, network: &str) -> bool {
        let mut entering: Entering<'_> = Box::pin(queue.enter(network));
        matches!(poll(&mut entering), Poll::Ready(None))
    }

    #[tokio::test]
    async fn networks_take_turns() {
        let queue = PasswordQueue::new(1);
        let running = queue.enter("greedy").await.unwrap();
        let mut waiting = Waiting(&queue, Vec::new());
        waiting.add("greedy", 16);
        assert!(is_refused(&queue, "greedy"), "a network has 16 waiting at most");
        waiting.add("one", 2);
        waiting.add("two", 1);
        let turns = waiting.turns(running);
        assert_eq!(turns.len(), 19);
        assert_eq!(turns[..6], ["greedy", "one", "two", "greedy", "one", "greedy"]);
        assert_eq!(lock(&queue.state).running, 0);
    }

    #[tokio::test]
    async fn whoever_has_most_waiting_makes_room() {
        let queue = PasswordQueue::new(1);
        let running = queue.enter("a").await.unwrap();
        let mut waiting = Waiting(&queue, Vec::new());
        for greedy in ["a", "b", "c", "d"] {
            waiting.add(greedy, 16);
        }
        waiting.add("honest", 1);
        assert!(matches!(waiting.done(), Some((_, None))), "one had to go");
        assert!(waiting.done().is_none(), "and no other");
        assert!(waiting.turns(running)[..5].contains(&"honest"), "after one of each at most");
    }

    #[tokio::test]
    async fn who_is_gone_takes_no_turn_and_no_room() {
        let queue = PasswordQueue::new(1);
        let running = queue.enter("a").await.unwrap();
        let mut left = Waiting(&queue, Vec::new());
        left.add("a", 16);
        drop(left);
        let mut waiting = Waiting(&queue, Vec::new());
        waiting.add("a", 1);
        assert_eq!(waiting.turns(running), ["a"]);
        assert_eq!(lock(&queue.state).running, 0);
    }
}
