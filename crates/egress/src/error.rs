//! Why a call did not succeed.

use std::fmt;

/// Why a call was refused or failed. Nothing here says which address a name led to, or what answered there: whoever
/// chose the name could look around in a private network with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressError {
    /// It is not an address that can be called.
    BadAddress,
    /// It leads to a place that must not be called.
    Blocked,
    /// The name is not known.
    Dns,
    /// Nobody answers, or the connection broke.
    Connection,
    /// The other side cannot prove who it is.
    Tls,
    /// The whole exchange took too long.
    Timeout,
    /// The answer is longer than was asked for.
    TooLarge,
    /// The answer is not HTTP.
    Protocol,
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadAddress => "the address must be https, without a user, a password or a fragment",
            Self::Blocked => "the address leads to a place that must not be called",
            Self::Dns => "the name of the address is not known",
            Self::Connection => "the address cannot be reached",
            Self::Tls => "no secure connection to the address can be made",
            Self::Timeout => "the address did not answer in time",
            Self::TooLarge => "the address answered with too much",
            Self::Protocol => "the address did not answer in HTTP",
        })
    }
}

impl std::error::Error for EgressError {}
