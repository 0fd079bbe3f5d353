//! The pause of a worker before it reads its account's endpoints again.

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::{Clock, Sleep};

use crate::limits;

/// A rest, as long as there is one. It is real time, whatever the engine's clock says: it is about the processor.
#[derive(Default)]
pub(super) struct RefreshRest(Option<Sleep>);

impl RefreshRest {
    /// Is it over?
    pub(super) fn is_over(&self) -> bool {
        self.0.is_none()
    }

    /// Begins after a reading that was begun with `watch`.
    pub(super) fn begin(&mut self, watch: &Stopwatch) {
        let rest = (watch.elapsed() * limits::REFRESH_REST).min(limits::REFRESH_REST_MAX);
        self.0 = Some(SystemClock.sleep(rest));
    }

    /// Resolves when it is over.
    pub(super) async fn over(&mut self) {
        if let Some(rest) = &mut self.0 {
            rest.as_mut().await;
            self.0 = None;
        }
    }
}
