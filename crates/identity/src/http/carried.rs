//! What a browser carries from one step to the next, sealed: for one browser or session, one purpose, and a while.

use std::time::Duration;

use portico_kernel::Problem;
use portico_store::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Asked;

/// Whom it is for, and what.
#[derive(Clone, Copy)]
pub(crate) struct For<'a> {
    /// The session or browser; empty where what is in it says enough.
    pub(crate) whom: &'a str,
    /// What for.
    pub(crate) purpose: &'static str,
}

impl For<'_> {
    fn context(&self) -> Context<'_> {
        Context { account: "", row: self.whom, purpose: self.purpose }
    }

    /// Seals `value`; it counts for `life`.
    pub(crate) fn seal<T: Serialize>(
        self,
        asked: &Asked<'_>,
        life: Duration,
        value: T,
    ) -> Result<String, Problem> {
        let plain = serde_json::to_vec(&value).map_err(Problem::internal)?;
        let (entropy, until) = (asked.engine.entropy.as_ref(), asked.now + life);
        Ok(asked.engine.keyring.seal_token(entropy, self.context(), until, &plain))
    }

    /// Opens what was sealed for the same; nothing when it is over, or anything else.
    pub(crate) fn open<T: DeserializeOwned>(self, asked: &Asked<'_>, sealed: &str) -> Option<T> {
        let plain = asked.engine.keyring.open_token(self.context(), asked.now, sealed).ok()?;
        serde_json::from_slice(&plain).ok()
    }
}
