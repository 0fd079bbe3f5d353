//! Whether a caller's minute has room.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::Engine;
use portico_kernel::{AccountId, Code, Month, Problem, Timestamp};

use crate::account::AccountMeter;
use crate::metering::not_countable;
use crate::rate_limit_key::{RateLimitDecision, RateLimitKey};
use crate::window::RateLimitStatus;
use crate::{Metering, limits};

impl Metering {
    /// Counts something in the caller's minute that is no call: it is limited together with calls, but neither charged
    /// nor recorded.
    pub async fn take_slot(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        key: &RateLimitKey,
        account: AccountId,
    ) -> Result<(), Problem> {
        let at = engine.clock.now();
        let meter = self.account(account, Month::of(at));
        match self.decide_rate_limit(engine, key, &meter, at).await? {
            RateLimitDecision::Allowed(..) => Ok(()),
            RateLimitDecision::Limited(status) => Err(rate_limited(status)),
            RateLimitDecision::NeedsShare => Err(share_missing()),
        }
    }

    /// Refuses somebody whose minute is used up, as far as that is known here; counts nothing.
    pub fn check_slot(
        &self,
        engine: &Engine,
        key: &RateLimitKey,
        account: Option<AccountId>,
    ) -> Result<(), Problem> {
        let at = engine.clock.now();
        let meter = account.and_then(|account| Some(self.accounts.get(&(account, Month::of(at)))?.clone()));
        let Some(meter) = meter.filter(|meter| meter.has_plan()) else { return Ok(()) };
        let status = key.limiter().status(at, meter.calls_per_minute());
        if status.remaining == 0 { Err(rate_limited(status)) } else { Ok(()) }
    }

    /// Fails unless the journal has room for a call of that account. When the journal cannot grow, what is left of it is
    /// not for those who have filled it.
    pub(crate) fn make_room(&self, meter: Option<&AccountMeter>) -> Result<(), Problem> {
        let uncounted = meter.map_or(0, |meter| meter.uncounted(self.metrics.counted()));
        let is_crowding = uncounted > limits::CROWDING_RECORDS;
        let reserve = if is_crowding { limits::CROWDED_MAX } else { limits::UNDER_WAY_MAX };
        // The journal has told why.
        self.journal()?.make_room(reserve).map_err(|_| not_countable())
    }

    /// Whether the caller's minute has room, by the account's plan; if so, a slot of it is taken.
    pub(crate) async fn decide_rate_limit(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        key: &RateLimitKey,
        meter: &Arc<AccountMeter>,
        at: Timestamp,
    ) -> Result<RateLimitDecision, Problem> {
        meter.note_call(at);
        if !meter.has_plan() {
            // Boxed, because this future is large and seldom needed.
            Box::pin(self.take_units(engine, meter, 0)).await?;
        }
        // A person has one rate limit in all their accounts; a key's belongs to its account.
        let is_person = key.id.is_person();
        let owner = || if is_person { String::new() } else { meter.id.to_string() };
        self.decide_within(engine, key, owner, meter.calls_per_minute(), at).await
    }

    /// The same by that limit, which belongs to `owner`.
    pub(crate) async fn decide_within(
        &self,
        engine: &Arc<Engine>,
        key: &RateLimitKey,
        owner: impl FnOnce() -> String + Send,
        limit: u32,
        at: Timestamp,
    ) -> Result<RateLimitDecision, Problem> {
        let decision =
            if self.shared { key.limiter().take_shared(at, limit) } else { key.limiter().take(at, limit) };
        match decision {
            RateLimitDecision::NeedsShare => {
                let owner = owner();
                Box::pin(async move { self.take_shared_slot(engine, key, &owner, limit).await }).await
            }
            decision => Ok(decision),
        }
    }
}

pub(crate) fn share_missing() -> Problem {
    Problem::internal("the share that was just renewed is missing")
}

/// 429: too many calls in 60 seconds.
pub(crate) fn rate_limited(status: RateLimitStatus) -> Problem {
    let message = format!("More than {} calls in 60 seconds.", status.limit);
    Problem::new(Code::RateLimited, message).retry_after(Duration::from_secs(status.reset_seconds))
}
