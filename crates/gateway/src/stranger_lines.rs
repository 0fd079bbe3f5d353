//! How many lines of the log are for requests of clients that nobody knows: a log that strangers can fill is none.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portico_engine::clock::Stopwatch;

/// Lines in a second; the metrics count every request.
const LINES_PER_SECOND: u32 = 50;

/// The lines of the current second.
#[derive(Default)]
pub(crate) struct StrangerLines(Mutex<Option<Lines>>);

struct Lines {
    since: Stopwatch,
    written: u32,
    left_out: u32,
}

impl StrangerLines {
    /// May one more line be written? The first of a second says how many were left out in the one before.
    pub(crate) fn take(&self) -> bool {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = lines.get_or_insert_with(Lines::start);
        if now.since.elapsed() >= Duration::from_secs(1) {
            if now.left_out > 0 {
                tracing::info!(requests = now.left_out, "Requests of strangers were not logged one by one");
            }
            *now = Lines::start();
        }
        let may = now.written < LINES_PER_SECOND;
        if may {
            now.written += 1;
        } else {
            now.left_out += 1;
        }
        may
    }
}

impl Lines {
    fn start() -> Self {
        Self { since: Stopwatch::start(), written: 0, left_out: 0 }
    }
}
