//! Waits that fail when nothing moves, never because the machine is slow.

use std::pin::pin;
use std::time::Duration;

use portico_engine::clock::Stopwatch;

/// How long nothing may move before a wait fails. A busy machine is slow, but it does not stand still for so long.
const STALL_MAX: Duration = Duration::from_secs(45);

/// Waits for one thing, such as the next frame, and fails the test when it does not come. A wait for many things is
/// [`while_moving`]'s.
pub async fn soon<T>(what: &str, coming: impl Future<Output = T>) -> T {
    while_moving(what, || (), coming).await
}

/// Waits as long as `progress` changes; fails the test when it has not changed for a while.
pub async fn while_moving<T, P: PartialEq>(
    what: &str,
    progress: impl Fn() -> P,
    coming: impl Future<Output = T>,
) -> T {
    let mut coming = pin!(coming);
    let mut before = progress();
    loop {
        if let Ok(come) = tokio::time::timeout(STALL_MAX, &mut coming).await {
            return come;
        }
        let now = progress();
        assert!(now != before, "{what} did not come, and nothing has moved for {STALL_MAX:?}");
        before = now;
    }
}

/// The same for a loop that looks again and again, of which [`Stall::check`] is a part.
pub struct Stall<P> {
    last: Option<P>,
    since: Stopwatch,
}

impl<P: PartialEq> Stall<P> {
    /// Starts now.
    pub fn start() -> Self {
        Self { last: None, since: Stopwatch::start() }
    }

    /// Fails the test when `progress` has been the same for a while.
    pub fn check(&mut self, progress: P, what: impl FnOnce() -> String) {
        if self.last.as_ref() != Some(&progress) {
            *self = Self { last: Some(progress), since: Stopwatch::start() };
        }
        assert!(self.since.elapsed() < STALL_MAX, "{}, and nothing has moved for {STALL_MAX:?}", what());
    }
}
