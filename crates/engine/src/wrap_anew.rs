//! What older keys of the keyring wrap is wrapped anew by the active one, so that an older key can be taken away.
//!
//! Areas name their sealed columns ([`AreaBuilder::seals`](crate::AreaBuilder::seals)). A value is replaced only while it is
//! the one that was read: whoever wrote another one meanwhile has sealed it with the active key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portico_kernel::{Problem, hex};
use portico_store::{CANARY_COLUMN, Context, SealedColumn, StoreError, Wrapping};

use crate::clock::Stopwatch;
use crate::sql::sealed::{self, SealedRow};
use crate::{Engine, Job, JobOutcome};

/// The engine's own sealed columns. Kept answers and steps end within a day by themselves.
pub(crate) const SEALED: [SealedColumn; 3] = [CANARY_COLUMN, sealed::ANSWERS, sealed::STEPS];

/// A key of the keyring, and how much it wraps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyUse {
    /// Its id in the keyring, in hexadecimal.
    pub id: String,
    /// Does it wrap what is sealed from now on?
    pub active: bool,
    /// How many values it wraps.
    pub rows: i64,
}

/// How much each key wraps: the keys in the order of the keyring, then those that wrap something and are missing in it.
pub async fn key_uses(engine: &Engine) -> Result<Vec<KeyUse>, StoreError> {
    let mut counts: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
    let mut tx = engine.db.read().await?;
    for column in engine.registry.sealed() {
        for counted in sealed::count(&mut tx, column).await? {
            *counts.entry(counted.key).or_default() += counted.number;
        }
    }
    tx.rollback();
    let mut uses = Vec::new();
    for (at, id) in engine.keyring.key_ids().enumerate() {
        let rows = counts.remove(&id).unwrap_or_default();
        uses.push(KeyUse { id: hex(&id), active: at == 0, rows });
    }
    uses.extend(counts.into_iter().map(|(id, rows)| KeyUse { id: hex(&id), active: false, rows }));
    Ok(uses)
}

/// Wraps anew what older keys wrap.
pub(crate) struct WrapAnew;

impl WrapAnew {
    const BATCH_MAX: i64 = 100;
    /// How long a run goes on before the next batch is left to another run.
    const RUN_MAX: Duration = Duration::from_secs(15);
}

impl Job for WrapAnew {
    const NAME: &'static str = "engine.wrap_anew";
    const EVERY: Duration = Duration::from_mins(15);

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let watch = Stopwatch::start();
        let mut wrapped = 0;
        for key in engine.keyring.key_ids().skip(1).collect::<Vec<_>>() {
            for column in engine.registry.sealed() {
                let Some(wrapping) = &column.wrapping else { continue };
                let mut after = String::new();
                loop {
                    let rows = sealed::wrapped_by(engine.db.query(), wrapping, &key, &after, Self::BATCH_MAX);
                    let rows = rows.await?;
                    let Some(last) = rows.last() else { break };
                    after.clone_from(&last.id);
                    for row in &rows {
                        wrapped += u64::from(wrap_anew(engine, column.name, wrapping, row).await?);
                    }
                    if watch.elapsed() > Self::RUN_MAX {
                        // One that wrapped nothing in this time found only what cannot be opened.
                        return Ok(JobOutcome::after_batch(wrapped, 1));
                    }
                }
            }
        }
        if wrapped > 0 {
            tracing::info!(wrapped, "Wrapped anew what older keys of the keyring had sealed");
        }
        Ok(JobOutcome::Idle)
    }
}

/// Wraps one value anew, in a transaction of its own; returns whether it did.
async fn wrap_anew(
    engine: &Engine,
    column: &'static str,
    wrapping: &Wrapping,
    row: &SealedRow,
) -> Result<bool, StoreError> {
    let context = Context { account: &row.account, row: &row.place, purpose: wrapping.purpose };
    let Ok(anew) = engine.keyring.wrap_anew(engine.entropy.as_ref(), context, &row.sealed) else {
        // It is of no use with any key; whoever needs it says so.
        tracing::warn!(column, row = row.id, "Failed to open a sealed value, which keeps its older key");
        return Ok(false);
    };
    let mut tx = engine.db.write().await?;
    let replaced = sealed::replace(&mut tx, wrapping, row, &anew).await?;
    tx.commit().await?;
    Ok(replaced)
}
