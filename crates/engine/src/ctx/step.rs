//! Calls to the outside, and operations that commit more than once.
//!
//! No transaction is open during an outgoing call: on SQLite it would stop every other writer. An operation that writes
//! before it calls out commits what it has with [`Ctx::step`], and goes on in a new transaction.

use std::sync::Arc;

use portico_egress::Egress;
use portico_kernel::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Ctx;
use crate::Method;
use crate::idempotency::{Claim, StepResults};

/// The steps of a call that carries an Idempotency-Key.
pub(crate) struct KeyedSteps {
    claim: Arc<Claim>,
    results: StepResults,
}

impl Ctx {
    /// The call carries an Idempotency-Key; an earlier try may have committed the steps in `results`.
    pub(crate) fn set_claim(&mut self, claim: Arc<Claim>, results: StepResults) {
        self.steps = Some(Box::new(KeyedSteps { claim, results }));
    }

    /// Makes outgoing calls. Fails while a transaction is open, which is a mistake of the operation: it commits with
    /// [`Ctx::step`] first.
    pub fn egress(&self) -> Result<&Egress, Problem> {
        if self.tx.is_some() {
            let cause = format!("{} calls out while its transaction is open", self.spec.name);
            return Err(Problem::internal(cause));
        }
        Ok(&self.engine.egress)
    }

    /// Runs `work` and commits what it wrote, with its audit entries and events; the operation goes on in a new
    /// transaction. Should the server die later in the call, a repeat with the same Idempotency-Key is given the result
    /// of `work` instead of running it again. An operation that fails after a step has to undo by itself what the step
    /// committed.
    ///
    /// An outgoing call between two steps may happen twice, if the server dies before its result is committed; make an
    /// id in the step before it, and send that along as the receiver's own idempotency key.
    pub async fn step<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        if let Some(result) = self.steps.as_ref().and_then(|steps| steps.results.get(name)) {
            return serde_json::from_value(result.clone()).map_err(Problem::internal);
        }
        let result = work(self).await?;
        if let Some(mut steps) = self.steps.take() {
            let value = serde_json::to_value(&result).map_err(Problem::internal)?;
            if steps.results.insert(name.to_owned(), value).is_some() {
                return Err(Problem::internal(format!("two steps of one call are named {name}")));
            }
            let saved = steps.claim.save_steps(self, &steps.results).await;
            self.steps = Some(steps);
            saved?;
        }
        if self.spec.method != Method::Get {
            self.write_records().await?;
        }
        self.commit().await?;
        Ok(result)
    }
}
