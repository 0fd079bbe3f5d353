//! Why there is no answer, or not all of it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why a call has no answer.
#[derive(Debug)]
pub enum Failure {
    /// Every target is left out at the moment; none was asked.
    NoTarget {
        /// When the next one may be asked.
        wait: Duration,
    },
    /// No connection to the target could be opened.
    Connect {
        /// The target's name.
        target: Arc<str>,
        /// What the system or TLS said.
        cause: io::Error,
    },
    /// The connection ended before the target answered a byte. It may have seen the request.
    Unanswered {
        /// The target's name.
        target: Arc<str>,
    },
    /// What the target answered is not the head of an answer, or not all of it.
    BrokenHead {
        /// The target's name.
        target: Arc<str>,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// The target took too long to take the request, or to answer.
    TimedOut {
        /// The target's name.
        target: Arc<str>,
    },
    /// The body of the request broke off. The target has seen that it is not whole.
    RequestBroke {
        /// The target's name.
        target: Arc<str>,
    },
}

impl Failure {
    /// The name of the target, if one was asked.
    pub fn target(&self) -> Option<&Arc<str>> {
        match self {
            Self::NoTarget { .. } => None,
            Self::Connect { target, .. }
            | Self::Unanswered { target }
            | Self::BrokenHead { target, .. }
            | Self::TimedOut { target }
            | Self::RequestBroke { target } => Some(target),
        }
    }

    /// May the same call succeed at another target without that any byte was answered by this one?
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Unanswered { .. })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget { wait } => write!(f, "every target is left out for {} ms", wait.as_millis()),
            Self::Connect { target, cause } => write!(f, "no connection to {target}: {cause}"),
            Self::Unanswered { target } => write!(f, "{target} hung up before it answered"),
            Self::BrokenHead { target, cause } => write!(f, "{target} answered what cannot be used: {cause}"),
            Self::TimedOut { target } => write!(f, "{target} took too long"),
            Self::RequestBroke { target } => write!(f, "the request to {target} broke off"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connect { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

/// Why the body of an answer ended before it was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerError {
    /// The connection ended, or the target gave the answer up.
    BrokeOff,
    /// Its framing cannot be understood, or its trailers not.
    Framing(&'static str),
    /// The body of the request broke off while the answer was under way.
    RequestBroke,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BrokeOff => f.write_str("the answer broke off"),
            Self::Framing(cause) => write!(f, "the answer cannot be read: {cause}"),
            Self::RequestBroke => f.write_str("the request broke off"),
        }
    }
}

impl std::error::Error for AnswerError {}

/// Why one try over one connection failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing of the request was seen by the target: it may be sent again whatever it is.
    Unsent,
    Connect(io::Error),
    Unanswered,
    BrokenHead(&'static str),
    TimedOut,
    RequestBroke,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(cause) => write!(f, "no connection: {cause}"),
            Self::Unsent | Self::Unanswered => f.write_str("it hung up"),
            Self::BrokenHead(cause) => f.write_str(cause),
            Self::TimedOut => f.write_str("it took too long"),
            Self::RequestBroke => f.write_str("the request broke off"),
        }
    }
}

impl Fault {
    pub(crate) fn at(self, target: &Arc<str>) -> Failure {
        let target = target.clone();
        match self {
            Self::Unsent | Self::Unanswered => Failure::Unanswered { target },
            Self::Connect(cause) => Failure::Connect { target, cause },
            Self::BrokenHead(cause) => Failure::BrokenHead { target, cause },
            Self::TimedOut => Failure::TimedOut { target },
            Self::RequestBroke => Failure::RequestBroke { target },
        }
    }
}
