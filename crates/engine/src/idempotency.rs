//! Idempotency keys: a write that carries one runs once, and a repeat gets the answer that was kept.
//!
//! The running record is committed before the operation runs, so that every process sees it; it is a lease, so that a
//! crash never wedges a key. The answer is kept in the operation's own transaction: either both are there or neither.
//!
//! An operation that commits more than once ([`Ctx::step`]) keeps the result of each step in the same record, in the
//! step's own transaction. Should the server die after it, a repeat with the key is given the result instead of running
//! the step again.
//!
//! The way of a call with a key:
//!
//! 1. `dispatch` reads the input first: a refusal of what was sent is not kept. `Claim::take` then inserts a running
//!    record in a transaction of its own, under account, caller, operation and key, with a fingerprint of the fields
//!    as they were sent, a claim id and a lease of 60 s. It takes over a record whose lease has ended.
//! 2. When the record belongs to another call, `Claim::meet` answers: 409 while that call runs, 422 for another
//!    fingerprint, otherwise the kept answer, if the caller may still act in the account that the call acted in. An
//!    operation may have chosen that itself, from a field or from what an id names.
//! 3. When the operation succeeds, `Claim::keep` writes the sealed answer into its transaction, fenced by the claim
//!    id. If the lease was lost in between, nothing is committed, and the caller gets 409.
//! 4. When it refuses with a status below 429, 403 excepted, its transaction is rolled back and the refusal is kept in
//!    a transaction of its own. After any other failure `Claim::release` lets the key go, so that a repeat runs.
//! 5. After a crash the record is still running. On SQLite the next server releases it at its start
//!    (`release_stale_claims`); on PostgreSQL its lease ends. The job `PruneIdempotency` removes records after a day.

use std::collections::BTreeMap;
use std::sync::Arc;

use portico_kernel::{AccountId, Code, Problem, Secret, Timestamp, hex, seconds};
use portico_store::{Context, StoreError};

use crate::input::{Fields, fingerprint};
use serde_json::Value;

use crate::sql::{self, RecordKey};
use crate::{Ctx, Engine, Reply, Spec};

/// A running record lasts longer than any operation may run, and at most 60 s (API.md, section 1).
const LEASE_SECONDS: u64 = 60;
/// Answers are kept one day (SPEC.md, Limits).
const KEPT_SECONDS: u64 = 24 * 3600;
const KEY_CHARACTERS_MAX: usize = 255;

/// A caller's key: 1 to 255 visible characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The header that carries it.
    pub const HEADER: &str = "Idempotency-Key";

    /// Reads what a caller sent.
    pub fn parse(text: &[u8]) -> Result<Self, Problem> {
        let visible = text.iter().all(u8::is_ascii_graphic);
        if !visible || text.is_empty() || text.len() > KEY_CHARACTERS_MAX {
            return Err(Problem::field(Self::HEADER, "must be 1 to 255 visible characters"));
        }
        Ok(Self(String::from_utf8_lossy(text).into_owned()))
    }
}

/// What came of asking for a key.
pub(crate) enum ClaimOutcome {
    /// The call runs under this claim; an earlier try may have committed these steps.
    Ours(Claim, StepResults),
    /// An earlier call's answer, and the account that it acted in.
    Kept(Reply, Option<AccountId>),
}

/// The right to run a call and to keep its answer.
pub(crate) struct Claim {
    at: RecordKey,
    id: String,
    fingerprint: [u8; 32],
}

/// The results of the steps that a call has committed, by name.
pub(crate) type StepResults = BTreeMap<String, Value>;

impl Claim {
    /// Claims the key for this call.
    pub(crate) async fn take(
        engine: &Arc<Engine>,
        spec: &Spec,
        ctx: &mut Ctx,
        key: &IdempotencyKey,
        fields: &Fields,
    ) -> Result<ClaimOutcome, Problem> {
        let caller = ctx.caller();
        let at = RecordKey {
            account: ctx.current_account().map(|account| account.to_string()).unwrap_or_default(),
            caller: caller.actor().into_owned(),
            operation: spec.name,
            key: key.0.clone(),
        };
        let id: [u8; 16] = engine.entropy.bytes();
        let claim = Self { at, id: hex(&id), fingerprint: fingerprint(fields) };
        let mut tx = engine.db.write().await?;
        // Counted from here: the wait for the database may have been long.
        let now = engine.clock.now();
        let lease_ends = now + seconds(LEASE_SECONDS);
        let claimed = sql::claim_record(&mut tx, &claim.at, claim.fingerprint, &claim.id, now, lease_ends);
        let claimed = claimed.await?;
        ctx.note_queries(&tx);
        tx.commit().await?;
        if let Some(row) = claimed.first::<sql::ClaimRow>()? {
            let steps =
                row.steps.map_or(Ok(StepResults::new()), |sealed| claim.open_steps(engine, &sealed))?;
            return Ok(ClaimOutcome::Ours(claim, steps));
        }
        let record = sql::record(engine.db.query(), &claim.at).await?;
        claim.meet(engine, record).map(|(reply, account)| ClaimOutcome::Kept(reply, account))
    }

    /// Another call came first.
    fn meet(
        &self,
        engine: &Engine,
        record: Option<sql::KeptRow>,
    ) -> Result<(Reply, Option<AccountId>), Problem> {
        // It may have been let go between the two looks; the caller tries again as with any call that is running.
        let running = || {
            Problem::new(Code::Conflict, "A call with this Idempotency-Key is still running.")
                .retry_after(seconds(1))
        };
        let committed = |record: &sql::KeptRow| record.state == "kept" || record.steps.is_some();
        let record = record.filter(committed).ok_or_else(running)?;
        if record.fingerprint != self.fingerprint {
            return Err(Problem::new(
                Code::Unprocessable,
                "This Idempotency-Key was used for another request; a key belongs to one request.",
            ));
        }
        let sealed = record.answer.ok_or_else(running)?;
        let plain = engine.keyring.open(self.context(&self.row()), &sealed).map_err(Problem::internal)?;
        Reply::from_kept(plain.expose()).ok_or_else(|| Problem::internal("a kept answer that does not read"))
    }

    fn row(&self) -> String {
        format!("{} {} {}", self.at.caller, self.at.operation, self.at.key)
    }

    fn context<'a>(&'a self, row: &'a str) -> Context<'a> {
        Context { account: &self.at.account, row, purpose: "kept answer" }
    }

    fn steps_context<'a>(&'a self, row: &'a str) -> Context<'a> {
        Context { purpose: "steps", ..self.context(row) }
    }

    fn open_steps(&self, engine: &Engine, sealed: &[u8]) -> Result<StepResults, Problem> {
        let plain =
            engine.keyring.open(self.steps_context(&self.row()), sealed).map_err(Problem::internal)?;
        serde_json::from_slice(plain.expose()).map_err(Problem::internal)
    }

    /// Keeps the results of the steps in the transaction of `ctx`. They may hold secrets, so they are sealed.
    pub(crate) async fn save_steps(&self, ctx: &mut Ctx, steps: &StepResults) -> Result<(), Problem> {
        let engine = ctx.engine().clone();
        let plain = serde_json::to_vec(steps).map_err(Problem::internal)?;
        let sealed = engine.keyring.seal(engine.entropy.as_ref(), self.steps_context(&self.row()), &plain);
        let now = engine.clock.now();
        let (lease_ends, expires_at) = (now + seconds(LEASE_SECONDS), now + seconds(KEPT_SECONDS));
        if sql::save_steps(ctx.tx().await?, &self.at, &self.id, sealed, lease_ends, expires_at).await? {
            return Ok(());
        }
        Err(taken_over())
    }

    /// Keeps the answer in the transaction of `ctx`. It may hold a one-time secret, so it is sealed.
    pub(crate) async fn keep(
        &self,
        engine: &Engine,
        ctx: &mut Ctx,
        answer: &Secret<Vec<u8>>,
    ) -> Result<(), Problem> {
        let sealed = engine.keyring.seal(engine.entropy.as_ref(), self.context(&self.row()), answer.expose());
        let until = engine.clock.now() + seconds(KEPT_SECONDS);
        let keeping = sql::keep_answer(ctx.tx().await?, &self.at, &self.id, sealed, until);
        keeping.await.map_err(lost_claim)
    }

    /// Releases the key, so that a repeat runs. Steps that were committed stay.
    pub(crate) async fn release(&self, engine: &Engine) {
        let released = async {
            let mut tx = engine.db.write().await?;
            sql::release_claim(&mut tx, &self.at, &self.id).await?;
            tx.commit().await
        };
        if let Err(error) = released.await {
            tracing::warn!(%error, "Failed to release an Idempotency-Key; its lease will end it");
        }
    }
}

/// A failure to commit what the claim was for.
pub(crate) fn lost_claim(error: StoreError) -> Problem {
    if matches!(error, StoreError::NoRow) { taken_over() } else { error.into() }
}

/// The lease ran out and another call took the key: what this one did must not stand beside what that one does.
fn taken_over() -> Problem {
    Problem::new(Code::Conflict, "Another call with this Idempotency-Key took over.").retry_after(seconds(1))
}

/// Is a refusal kept? Not those that say nothing about the request: that the caller may not make it, that there are too
/// many, that it was cancelled, or that the fault is ours.
pub(crate) fn is_kept(code: Code) -> bool {
    code != Code::Forbidden && code.status() < 429
}

/// Releases every claim that a server before this one left behind. Right only for the one server of a database.
pub async fn release_stale_claims(engine: &Engine) -> Result<u64, StoreError> {
    let mut tx = engine.db.write().await?;
    let claims = sql::release_all_claims(&mut tx).await?;
    tx.commit().await?;
    Ok(claims)
}

/// Removes up to `most` records whose time is up.
pub(crate) async fn prune(engine: &Engine, now: Timestamp, most: i64) -> Result<u64, StoreError> {
    let mut tx = engine.db.write().await?;
    let removed = sql::prune_records(&mut tx, now, most).await?;
    tx.commit().await?;
    Ok(removed)
}
