//! Leaving a target out that fails again and again.

use std::time::Duration;

use crate::time::Instant;

/// So many failures in a row are enough.
const FAILURES_MAX: u32 = 5;
/// How long the others wait while one call tries the target.
const TRIAL_WAIT: Duration = Duration::from_secs(1);

/// Whether a target may be asked, by how its last calls ended.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    /// How long a target is left out.
    pause: Duration,
}

#[derive(Debug)]
enum State {
    /// It may be asked. So many calls in a row have failed.
    Closed(u32),
    /// It is left out, and may be tried afterwards.
    Open(Instant),
    /// One call tries it.
    HalfOpen,
}

impl Breaker {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { state: State::Closed(0), pause }
    }

    /// How long is to be waited before it may be asked; `None` if it may be now.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Closed(_) => None,
            State::Open(until) => Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero()),
            State::HalfOpen => Some(TRIAL_WAIT),
        }
    }

    /// Begins a call, if there may be one. `true` if it is the one that tries a target that was left out.
    pub(crate) fn enter(&mut self, now: Instant) -> Option<bool> {
        if self.wait(now).is_some() {
            return None;
        }
        let is_trial = matches!(self.state, State::Open(_));
        if is_trial {
            self.state = State::HalfOpen;
        }
        Some(is_trial)
    }

    /// A call was answered. Those that began before the target was left out do not bring it back.
    pub(crate) fn answered(&mut self, is_trial: bool) {
        if is_trial || matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(0);
        }
    }

    /// A call failed. Is the target left out from now on?
    pub(crate) fn failed(&mut self, is_trial: bool, now: Instant) -> bool {
        match &mut self.state {
            State::Closed(failures) if *failures + 1 < FAILURES_MAX => {
                *failures += 1;
                return false;
            }
            State::Open(_) | State::HalfOpen if !is_trial => return false,
            _ => {}
        }
        self.state = State::Open(now + self.pause);
        true
    }

    /// The call that tried it ended without that the target showed anything. The next one may try it.
    pub(crate) fn abandoned(&mut self, now: Instant) {
        self.state = State::Open(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::now;

    const PAUSE: Duration = Duration::from_secs(5);

    /// A breaker that has just opened.
    fn open(now: Instant) -> Breaker {
        let mut breaker = Breaker::new(PAUSE);
        (1..FAILURES_MAX).for_each(|_| assert!(!breaker.failed(false, now)));
        assert!(breaker.failed(false, now));
        breaker
    }

    #[test]
    fn five_failures_in_a_row_leave_a_target_out() {
        let start = now();
        let mut breaker = Breaker::new(PAUSE);
        for _ in 0..3 {
            (0..4).for_each(|_| assert!(!breaker.failed(false, start)));
            assert_eq!(breaker.enter(start), Some(false));
            breaker.answered(false);
        }
        (0..4).for_each(|_| assert!(!breaker.failed(false, start)));
        assert_eq!(breaker.enter(start), Some(false));
        assert!(breaker.failed(false, start));
        assert_eq!((breaker.enter(start), breaker.wait(start)), (None, Some(PAUSE)));
        let almost = start + PAUSE - Duration::from_millis(1);
        assert_eq!((breaker.enter(almost), breaker.wait(almost)), (None, Some(Duration::from_millis(1))));
    }

    #[test]
    fn afterwards_one_call_tries_it() {
        let start = now();
        let later = start + PAUSE;
        let mut breaker = open(start);
        assert_eq!([0; 3].map(|_| breaker.enter(later)), [Some(true), None, None]);
        breaker.answered(true);
        assert_eq!([0; 3].map(|_| breaker.enter(later)), [Some(false); 3]);

        let mut breaker = open(start);
        assert_eq!(breaker.enter(later), Some(true));
        assert!(breaker.failed(true, later));
        assert_eq!((breaker.enter(later), breaker.wait(later)), (None, Some(PAUSE)));
        assert_eq!(breaker.enter(later + PAUSE), Some(true));
        breaker.abandoned(later + PAUSE);
        assert_eq!(breaker.enter(later + PAUSE), Some(true), "the first has shown nothing");
    }

    #[test]
    fn calls_from_before_change_nothing() {
        let start = now();
        let later = start + PAUSE;
        let mut breaker = open(start);
        breaker.answered(false);
        assert!(!breaker.failed(false, start + PAUSE / 2));
        assert_eq!((breaker.enter(start), breaker.wait(start)), (None, Some(PAUSE)));
        assert_eq!(breaker.enter(later), Some(true));
        breaker.answered(false);
        assert!(!breaker.failed(false, later));
        assert_eq!(breaker.enter(later), None);
    }
}
