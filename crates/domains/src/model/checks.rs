//! How often a domain may be checked.

use std::time::Duration;

use portico_kernel::Timestamp;

use crate::limits;

/// The last checks of a domain, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Checks(Vec<Timestamp>);

impl Checks {
    /// Reads what [`Checks::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> Self {
        let micros = text.split(' ').filter_map(|micros| micros.parse().ok());
        Self(micros.map(Timestamp::from_micros).collect())
    }

    /// In microseconds, with spaces between them.
    pub(crate) fn to_text(&self) -> String {
        self.0.iter().map(|at| at.as_micros().to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Notes a check now; when there were too many, says how long to wait, and notes nothing.
    pub(crate) fn note(&mut self, now: Timestamp) -> Result<(), Duration> {
        // One from a clock that is ahead counts like any other, and leaves as one of now would.
        self.0.retain(|at| now.since(*at) < limits::CHECKS_WINDOW);
        if let Some(oldest) = self.0.iter().rev().nth(limits::CHECKS_MAX - 1) {
            return Err((*oldest + limits::CHECKS_WINDOW).since(now).min(limits::CHECKS_WINDOW));
        }
        self.0.push(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_in_a_minute_waits_for_the_first_to_leave() {
        let start = Timestamp::from_seconds(1_000);
        let mut checks = Checks::default();
        for number in 0..10 {
            assert_eq!(checks.note(start + Duration::from_secs(number)), Ok(()), "{number}");
            checks = Checks::from_text(&checks.to_text());
        }
        assert_eq!(checks.note(start + Duration::from_secs(20)), Err(Duration::from_secs(40)));
        assert_eq!(checks.note(start + Duration::from_micros(59_999_999)), Err(Duration::from_micros(1)));
        assert_eq!(checks.note(start + Duration::from_mins(1)), Ok(()));
        assert_eq!(checks.note(start + Duration::from_mins(1)), Err(Duration::from_secs(1)));
        assert_eq!(checks.note(start + Duration::from_mins(5)), Ok(()));
        assert_eq!(checks.to_text(), (start + Duration::from_mins(5)).as_micros().to_string());
    }

    #[test]
    fn a_clock_that_was_ahead_locks_nobody_out() {
        let now = Timestamp::from_seconds(1_000);
        let mut checks = Checks(vec![now + Duration::from_hours(9); 10]);
        assert_eq!(checks.note(now), Err(limits::CHECKS_WINDOW));
        assert_eq!(Checks::from_text("x 5 y"), Checks(vec![Timestamp::from_micros(5)]));
    }
}
