//! When keys and API tokens were last used: noted in memory, written every few seconds, exact to the minute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{Problem, ServiceKeyId, Timestamp};

use crate::{Identity, limits, sql};

/// Uses that are not written yet.
#[derive(Default)]
pub struct Uses(Mutex<HashMap<String, Timestamp>>);

impl Uses {
    /// Notes a use; called once a minute for each token, so that a call costs nothing.
    pub(crate) fn note(&self, id: &str, at: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned(), at);
    }

    /// Writes what was noted. What cannot be written is noted again.
    pub async fn flush(&self, engine: &Engine) -> Result<(), Problem> {
        let noted = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if noted.is_empty() {
            return Ok(());
        }
        let written = write(engine, &noted).await;
        if written.is_err() {
            let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (id, at) in noted {
                uses.entry(id).or_insert(at);
            }
        }
        written
    }
}

/// One row a transaction: whoever holds a row here waits for no other, so that it never deadlocks with a
/// revocation, which holds several.
async fn write(engine: &Engine, noted: &HashMap<String, Timestamp>) -> Result<(), Problem> {
    for (id, at) in noted {
        let mut tx = engine.db.write().await?;
        if id.parse::<ServiceKeyId>().is_ok() {
            sql::services::note_service_use(&mut tx, id, *at).await?;
        } else {
            sql::note_use(&mut tx, id, *at).await?;
        }
        tx.commit().await?;
    }
    Ok(())
}

/// Writes [`Uses`] down.
pub(crate) struct FlushUses(pub(crate) Arc<Identity>);

impl Job for FlushUses {
    const NAME: &'static str = "identity.flush_uses";
    const ON_EVERY_SERVER: bool = true;
    const EVERY: Duration = limits::USES_EVERY;

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        self.0.uses.flush(engine).await?;
        Ok(JobOutcome::Idle)
    }
}
