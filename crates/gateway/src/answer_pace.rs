//! How fast an answer has to be taken.

use std::time::Duration;

use portico_engine::clock::Stopwatch;

/// A peer that takes nothing of its answer for so long is cut off,
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
/// and so is one that, after the same time, has taken less than this a second. So an answer has an end: a whole one of
/// 4 MiB is over after five minutes, whatever its reader does.
const WRITE_BYTES_PER_SECOND: u64 = 16 << 10;

/// How fast a peer takes the answer that is on its way.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since when the peer has made us wait, if it does.
    waiting: Option<Stopwatch>,
    /// How long it made us wait before that.
    waited: Duration,
    /// How many bytes it took.
    taken: u64,
}

impl Pace {
    /// How much longer the peer may make us wait.
    pub(crate) fn left(&self) -> Duration {
        let earned = Duration::from_secs(self.taken / WRITE_BYTES_PER_SECOND);
        (WRITE_TIME_MAX + earned).saturating_sub(self.waited).min(WRITE_TIME_MAX)
    }

    /// From now on the peer makes us wait, unless it did before.
    pub(crate) fn wait(&mut self) {
        self.waiting.get_or_insert_with(Stopwatch::start);
    }

    /// Has the peer made us wait for longer than it may, or than `limit` if one is given?
    pub(crate) fn is_over(&self, limit: Option<Duration>) -> bool {
        let limit = limit.unwrap_or_else(|| self.left());
        self.waiting.is_some_and(|watch| watch.elapsed() > limit)
    }

    /// The peer took so many bytes.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.waited += self.waiting.take().map(|watch| watch.elapsed()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_trickles_runs_out_of_time() {
        let mut pace = Pace::default();
        assert_eq!(pace.left(), WRITE_TIME_MAX);
        pace.waited = Duration::from_secs(29);
        assert_eq!(pace.left(), Duration::from_secs(1));
        pace.took(usize::try_from(WRITE_BYTES_PER_SECOND * 4).unwrap());
        assert_eq!(pace.left(), Duration::from_secs(5), "each piece earns the time it may take");
        pace.waited += Duration::from_secs(5);
        assert_eq!(pace.left(), Duration::ZERO);
        pace.took(1 << 30);
        assert_eq!(pace.left(), WRITE_TIME_MAX, "nobody may stand still for longer");
    }
}
