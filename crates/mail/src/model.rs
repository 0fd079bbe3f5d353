//! What becomes of a letter, without I/O.

use portico_engine::queue::WorkResult;
use portico_kernel::Timestamp;

use crate::limits::WAITS;

/// What a try came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server took the letter.
    Sent,
    /// Another try may help.
    Failed(Reason),
    /// The server will never take this letter.
    Refused(Reason),
}

/// Why a try failed, in words for the log. What the server said stays out of it: it repeats addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) words: &'static str,
    /// The server's code; 0 when it gave none.
    pub(crate) code: u16,
}

impl Outcome {
    /// What follows from the outcome of attempt number `attempts`, counted from one.
    pub(crate) fn result(self, attempts: i64, now: Timestamp) -> WorkResult {
        let tries_before = usize::try_from(attempts.saturating_sub(1)).unwrap_or(0);
        match self {
            Self::Sent => WorkResult::Done,
            Self::Refused(_) => WorkResult::GiveUp,
            Self::Failed(_) => {
                WAITS.get(tries_before).map_or(WorkResult::GiveUp, |wait| WorkResult::RetryAt(now + *wait))
            }
        }
    }

    /// Why it failed, and the server's code; empty and 0 where it did not.
    pub(crate) fn reason(self) -> (&'static str, u16) {
        match self {
            Self::Sent => ("", 0),
            Self::Failed(reason) | Self::Refused(reason) => (reason.words, reason.code),
        }
    }
}

/// Codes of a server that will not have us (RFC 4954). They say nothing about the letter, and all letters would be lost
/// to a password that somebody changed.
const NOT_LET_IN: [u16; 4] = [530, 534, 535, 538];

/// Is a server's refusal about the letter, and for good?
pub(crate) fn is_final(code: u16) -> bool {
    (500..600).contains(&code) && !NOT_LET_IN.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
    const WHY: Reason = Reason { words: "", code: 0 };

    #[test]
    fn the_waits_grow_and_end() {
        let minutes = |attempts| match Outcome::Failed(WHY).result(attempts, NOW) {
            WorkResult::RetryAt(at) => Some(at.since(NOW).as_secs() / 60),
            _ => None,
        };
        let waits: Vec<_> = (1..=7).map(minutes).collect();
        assert_eq!(waits, [Some(1), Some(5), Some(30), Some(120), Some(360), None, None]);
        assert_eq!(Outcome::Failed(WHY).result(6, NOW), WorkResult::GiveUp);
        assert_eq!(Outcome::Refused(WHY).result(1, NOW), WorkResult::GiveUp);
        assert_eq!(Outcome::Sent.result(6, NOW), WorkResult::Done);
    }

    #[test]
    fn a_server_that_does_not_let_us_in_refuses_no_letter() {
        for code in [500, 550, 552, 554, 599] {
            assert!(is_final(code), "{code}");
        }
        for code in [421, 451, 530, 534, 535, 538, 250] {
            assert!(!is_final(code), "{code}");
        }
    }
}
