//! What the gateway gives to the others: a way to tell a client how far a call is, and the verdict on a token.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use portico_kernel::{AccountId, Caller, Problem, Secret};

use crate::Engine;

/// Hears how far a call is, on its way to whoever waits for it.
pub trait Progress: Send + Sync {
    /// So many of so many are done.
    fn tell(&self, done: u64, total: u64, words: &str);
}

/// A call that somebody else serves, and for which they were shown this token.
pub struct TokenCheck {
    /// The service that asks.
    pub service: String,
    /// The token.
    pub token: Secret<String>,
    /// The scopes that it must hold.
    pub scopes: Vec<String>,
    /// What the call costs.
    pub units: u32,
    /// What usage and the log call it, `service.name`.
    pub name: String,
    /// The id of the call that asks.
    pub request_id: Arc<str>,
}

/// How much of a minute is left.
#[derive(Debug, Clone, Copy)]
pub struct CallRate {
    /// Calls in 60 seconds.
    pub limit: u32,
    /// Calls that are left of them.
    pub remaining: u32,
    /// In how many seconds there are more.
    pub reset_seconds: u64,
}

/// A token that was good for the call, which is counted and paid.
pub struct ValidToken {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// The account that the call counts against.
    pub account: AccountId,
    /// The account's plan.
    pub plan: Arc<str>,
    /// Units that remain, as far as this server knows.
    pub remaining: i64,
}

/// What comes of a [`TokenCheck`].
pub struct TokenVerdict {
    /// The token, or why the gateway would have refused the call. Such a call is charged nothing.
    pub result: Result<ValidToken, Problem>,
    /// The caller's minute, if it is known.
    pub rate: Option<CallRate>,
}

/// Judges tokens as the gateway does. Kept by the gateway.
pub trait Verifier: Send + Sync {
    /// Admits, limits, charges and counts a call as if it had come through the gateway. Fails where it cannot tell.
    fn verify<'a>(
        &'a self,
        engine: &'a Arc<Engine>,
        check: TokenCheck,
    ) -> BoxFuture<'a, Result<TokenVerdict, Problem>>;
}
