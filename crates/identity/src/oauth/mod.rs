//! OAuth 2.1: what apps and keys get tokens by.

pub(crate) mod authorize;
pub(crate) mod code;
mod document;
mod exchange;
mod introspect;
mod metadata;
pub(crate) mod redirect;
pub(crate) mod refresh;
mod register;
mod revoke;
pub(crate) mod target;
pub(crate) mod token;

pub(crate) mod client;

use std::time::Duration;

use portico_kernel::Problem;

use crate::http::write_limits::TooManyWrites;

/// Why the provider refuses, in OAuth's own terms (RFC 6749, section 5.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OAuthError {
    pub(crate) error: &'static str,
    pub(crate) description: String,
    /// How long to wait, when the rate limit is reached.
    pub(crate) retry_after: Option<Duration>,
}

impl OAuthError {
    pub(crate) fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: description.into(), retry_after: None }
    }

    pub(crate) fn invalid_request(description: impl Into<String>) -> Self {
        Self::new("invalid_request", description)
    }

    /// A code or refresh token that is unknown, spent, over or another's: one answer for all.
    pub(crate) fn invalid_grant() -> Self {
        Self::new(
            "invalid_grant",
            "The code or refresh token is unknown, spent, expired or of another client.",
        )
    }

    /// A client that is unknown, revoked, or whose secret is wrong: one answer for all three.
    pub(crate) fn invalid_client() -> Self {
        Self::new("invalid_client", "The client id or the client secret is wrong, or the key was revoked.")
    }

    /// Refuses when there is a time to wait, as [`take`](crate::people::attempts::take) returns it.
    pub(crate) fn check_rate(wait: Option<Duration>) -> Result<(), Self> {
        if wait.is_none() {
            return Ok(());
        }
        let refused = Self::new("temporarily_unavailable", "Too many requests; try again later.");
        Err(Self { retry_after: wait, ..refused })
    }
}

impl From<TooManyWrites> for OAuthError {
    fn from(refused: TooManyWrites) -> Self {
        Self { retry_after: Some(refused.wait), ..Self::new("temporarily_unavailable", refused.message) }
    }
}

/// What an endpoint of OAuth fails with: an error in OAuth's own shape, or a problem outside of it.
#[derive(Debug)]
pub(crate) enum EndpointError {
    Refusal(OAuthError),
    Problem(Problem),
}

impl From<OAuthError> for EndpointError {
    fn from(error: OAuthError) -> Self {
        Self::Refusal(error)
    }
}

impl<E: Into<Problem>> From<E> for EndpointError {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}
