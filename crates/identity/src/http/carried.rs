//! What a browser carries from one step to the next, sealed: for one browser or session, one purpose, and a while.

use std::time::Duration;

use portico_kernel::{Problem, Timestamp};
use portico_store::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Asked;

/// What is carried, and until when it counts.
#[derive(Serialize, Deserialize)]
struct Carried<T> {
    value: T,
    ends: i64,
}

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
        let carried = Carried { value, ends: (asked.now + life).as_micros() };
        let plain = serde_json::to_vec(&carried).map_err(Problem::internal)?;
        Ok(asked.engine.keyring.seal_token(asked.engine.entropy.as_ref(), self.context(), &plain))
    }

    /// Opens what was sealed for the same; nothing when it is over, or anything else.
    pub(crate) fn open<T: DeserializeOwned>(self, asked: &Asked<'_>, sealed: &str) -> Option<T> {
        let plain = asked.engine.keyring.open_token(self.context(), sealed).ok()?;
        let carried: Carried<T> = serde_json::from_slice(&plain).ok()?;
        (asked.now < Timestamp::from_micros(carried.ends)).then_some(carried.value)
    }
}
