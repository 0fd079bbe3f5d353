//! State that a browser keeps for us between two requests, sealed: for one browser or session, one purpose, and a
//! limited time.

use std::time::Duration;

use portico_kernel::Problem;
use portico_store::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RequestContext;

/// What a sealed state is bound to.
#[derive(Clone, Copy)]
pub(crate) struct StateSeal<'a> {
    /// The session or browser; empty where the state itself says whose it is.
    pub(crate) bound_to: &'a str,
    /// What the state is for.
    pub(crate) purpose: &'static str,
}

impl StateSeal<'_> {
    fn context(&self) -> Context<'_> {
        Context { account: "", row: self.bound_to, purpose: self.purpose }
    }

    /// Seals `value`; it can be opened for as long as `life`.
    pub(crate) fn seal<T: Serialize>(
        self,
        context: &RequestContext<'_>,
        life: Duration,
        value: T,
    ) -> Result<String, Problem> {
        let plain = serde_json::to_vec(&value).map_err(Problem::internal)?;
        let (entropy, until) = (context.engine.entropy.as_ref(), context.now + life);
        Ok(context.engine.keyring.seal_token(entropy, self.context(), until, &plain))
    }

    /// Opens a state that was sealed with the same binding; `None` when it has expired or is anything else.
    pub(crate) fn open<T: DeserializeOwned>(self, context: &RequestContext<'_>, sealed: &str) -> Option<T> {
        let plain = context.engine.keyring.open_token(self.context(), context.now, sealed).ok()?;
        serde_json::from_slice(&plain).ok()
    }
}
