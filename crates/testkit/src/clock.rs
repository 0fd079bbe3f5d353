//! A clock that is turned by hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use portico_kernel::{Clock, Sleep, Timestamp};
use tokio::sync::watch;

/// Stands still until it is advanced.
#[derive(Clone)]
pub struct FakeClock(Arc<Mutex<watch::Sender<Timestamp>>>);

impl Default for FakeClock {
    fn default() -> Self {
        // Not on a whole second, where rounding would hide.
        let start = "2026-01-31T09:30:00.250Z".parse().expect("a time");
        Self(Arc::new(Mutex::new(watch::Sender::new(start))))
    }
}

impl FakeClock {
    /// Lets time go by.
    pub fn advance(&self, span: Duration) {
        self.0.lock().unwrap().send_modify(|now| *now = *now + span);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap().borrow()
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        let until = self.now() + wait;
        let mut now = self.0.lock().unwrap().subscribe();
        Box::pin(async move {
            let _ = now.wait_for(|now| *now >= until).await.map(drop);
        })
    }
}
