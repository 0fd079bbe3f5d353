//! Leases: what a server may spend without asking the database for each call.
//!
//! The database knows what every server holds. What is used and what is held never pass the limit together, so no
//! server can; a server that is refused while others still hold something has it called back first.

use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{AccountId, Code, Month, Problem, Timestamp};
use portico_store::Tx;

use crate::account::{AccountMeter, Unsettled};
use crate::rate_limit_key::{Asked, RateLimitKey, Share, share};
use crate::sql::LeaseAt;
use crate::{Metering, limits, sql};

/// The resource of an account's month begins like this.
pub(crate) const UNITS: &str = "units ";

/// The resource of an account's month.
pub(crate) fn units_of(month: Month) -> String {
    format!("{UNITS}{month}")
}

/// The resource of a minute begins like this.
pub(crate) const MINUTE: &str = "minute ";

/// How much to lease when `need` is needed and `free` is free: less and less as it comes to an end, so that the last
/// units lie where they are needed; nothing when there is not enough.
pub(crate) fn portion(need: i64, free: i64, servers: i64) -> Option<i64> {
    // Alone, a server still leaves half: what the operator changes then reaches it soon.
    let parts = if servers <= 1 { 2 } else { 4 * servers };
    (free >= need).then(|| need.max(free / parts).min(need.max(limits::LEASE_UNITS_MAX)))
}

/// What the database says of an account's month.
struct Look {
    free: i64,
    /// What servers that live hold.
    others: i64,
    leased: Option<i64>,
}

impl Metering {
    /// Takes `need` units of the account, asking the database for more if it must; answers whether there are as many.
    pub(crate) async fn take_units(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        meter: &Arc<AccountMeter>,
        need: i64,
    ) -> Result<bool, Problem> {
        loop {
            if meter.is_known() && meter.take(need) {
                return Ok(true);
            }
            // In a task of its own: a caller who goes away must not take what was leased along.
            let (metering, asking, of) = (self.clone(), engine.clone(), meter.clone());
            let asked = tokio::spawn(async move { metering.ask_units(&asking, &of, need).await });
            if !asked.await.map_err(Problem::internal)?? {
                return Ok(false);
            }
        }
    }

    /// Leases units so that there is room for `need`; answers whether there may be. With a `need` of 0 it only learns what
    /// there is.
    async fn ask_units(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
        need: i64,
    ) -> Result<bool, Problem> {
        let _turn = meter.asking.lock().await;
        if meter.is_known() && meter.room() >= need {
            return Ok(true);
        }
        self.settle(engine, meter).await?;
        let began = engine.clock.now();
        let is_spent =
            |(at, free): (Timestamp, i64)| at <= began && began.since(at) < limits::SPENT_LIFE && need > free;
        if meter.spent().is_some_and(is_spent) {
            return Ok(false);
        }
        loop {
            let more = (need - meter.room()).max(0);
            let look = self.lease_units(engine, meter, more).await?;
            if let Some(leased) = look.leased {
                meter.set_spent(None);
                meter.put(leased);
                meter.set_unsettled(None);
                return Ok(true);
            }
            if need == 0 {
                // It is known now that there is nothing; nobody waits for anything.
                return Ok(true);
            }
            let waited = engine.clock.now().since(began) >= limits::RECALL_TIME_MAX;
            if waited || look.others == 0 || look.free + look.others < more {
                meter.set_spent(Some((engine.clock.now(), look.free + meter.room())));
                return Ok(false);
            }
            // Two that wait for each other's rest must both let go of their own.
            self.give_back_units(engine, meter).await?;
            engine.clock.sleep(limits::RECALL_PAUSE).await;
        }
    }

    /// Finds out what became of a change of the lease that nobody saw the end of. Whoever calls holds `asking`.
    async fn settle(&self, engine: &Arc<Engine>, meter: &AccountMeter) -> Result<(), Problem> {
        let Some(change) = meter.unsettled() else { return Ok(()) };
        let at = self.lease_at(meter.id.to_string(), units_of(meter.month))?;
        let renewed_at = sql::lease_renewed_at(&mut engine.db.query(), &at).await?;
        if (renewed_at == Some(change.at)) == change.if_done {
            meter.put(change.units);
        }
        meter.set_unsettled(None);
        Ok(())
    }

    /// Gives back all that is neither spent nor set aside. Whoever calls holds `asking`.
    async fn give_back_units(&self, engine: &Arc<Engine>, meter: &AccountMeter) -> Result<(), Problem> {
        self.settle(engine, meter).await?;
        let lease = self.lease_at(meter.id.to_string(), units_of(meter.month))?;
        let at = engine.clock.now();
        let units = meter.take_all();
        meter.set_unsettled(Some(Unsettled { at, units, if_done: false }));
        let mut tx = engine.db.write().await?;
        sql::shrink_lease(&mut tx, &lease, units).await?;
        sql::answer_recall(&mut tx, &lease, at).await?;
        tx.commit().await?;
        meter.set_unsettled(None);
        Ok(())
    }

    /// Leases at least `more` units, if they are free; has others give back what they hold, if they are not.
    async fn lease_units(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
        more: i64,
    ) -> Result<Look, Problem> {
        let now = engine.clock.now();
        let at = self.lease_at(meter.id.to_string(), units_of(meter.month))?;
        let mut tx = engine.db.write().await?;
        // The row of the month comes first everywhere: whoever holds it deals out the units, and what is read behind it
        // is not changed before the commit.
        let month = sql::add_to_month(&mut tx, meter.id, meter.month, 0, 0).await?;
        let plan = engine.memberships.plan(&mut tx, meter.id).await?.ok_or_else(|| gone(meter.id))?;
        let plan = engine.plans.get_or_first(&plan);
        let servers = self.servers(&mut tx, now).await?;
        let held = sql::held_units(&mut tx, &at, now - limits::SEEN_LIFE).await?;
        let free = plan.monthly_units.saturating_add(month.granted) - month.used - held.all_held;
        let leased = portion(more, free, servers);
        sql::extend_lease(&mut tx, &at, leased.unwrap_or(0), now).await?;
        if leased.is_none() && held.living > 0 {
            sql::recall(&mut tx, &at).await?;
        }
        meter.set_unsettled(leased.map(|units| Unsettled { at: now, units, if_done: true }));
        tx.commit().await?;
        meter.learn(plan);
        self.metrics.lease_asked();
        Ok(Look { free, others: held.living, leased })
    }

    /// This server's lease of a resource.
    pub(crate) fn lease_at(&self, account: String, resource: String) -> Result<LeaseAt, Problem> {
        Ok(LeaseAt { account, resource, holder: self.holder()?.to_owned() })
    }

    /// How many servers deal out of one database.
    async fn servers(&self, tx: &mut Tx, now: Timestamp) -> Result<i64, Problem> {
        if !self.shared {
            return Ok(1);
        }
        Ok(sql::count_journals(tx, now - limits::SEEN_LIFE).await?.max(1))
    }

    /// A place in the minute of `subject`, where other servers admit calls of the same minute. While they hold more than
    /// they need, it waits a moment for them to give it back.
    pub(crate) async fn ask_minute(
        &self,
        engine: &Arc<Engine>,
        subject: &RateLimitKey,
        account: AccountId,
        limit: u32,
    ) -> Result<Asked, Problem> {
        let _turn = subject.asking.lock().await;
        let began = engine.clock.now();
        let asked = subject.minute().take_shared(began, limit);
        if asked != Asked::NeedsShare {
            return Ok(asked);
        }
        // A person's minute is theirs in whichever account they act; a key's belongs to its account.
        let owner = if subject.id.is_person() { String::new() } else { account.to_string() };
        let mut recall = true;
        loop {
            let pending = self.agree_on_share(engine, subject, &owner, limit, recall).await?;
            let now = engine.clock.now();
            if !pending || now.since(began) >= limits::RECALL_TIME_MAX {
                let mut minute = subject.minute();
                return Ok(match minute.take_shared(now, limit) {
                    Asked::NeedsShare => Asked::Full(minute.standing(now, limit)),
                    asked => asked,
                });
            }
            recall = false;
            engine.clock.sleep(limits::RECALL_PAUSE).await;
        }
    }

    /// Agrees with the others on a share of the minute. Answers whether there was none and others are still to give back
    /// what they do not need; with `recall` they are asked to.
    async fn agree_on_share(
        &self,
        engine: &Arc<Engine>,
        subject: &RateLimitKey,
        owner: &str,
        limit: u32,
        recall: bool,
    ) -> Result<bool, Problem> {
        let at = self.lease_at(owner.to_owned(), format!("{MINUTE}{}", subject.id))?;
        let mut tx = engine.db.write().await?;
        sql::lock_resource(&mut tx, &at).await?;
        let now = engine.clock.now();
        let since = (now - limits::SHARE_GONE, now - limits::SHARE_LIFE, now - limits::SEEN_LIFE);
        let others = sql::held_minute(&mut tx, &at, since).await?;
        let servers = u32::try_from(self.servers(&mut tx, now).await?).unwrap_or(u32::MAX);
        // From here until the commit nothing more is admitted.
        let used = subject.minute().shrink(now);
        let elsewhere = u32::try_from(others.amount.max(0)).unwrap_or(u32::MAX);
        let share = share(limit, used, elsewhere, servers);
        let most = share.unwrap_or(used);
        sql::set_lease(&mut tx, &at, most.into(), now).await?;
        let recall = recall && share.is_none() && others.living > 0;
        if recall {
            sql::recall(&mut tx, &at).await?;
        }
        tx.commit().await?;
        self.metrics.lease_asked();
        let full_until = share.is_none().then_some(now + limits::FULL_LIFE);
        subject.minute().agree(Share { most, elsewhere, renewed_at: Some(now), full_until });
        Ok(share.is_none() && (recall || others.recalled > 0))
    }

    /// Gives back what was called back: all that is neither spent nor set aside.
    pub(crate) async fn answer_recalls(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let recalled = sql::recalled(&mut engine.db.query(), self.holder()?).await?;
        for row in recalled {
            let lease = self.lease_at(row.account_id, row.resource)?;
            if let Some(subject) = lease.resource.strip_prefix(MINUTE) {
                self.give_back_minute(engine, subject, &lease).await?;
                continue;
            }
            let Some(meter) = self.find_account(&lease.account, &lease.resource) else {
                let mut tx = engine.db.write().await?;
                sql::answer_recall(&mut tx, &lease, engine.clock.now()).await?;
                tx.commit().await?;
                continue;
            };
            // While it is being asked for more, that gives back what there is; it is looked at again soon.
            let Ok(_turn) = meter.asking.try_lock() else { continue };
            meter.forget();
            self.give_back_units(engine, &meter).await?;
        }
        Ok(())
    }

    async fn give_back_minute(
        &self,
        engine: &Arc<Engine>,
        subject: &str,
        lease: &LeaseAt,
    ) -> Result<(), Problem> {
        let subject = self.find_subject(subject);
        // While a share is being agreed on, that settles it; the recall is looked at again soon.
        let turn = subject.as_ref().map(|subject| subject.asking.try_lock());
        if turn.as_ref().is_some_and(Result::is_err) {
            return Ok(());
        }
        let now = engine.clock.now();
        let used = subject.as_ref().map_or(0, |subject| subject.minute().shrink(now));
        let mut tx = engine.db.write().await?;
        sql::set_lease(&mut tx, lease, used.into(), now).await?;
        Ok(tx.commit().await?)
    }
}

fn gone(account: AccountId) -> Problem {
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
                    let mut leased = portion(more, budget - spent - held, servers);
                    if leased.is_none() {
                        // The others give back what they hold.
                        for (other, held) in room.iter_mut().enumerate() {
                            *held = if other == at { *held } else { 0 };
                        }
                        leased = portion(more, budget - spent - room[at], servers);
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
