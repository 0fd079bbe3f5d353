//! How fast those may go on whom nobody knows, or who are refused.
//!
//! A request costs more than its refusal only if somebody thinks about it. So whoever asks for pages, guesses tokens or
//! calls on after their minute is used up goes at a pace: some requests at once, then one after the other, in the order in
//! which they came. A request waits for its place before anything is done for it, a refusal before it leaves, and the
//! connection ends with it. Nobody else waits for them (docs/decisions/0038-fair-execution.md).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portico_engine::Metric;
use portico_engine::clock::Stopwatch;

use crate::party::Party;

/// So many at once,
const BURST: u32 = 100;
/// then one after each such span,
const EVERY: Duration = Duration::from_millis(50);
/// as long as it waits no longer than this.
pub(crate) const PACE_WAIT_MAX: Duration = Duration::from_secs(5);
/// Parties that are remembered. One who is forgotten has a burst more.
const PARTIES_MAX: usize = 10_000;

/// When the next place of each party comes.
pub(crate) struct Paces {
    since: Stopwatch,
    next: Mutex<HashMap<Party, Duration>>,
    slowed: AtomicU64,
    refused: AtomicU64,
}

impl Default for Paces {
    fn default() -> Self {
        let (slowed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { since: Stopwatch::start(), next: Mutex::default(), slowed, refused }
    }
}

impl Paces {
    /// Takes the next place of all of these: how long it is until then. `None`, and no place, when that is too long.
    pub(crate) fn take(&self, parties: &[Party]) -> Option<Duration> {
        let wait = self.take_at(parties, self.since.elapsed());
        match wait {
            Some(Duration::ZERO) => {}
            Some(_) => _ = self.slowed.fetch_add(1, Ordering::Relaxed),
            None => _ = self.refused.fetch_add(1, Ordering::Relaxed),
        }
        wait
    }

    fn take_at(&self, parties: &[Party], now: Duration) -> Option<Duration> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let every = |party: &Party| EVERY / party.networks();
        let wait_of = |party: &Party| {
            let next = next.get(party).copied().unwrap_or_default();
            next.saturating_sub(now).saturating_sub(EVERY * BURST)
        };
        let wait = parties.iter().map(wait_of).max().unwrap_or_default();
        if wait > PACE_WAIT_MAX {
            return None;
        }
        if next.len() + parties.len() > PARTIES_MAX {
            next.retain(|_, next| *next > now);
            if next.len() + parties.len() > PARTIES_MAX {
                next.clear();
            }
        }
        for party in parties {
            let next = next.entry(party.clone()).or_default();
            *next = (*next).max(now) + every(party);
        }
        Some(wait)
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> [Metric; 2] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            Metric::counter(
                "requests_slowed",
                "Requests and refusals that waited, because too many came from there",
                count(&self.slowed),
            ),
            Metric::counter(
                "requests_not_awaited",
                "Requests and refusals for which too many waited already",
                count(&self.refused),
            ),
        ]
    }
}

impl std::fmt::Debug for Paces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Paces").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(name: &str) -> Party {
        Party::Caller(name.to_owned())
    }

    #[test]
    fn after_a_burst_one_goes_after_the_other() {
        let (paces, now) = (Paces::default(), Duration::from_secs(1_000));
        let take = |name: &str, now| paces.take_at(&[party(name)], now);
        for _ in 0..=BURST {
            assert_eq!(take("greedy", now), Some(Duration::ZERO));
        }
        let waits = PACE_WAIT_MAX.as_millis() / EVERY.as_millis();
        for place in 1..=u32::try_from(waits).unwrap() {
            assert_eq!(take("greedy", now), Some(EVERY * place));
        }
        assert_eq!(take("greedy", now), None, "too many wait");
        assert_eq!(take("honest", now), Some(Duration::ZERO));
        let later = now + PACE_WAIT_MAX;
        assert_eq!(take("greedy", later), Some(EVERY), "what was refused took no place");
        assert_eq!(take("greedy", later + EVERY * (BURST + 1)), Some(Duration::ZERO));
    }

    #[test]
    fn memory_is_bounded() {
        let paces = Paces::default();
        for name in 0..3 * PARTIES_MAX {
            paces.take_at(&[party(&name.to_string())], Duration::from_secs(1));
            assert!(paces.next.lock().unwrap().len() <= PARTIES_MAX);
        }
    }
}
