//! The memory that the check of a password takes, which is much: whoever comes next finds it, so that it is there once for
//! each check that runs, and not once more for each that ran a moment ago.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argon2::Block;
use portico_engine::clock::SystemClock;
use portico_kernel::Clock;

/// How long it is kept after the last check.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// The memory that no check has at the moment.
#[derive(Clone, Default)]
pub(super) struct PasswordMemory(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    idle: Vec<Vec<Block>>,
    /// How many checks there were.
    checks: u64,
}

impl PasswordMemory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends it to `work`.
    pub(super) fn lend<T>(&self, work: impl FnOnce(&mut Vec<Block>) -> T) -> T {
        let mut blocks = self.state().idle.pop().unwrap_or_default();
        let done = work(&mut blocks);
        let mut state = self.state();
        state.idle.push(blocks);
        state.checks += 1;
        done
    }

    /// Gives it back to the system, unless there is another check meanwhile. Memory lives in real time.
    pub(super) async fn release(self) {
        let checks = self.state().checks;
        SystemClock.sleep(KEPT_FOR).await;
        self.release_after(checks);
    }

    /// Gives it back, unless there were more checks than that.
    fn release_after(&self, checks: u64) {
        let mut state = self.state();
        if state.checks == checks {
            state.idle = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_for_the_next_and_goes_when_nobody_comes() {
        let memory = PasswordMemory::default();
        let lend = |expected: usize| {
            memory.lend(|blocks| {
                assert_eq!(blocks.len(), expected);
                blocks.resize(8, Block::default());
            });
        };
        lend(0);
        lend(8);
        memory.release_after(1);
        lend(8);
        memory.release_after(3);
        lend(0);
    }
}
