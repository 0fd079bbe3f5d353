//! Calls to the outside, and operations that commit more than once.
//!
//! No transaction is open during an outgoing call: on SQLite it would stop every other writer. An operation that writes
//! before it calls out commits what it has with [`Ctx::step`], and goes on in a new transaction.

use std::sync::Arc;

use portico_egress::Egress;
use portico_kernel::{AccountId, Problem};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Ctx;
use crate::Method;
use crate::idempotency::{Claim, StepResults};

/// The steps of a call that carries an Idempotency-Key.
pub(crate) struct KeyedSteps {
    claim: Arc<Claim>,
    results: StepResults,
}

/// What is kept of a step: what it returned, and the account that the call acted in by then.
#[derive(Serialize, Deserialize)]
struct SavedStep<T> {
    account: Option<AccountId>,
    result: T,
}

impl Ctx {
    /// The call carries an Idempotency-Key; an earlier try may have committed the steps in `results`.
    pub(crate) fn set_claim(&mut self, claim: Arc<Claim>, results: StepResults) {
        self.steps = Some(Box::new(KeyedSteps { claim, results }));
    }

    /// Is a transaction open?
    pub(crate) fn has_transaction(&self) -> bool {
        self.tx.is_some()
    }

    /// Makes outgoing calls. Fails while a transaction is open, which is a mistake of the operation: it commits with
    /// [`Ctx::step`] first.
    pub fn egress(&self) -> Result<&Egress, Problem> {
        self.check_calls_out()?;
        Ok(&self.engine.egress)
    }

    /// The same check for what calls out by other means.
    pub fn check_calls_out(&self) -> Result<(), Problem> {
        if self.has_transaction() {
            let cause = format!("{} calls out while its transaction is open", self.spec.name);
            return Err(Problem::internal(cause));
        }
        Ok(())
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
        if self.step_names.contains(&name) {
            return Err(Problem::internal(format!("two steps of one call are named {name}")));
        }
        self.step_names.push(name);
        if let Some(saved) = self.steps.as_ref().and_then(|steps| steps.results.get(name)).cloned() {
            // What the operation wrote before the step was committed with it, the first time.
            self.rollback();
            let saved: SavedStep<T> = serde_json::from_value(saved).map_err(Problem::internal)?;
            self.account = saved.account;
            return Ok(saved.result);
        }
        let result = self.run_step(name, work).await;
        if result.is_err() {
            // So that nothing of it is committed by a step that comes after it.
            self.rollback();
        }
        result
    }

    async fn run_step<T: Serialize>(
        &mut self,
        name: &'static str,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let result = work(self).await?;
        let mut saved = None;
        if let Some(steps) = &self.steps {
            let (claim, mut results) = (steps.claim.clone(), steps.results.clone());
            let step = SavedStep { account: self.account, result: &result };
            results.insert(name.to_owned(), serde_json::to_value(step).map_err(Problem::internal)?);
            claim.save_steps(self, &results).await?;
            saved = Some(results);
        }
        if self.spec.method != Method::Get {
            self.write_records().await?;
        }
        self.commit().await?;
        if let (Some(steps), Some(results)) = (&mut self.steps, saved) {
            steps.results = results;
        }
        Ok(result)
    }
}
