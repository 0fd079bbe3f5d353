//! Connections that wait for the next call to their target.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::http1::Connection;
use crate::time::{Instant, now};

/// A further one is closed: those that wait are as likely to be of use.
const IDLE_MAX: usize = 256;
/// How much sooner than the target we give a connection up, so that no call meets its end.
const MARGIN: Duration = Duration::from_secs(1);

/// A connection that waited for less was looked at just now.
const HOT: Duration = Duration::from_millis(10);

/// A connection that waited for longer may not be needed any more.
const COOL: Duration = Duration::from_millis(500);

/// The idle connections to one target, which speak HTTP/1.1.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Idle>>);

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
    until: Instant,
}

/// Where a connection goes when its answer is whole, and for how long.
#[derive(Debug)]
pub(crate) struct Keeping {
    pool: Arc<Pool>,
    time: Duration,
}

impl Keeping {
    /// At most for `time`, and less where the target says so.
    pub(crate) fn new(pool: &Arc<Pool>, time: Duration, said: Option<Duration>) -> Self {
        let time = said.map_or(time, |said| said.saturating_sub(MARGIN).min(time));
        Self { pool: pool.clone(), time }
    }

    pub(crate) fn put(self, connection: Connection) {
        let since = now();
        let idle = Idle { connection, since, until: since + self.time };
        let mut waiting = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < IDLE_MAX {
            waiting.push(idle);
        }
    }
}

impl Pool {
    /// The connection that was used last, if the target has not closed it. What a target says unasked on a connection is
    /// no answer to anybody: such a connection is closed.
    pub(crate) async fn take(&self) -> Option<Connection> {
        loop {
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            let now = now();
            if now.saturating_duration_since(idle.since) > HOT {
                // The reactor gets a turn, so that a connection that was closed meanwhile is noticed.
                tokio::task::yield_now().await;
            }
            if idle.until > now && idle.connection.is_quiet() {
                return Some(idle.connection);
            }
        }
    }

    /// Closes those that have waited too long, or that the target has closed. What was used just now is left where calls
    /// find it.
    pub(crate) fn sweep(&self) {
        let now = now();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // They are in the order in which they were put there.
        let cool = waiting.partition_point(|idle| now.saturating_duration_since(idle.since) > COOL);
        let looked_at: Vec<_> = waiting.drain(..cool).collect();
        drop(waiting);
        // Closing takes time, and must not happen under the lock.
        let of_use = |mut idle: Idle| (idle.until > now && idle.connection.is_quiet()).then_some(idle);
        let mut still: Vec<_> = looked_at.into_iter().filter_map(of_use).collect();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        still.append(&mut waiting);
        *waiting = still;
    }
}
