//! Callers' minutes over the end of a server: a restart must not let a key pass its limit.
//!
//! A server alone fills its windows again from the log of requests. Among several, what an ended server admitted stays in
//! the table of leases until it has left the 60 seconds, and the others reckon with it.

use std::collections::HashMap;
use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{Code, Problem, Timestamp};

use crate::block::Unpacked;
use crate::journal::SubjectId;
use crate::lease::MINUTE;
use crate::rate_limit_key::RateLimitKey;
use crate::sql::LeaseAt;
use crate::{Metering, limits, sql};

/// The codes of calls that had no place in the minute, or gave it back.
const REFUSED_BEFORE: [&str; 3] =
    [Code::Forbidden.name(), Code::RateLimited.name(), Code::QuotaExceeded.name()];

/// Every call of the last minute that was admitted, as the log has it; of one journal, or of all.
async fn admitted(
    engine: &Engine,
    now: Timestamp,
    journal: Option<&str>,
) -> Result<Vec<(SubjectId, Timestamp)>, Problem> {
    let since = now - limits::SHARE_LIFE;
    let mut calls = Vec::new();
    for body in sql::blocks_since(&mut engine.db.query(), since, limits::RESTORED_BLOCKS_MAX).await? {
        // A piece of the log that does not read is no reason not to start.
        let Ok(block) = Unpacked::new(&body) else { continue };
        let admitted = block.requests().filter(|request| {
            request.at >= since.as_micros()
                && journal.is_none_or(|journal| journal == request.journal)
                && !REFUSED_BEFORE.contains(&request.code)
        });
        calls.extend(admitted.map(|request| (request.subject, Timestamp::from_micros(request.at))));
    }
    Ok(calls)
}

impl Metering {
    /// Fills the windows with what the server before admitted.
    pub(crate) async fn restore_minutes(&self, engine: &Arc<Engine>, now: Timestamp) -> Result<(), Problem> {
        for (id, at) in admitted(engine, now, None).await? {
            let subject = self.subjects.entry(id).or_insert_with(|| Arc::new(RateLimitKey::new(id)));
            subject.minute().window.restore(now, at);
        }
        Ok(())
    }

    /// Leaves behind what a server that died admitted; one that serves alone leases no minutes.
    pub(crate) async fn settle_minutes_of_dead(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
    ) -> Result<(), Problem> {
        if !self.shared {
            return Ok(());
        }
        let mut by_subject: HashMap<SubjectId, (u32, Timestamp)> = HashMap::new();
        for (subject, at) in admitted(engine, engine.clock.now(), Some(journal)).await? {
            let (count, latest) = by_subject.entry(subject).or_insert((0, at));
            (*count, *latest) = (*count + 1, at.max(*latest));
        }
        self.settle_minutes(engine, journal, |subject| by_subject.get(&subject).copied()).await
    }

    /// Leaves behind what a server that ends has admitted of callers' minutes, so that the others reckon with it until it
    /// has left the 60 seconds; what it held beyond that goes.
    pub(crate) async fn settle_minutes(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
        admitted: impl Fn(SubjectId) -> Option<(u32, Timestamp)>,
    ) -> Result<(), Problem> {
        let rows = sql::leases_of(&mut engine.db.query(), journal, MINUTE).await?;
        for row in rows {
            let subject = row.resource.strip_prefix(MINUTE).and_then(SubjectId::parse);
            let (used, latest) = subject.and_then(&admitted).unwrap_or((0, Timestamp::from_micros(0)));
            let at = LeaseAt { account: row.account_id, resource: row.resource, holder: journal.to_owned() };
            let mut tx = engine.db.write().await?;
            sql::set_lease(&mut tx, &at, used.into(), latest).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}
