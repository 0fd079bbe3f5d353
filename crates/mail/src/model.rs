//! What happens to a message after an attempt, without I/O.

use portico_engine::queue::WorkResult;
use portico_kernel::Timestamp;

use crate::limits::WAITS;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The server accepted the message.
    Sent,
    /// Another attempt may succeed.
    Failed(Reason),
    /// The server will never accept this message.
    Refused(Reason),
}

/// Why an attempt failed, for the log. The server's own text is left out: it repeats addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) message: &'static str,
    /// The server's code; 0 when it gave none.
    pub(crate) code: u16,
}

impl SendOutcome {
    /// Returns what follows from attempt number `attempts`, counted from one.
    pub(crate) fn result(self, attempts: i64, now: Timestamp) -> WorkResult {
        let attempts_before = usize::try_from(attempts.saturating_sub(1)).unwrap_or(0);
        match self {
            Self::Sent => WorkResult::Done,
            Self::Refused(_) => WorkResult::GiveUp,
            Self::Failed(_) => {
                WAITS.get(attempts_before).map_or(WorkResult::GiveUp, |wait| WorkResult::RetryAt(now + *wait))
            }
        }
    }

    /// Why it failed; `None` if it did not.
    pub(crate) fn reason(self) -> Option<Reason> {
        match self {
            Self::Sent => None,
            Self::Failed(reason) | Self::Refused(reason) => Some(reason),
        }
    }
}

/// Codes of a server that rejects our credentials (RFC 4954). They say nothing about the message: all mail would be lost
/// when somebody changes a password.
const AUTHENTICATION_CODES: [u16; 4] = [530, 534, 535, 538];

/// Returns whether the server refused the message permanently.
pub(crate) fn is_final(code: u16) -> bool {
    (500..600).contains(&code) && !AUTHENTICATION_CODES.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(1_700_000_000);
    const WHY: Reason = Reason { message: "", code: 0 };

    #[test]
    fn the_waits_grow_and_end() {
        let minutes = |attempts| match SendOutcome::Failed(WHY).result(attempts, NOW) {
            WorkResult::RetryAt(at) => Some(at.since(NOW).as_secs() / 60),
            _ => None,
        };
        let waits: Vec<_> = (1..=7).map(minutes).collect();
        assert_eq!(waits, [Some(1), Some(5), Some(30), Some(120), Some(360), None, None]);
        assert_eq!(SendOutcome::Failed(WHY).result(6, NOW), WorkResult::GiveUp);
        assert_eq!(SendOutcome::Refused(WHY).result(1, NOW), WorkResult::GiveUp);
        assert_eq!(SendOutcome::Sent.result(6, NOW), WorkResult::Done);
    }

    #[test]
    fn a_server_that_rejects_our_credentials_refuses_no_message() {
        for code in [500, 550, 552, 554, 599] {
            assert!(is_final(code), "{code}");
        }
        for code in [421, 451, 530, 534, 535, 538, 250] {
            assert!(!is_final(code), "{code}");
        }
    }
}
