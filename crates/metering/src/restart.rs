//! Rate limits across restarts: a restart must not let a key pass its limit.
//!
//! A single server fills its windows from the log of requests when it starts. Among several, what a stopped server
//! admitted stays in the table of leases until it is older than 60 seconds, and the others count it.

use std::collections::HashMap;
use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{Code, Problem, Timestamp};

use crate::block::BlockReader;
use crate::journal::SubjectId;
use crate::lease::RATE_LIMIT_PREFIX;
use crate::rate_limit_key::RateLimitKey;
use crate::sql::LeaseAt;
use crate::{Metering, limits, sql};

/// The codes of calls that took no slot of the rate limit, or released it.
const REFUSED_BEFORE: [&str; 3] =
    [Code::Forbidden.name(), Code::RateLimited.name(), Code::QuotaExceeded.name()];

/// The calls of the last minute that were admitted, from the log of requests; of one journal, or of all.
async fn admitted(
    engine: &Engine,
    now: Timestamp,
    journal: Option<&str>,
) -> Result<Vec<(SubjectId, Timestamp)>, Problem> {
    let since = now - limits::SHARE_LIFE;
    let mut calls = Vec::new();
    for body in sql::blocks_since(&mut engine.db.query(), since, limits::RESTORED_BLOCKS_MAX).await? {
        // A block that does not parse is no reason not to start.
        let Ok(block) = BlockReader::new(&body) else { continue };
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
    /// Fills the windows with what the previous server admitted.
    pub(crate) async fn restore_windows(&self, engine: &Arc<Engine>, now: Timestamp) -> Result<(), Problem> {
        for (id, at) in admitted(engine, now, None).await? {
            let key = self.rate_limit_keys.entry(id).or_insert_with(|| Arc::new(RateLimitKey::new(id)));
            key.limiter().window.restore(now, at);
        }
        Ok(())
    }

    /// Does [`Metering::settle_shares`] for a server that died, from the log. A single server has no shares.
    pub(crate) async fn settle_shares_of_dead(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
    ) -> Result<(), Problem> {
        if !self.shared {
            return Ok(());
        }
        let mut by_key: HashMap<SubjectId, (u32, Timestamp)> = HashMap::new();
        for (key, at) in admitted(engine, engine.clock.now(), Some(journal)).await? {
            let (count, latest) = by_key.entry(key).or_insert((0, at));
            (*count, *latest) = (*count + 1, at.max(*latest));
        }
        self.settle_shares(engine, journal, |key| by_key.get(&key).copied()).await
    }

    /// Shrinks the shares of a server that ends to what it admitted, so that the others count that until it is older
    /// than 60 seconds.
    pub(crate) async fn settle_shares(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
        admitted: impl Fn(SubjectId) -> Option<(u32, Timestamp)>,
    ) -> Result<(), Problem> {
        let rows = sql::leases_of(&mut engine.db.query(), journal, RATE_LIMIT_PREFIX).await?;
        for row in rows {
            let key = row.resource.strip_prefix(RATE_LIMIT_PREFIX).and_then(SubjectId::parse);
            let (used, latest) = key.and_then(&admitted).unwrap_or((0, Timestamp::from_micros(0)));
            let at = LeaseAt { account: row.account_id, resource: row.resource, holder: journal.to_owned() };
            let mut tx = engine.db.write().await?;
            sql::set_share(&mut tx, &at, used.into(), None, latest).await?;
            tx.commit().await?;
        }
        Ok(())
    }
}
