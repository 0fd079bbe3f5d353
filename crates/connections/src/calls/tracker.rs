//! Work that a server waits for when it stops.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How much of it is under way.
#[derive(Clone, Default)]
pub(crate) struct Tracker(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    is_closed: bool,
}

/// One piece of work, under way until this is dropped.
pub(crate) struct Tracked(Arc<watch::Sender<State>>);

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.send_modify(|state| state.running -= 1);
    }
}

impl Tracker {
    /// Begins a piece of work; `None` once the server stops.
    pub(crate) fn begin(&self) -> Option<Tracked> {
        let begun = self.0.send_if_modified(|state| {
            if !state.is_closed {
                state.running += 1;
            }
            !state.is_closed
        });
        begun.then(|| Tracked(self.0.clone()))
    }

    /// From now on nothing begins. Waits for what is under way, at most so long; returns how much of it is left.
    pub(crate) async fn close(&self, wait_max: Duration) -> usize {
        let mut states = self.0.subscribe();
        self.0.send_modify(|state| state.is_closed = true);
        let ended = states.wait_for(|state| state.running == 0);
        match tokio::time::timeout(wait_max, ended).await {
            Ok(_) => 0,
            Err(_) => self.0.borrow().running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_under_way_is_waited_for_and_nothing_more_begins() {
        let tracker = Tracker::default();
        let (first, second) = (tracker.begin().unwrap(), tracker.begin().unwrap());
        drop(first);
        assert_eq!(tracker.close(Duration::ZERO).await, 1);
        assert!(tracker.begin().is_none(), "the server stops");
        let ending = async {
            tokio::task::yield_now().await;
            drop(second);
        };
        let (left, ()) = tokio::join!(tracker.close(Duration::from_mins(1)), ending);
        assert_eq!(left, 0);
        assert_eq!(tracker.close(Duration::ZERO).await, 0, "there is nothing to wait for");
    }
}
