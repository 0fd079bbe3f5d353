//! Leases: units and shares of rate limits that a server may spend without asking the database for each call.
//!
//! The database knows what every server holds. What is used and what is leased never pass the limit together. A server
//! that finds nothing free while others hold leases recalls those first.

use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{AccountId, Code, Month, Problem, Timestamp};
use portico_store::Tx;

use crate::account::{AccountMeter, PendingLeaseChange, Shortage};
use crate::rate_limit_key::{RateLimitDecision, RateLimitKey, Share, held_elsewhere, share_of};
use crate::sql::LeaseAt;
use crate::{Metering, limits, sql};

/// The prefix of the resource of an account's month.
pub(crate) const UNITS_PREFIX: &str = "units ";

/// The resource of an account's month.
pub(crate) fn units_resource(month: Month) -> String {
    format!("{UNITS_PREFIX}{month}")
}

/// The prefix of the resource of a rate limit.
pub(crate) const RATE_LIMIT_PREFIX: &str = "minute ";

/// How much to lease when `need` is needed and `free` is free: less and less as little is left, so that the last units
/// are not held by a server that does not need them. `None` when `free` is not enough.
pub(crate) fn lease_size(need: i64, free: i64, servers: i64) -> Option<i64> {
    // A single server takes half at most, so that it soon sees what the operator changed.
    let parts = if servers <= 1 { 2 } else { 4 * servers };
    (free >= need).then(|| need.max(free / parts).min(need.max(limits::LEASE_UNITS_MAX)))
}

/// The result of asking the database for units.
struct LeaseOutcome {
    /// Units that no server had leased.
    free: i64,
    /// Units that other servers hold that are alive.
    others: i64,
    /// Units that were leased; `None` when there were not enough.
    leased: Option<i64>,
}

impl Metering {
    /// Takes `need` units of the account, leasing more if it must; returns whether there were enough.
    pub(crate) async fn take_units(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        meter: &Arc<AccountMeter>,
        need: i64,
    ) -> Result<bool, Problem> {
        loop {
            if meter.has_plan() && meter.take(need) {
                return Ok(true);
            }
            // In a task of its own: when the caller hangs up, what was leased must not be lost.
            let (metering, engine, meter) = (self.clone(), engine.clone(), meter.clone());
            let task = tokio::spawn(async move { metering.acquire_units(&engine, &meter, need).await });
            if !task.await.map_err(Problem::internal)?? {
                return Ok(false);
            }
        }
    }

    /// Leases units until `need` are available; returns whether they may be. With a `need` of 0 it only loads the plan.
    async fn acquire_units(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
        need: i64,
    ) -> Result<bool, Problem> {
        let _guard = meter.lease_lock.lock().await;
        if meter.has_plan() && meter.available() >= need {
            return Ok(true);
        }
        self.resolve_pending_change(engine, meter).await?;
        let began = engine.clock.now();
        let still_short = |shortage: Shortage| {
            let (at, free) = (shortage.at, shortage.free);
            at <= began && began.since(at) < limits::SPENT_LIFE && need > free
        };
        if meter.shortage().is_some_and(still_short) {
            return Ok(false);
        }
        loop {
            let more = (need - meter.available()).max(0);
            let outcome = self.lease_units(engine, meter, more).await?;
            if let Some(leased) = outcome.leased {
                meter.set_shortage(None);
                meter.add(leased);
                meter.set_pending_change(None);
                return Ok(true);
            }
            if need == 0 {
                // The plan is loaded, and no units were needed.
                return Ok(true);
            }
            let waited = engine.clock.now().since(began) >= limits::RECALL_TIME_MAX;
            if waited || outcome.others == 0 || outcome.free + outcome.others < more {
                let free = outcome.free + meter.available();
                meter.set_shortage(Some(Shortage { at: engine.clock.now(), free }));
                return Ok(false);
            }
            // Two servers that wait for each other's rest must both release their own.
            self.release_units(engine, meter).await?;
            engine.clock.sleep(limits::RECALL_PAUSE).await;
        }
    }

    /// Finds out whether a pending change of the lease was committed. The caller holds `lease_lock`.
    async fn resolve_pending_change(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
    ) -> Result<(), Problem> {
        let Some(change) = meter.pending_change() else { return Ok(()) };
        let at = self.lease_at(meter.id.to_string(), units_resource(meter.month))?;
        let renewed_at = sql::lease_renewed_at(&mut engine.db.query(), &at).await?;
        if (renewed_at == Some(change.at)) == change.if_committed {
            meter.add(change.units);
        }
        meter.set_pending_change(None);
        Ok(())
    }

    /// Gives the available units back to the database. The caller holds `lease_lock`.
    async fn release_units(&self, engine: &Arc<Engine>, meter: &AccountMeter) -> Result<(), Problem> {
        self.resolve_pending_change(engine, meter).await?;
        let lease = self.lease_at(meter.id.to_string(), units_resource(meter.month))?;
        let at = engine.clock.now();
        let units = meter.take_all();
        meter.set_pending_change(Some(PendingLeaseChange { at, units, if_committed: false }));
        let mut tx = engine.db.write().await?;
        sql::shrink_lease(&mut tx, &lease, units).await?;
        sql::answer_recall(&mut tx, &lease, at).await?;
        tx.commit().await?;
        meter.set_pending_change(None);
        Ok(())
    }

    /// Leases at least `more` units if they are free; otherwise recalls what other servers hold.
    async fn lease_units(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
        more: i64,
    ) -> Result<LeaseOutcome, Problem> {
        let now = engine.clock.now();
        let at = self.lease_at(meter.id.to_string(), units_resource(meter.month))?;
        let mut tx = engine.db.write().await?;
        // Every transaction that leases units locks the row of the month first, so that what is read after it does not
        // change before the commit.
        let month = sql::add_to_month(&mut tx, meter.id, meter.month, 0, 0).await?;
        let plan = engine.memberships.plan(&mut tx, meter.id).await?.ok_or_else(|| account_gone(meter.id))?;
        let plan = engine.plans.get_or_first(&plan);
        let servers = self.servers(&mut tx, now).await?;
        let held = sql::held_units(&mut tx, &at, now - limits::SEEN_LIFE).await?;
        let free = plan.monthly_units.saturating_add(month.granted) - month.used - held.all_held;
        let leased = lease_size(more, free, servers);
        sql::extend_lease(&mut tx, &at, leased.unwrap_or(0), now).await?;
        if leased.is_none() && held.living > 0 {
            sql::recall(&mut tx, &at).await?;
        }
        meter.set_pending_change(leased.map(|units| PendingLeaseChange {
            at: now,
            units,
            if_committed: true,
        }));
        tx.commit().await?;
        meter.set_plan(plan);
        meter.set_free(free - leased.unwrap_or(0));
        self.metrics.lease_asked();
        Ok(LeaseOutcome { free, others: held.living, leased })
    }

    /// This server's lease of a resource.
    pub(crate) fn lease_at(&self, account: String, resource: String) -> Result<LeaseAt, Problem> {
        Ok(LeaseAt { account, resource, holder: self.holder()?.to_owned() })
    }

    /// How many servers use the database.
    async fn servers(&self, tx: &mut Tx, now: Timestamp) -> Result<i64, Problem> {
        if !self.shared {
            return Ok(1);
        }
        Ok(sql::count_journals(tx, now - limits::SEEN_LIFE).await?.max(1))
    }

    /// Takes a slot of `key`, where other servers admit calls of the same key. While they hold more than they need, it
    /// waits a moment for them to release it.
    pub(crate) async fn take_shared_slot(
        &self,
        engine: &Arc<Engine>,
        key: &RateLimitKey,
        owner: &str,
        limit: u32,
    ) -> Result<RateLimitDecision, Problem> {
        let _guard = key.lease_lock.lock().await;
        let began = engine.clock.now();
        let decision = key.limiter().take_shared(began, limit);
        if decision != RateLimitDecision::NeedsShare {
            return Ok(decision);
        }
        let mut recall = true;
        loop {
            let pending = self.renew_share(engine, key, owner, limit, recall).await?;
            let now = engine.clock.now();
            if !pending || now.since(began) >= limits::RECALL_TIME_MAX {
                let mut limiter = key.limiter();
                return Ok(match limiter.take_shared(now, limit) {
                    RateLimitDecision::NeedsShare => RateLimitDecision::Limited(limiter.status(now, limit)),
                    decision => decision,
                });
            }
            recall = false;
            engine.clock.sleep(limits::RECALL_PAUSE).await;
        }
    }

    /// Renews this server's share of the rate limit. Returns whether the limit is used up and others are still to release
    /// what they do not need; with `recall` they are told to.
    async fn renew_share(
        &self,
        engine: &Arc<Engine>,
        key: &RateLimitKey,
        owner: &str,
        limit: u32,
        recall: bool,
    ) -> Result<bool, Problem> {
        let at = self.lease_at(owner.to_owned(), format!("{RATE_LIMIT_PREFIX}{}", key.id))?;
        let mut tx = engine.db.write().await?;
        sql::lock_resource(&mut tx, &at).await?;
        let now = engine.clock.now();
        let others = held_elsewhere(&sql::held_shares(&mut tx, &at).await?, now);
        let servers = u32::try_from(self.servers(&mut tx, now).await?).unwrap_or(u32::MAX);
        // From here to the commit no call is admitted.
        let (used, frees_at) = key.limiter().shrink_share(now);
        let share = share_of(limit, used, others.amount, servers);
        let own = share.unwrap_or(used);
        sql::set_share(&mut tx, &at, own.into(), frees_at, now).await?;
        let recall = recall && share.is_none() && others.is_living;
        if recall {
            sql::recall(&mut tx, &at).await?;
        }
        tx.commit().await?;
        self.metrics.lease_asked();
        let full_until = share.is_none().then_some(now + limits::FULL_LIFE);
        key.limiter().set_share(Share {
            limit: own,
            elsewhere: others.amount,
            elsewhere_free_at: others.free_at,
            renewed_at: Some(now),
            full_until,
        });
        Ok(share.is_none() && (recall || others.is_recalled))
    }

    /// Releases what other servers recalled: all units and shares that are not used.
    pub(crate) async fn answer_recalls(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let recalled = sql::recalled(&mut engine.db.query(), self.holder()?).await?;
        for row in recalled {
            let lease = self.lease_at(row.account_id, row.resource)?;
            if let Some(key) = lease.resource.strip_prefix(RATE_LIMIT_PREFIX) {
                self.release_share(engine, key, &lease).await?;
                continue;
            }
            let Some(meter) = self.find_account(&lease.account, &lease.resource) else {
                let mut tx = engine.db.write().await?;
                sql::answer_recall(&mut tx, &lease, engine.clock.now()).await?;
                tx.commit().await?;
                continue;
            };
            // While a call leases more it releases what there is; the recall is looked at again soon.
            let Ok(_guard) = meter.lease_lock.try_lock() else { continue };
            meter.forget_plan();
            self.release_units(engine, &meter).await?;
        }
        Ok(())
    }

    async fn release_share(&self, engine: &Arc<Engine>, key: &str, lease: &LeaseAt) -> Result<(), Problem> {
        let key = self.find_rate_limit_key(key);
        // While the share is being renewed, that answers the recall; it is looked at again soon.
        let guard = key.as_ref().map(|key| key.lease_lock.try_lock());
        if guard.as_ref().is_some_and(Result::is_err) {
            return Ok(());
        }
        let now = engine.clock.now();
        let (used, frees_at) = key.as_ref().map_or((0, None), |key| key.limiter().shrink_share(now));
        let mut tx = engine.db.write().await?;
        sql::set_share(&mut tx, lease, used.into(), frees_at, now).await?;
        Ok(tx.commit().await?)
    }
}

fn account_gone(account: AccountId) -> Problem {
    Problem::new(Code::Forbidden, format!("There is no account {account} any more."))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any number of servers that lease, spend, give back on recall and die: what was spent never passes the
        /// budget, and a call is refused only when there is not enough left for it.
        #[test]
        fn the_budget_holds_and_its_last_unit_can_be_used(
            budget in 0i64..5_000,
            calls in vec((0usize..4, prop_oneof![Just(1i64), 1i64..=10, Just(100), Just(400)]), 1..400),
        ) {
            let servers = 4;
            let mut room = [0i64; 4];
            let mut spent = 0;
            for (at, units) in calls {
                if room[at] < units {
                    let more = units - room[at];
                    let held: i64 = room.iter().sum();
                    let mut leased = lease_size(more, budget - spent - held, servers);
                    if leased.is_none() {
                        // The others give back what they hold.
                        for (other, held) in room.iter_mut().enumerate() {
                            *held = if other == at { *held } else { 0 };
                        }
                        leased = lease_size(more, budget - spent - room[at], servers);
                    }
                    room[at] += leased.unwrap_or(0);
                }
                if room[at] >= units {
                    room[at] -= units;
                    spent += units;
                } else {
                    prop_assert!(budget - spent < units, "{units} refused with {} left", budget - spent);
                }
                prop_assert!(spent + room.iter().sum::<i64>() <= budget, "more is out than there is");
            }
        }
    }
}
