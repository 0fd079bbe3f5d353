//! Leases: what a server may spend without asking the database for each call.
//!
//! The database knows what every server holds. What is used and what is held never pass the limit together, so no
//! server can; a server that is refused while others still hold something has it called back first.

use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{AccountId, Code, Month, Problem, Timestamp};
use portico_store::Tx;

use crate::account::AccountMeter;
use crate::subject::{Asked, Share, Subject, share};
use crate::{Metering, limits, sql};

/// The resource of an account's month.
pub(crate) fn units_of(month: Month) -> String {
    format!("units {month}")
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
    others: i64,
    servers: i64,
}

impl Metering {
    /// Leases units for `meter` so that `need` of them can be taken, and takes them; answers whether there are as many.
    /// With a `need` of 0 it only learns what there is.
    pub(crate) async fn ask_units(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
        need: i64,
    ) -> Result<bool, Problem> {
        let _turn = meter.asking.lock().await;
        if meter.is_known() && meter.take(need) {
            return Ok(true);
        }
        let began = engine.clock.now();
        if meter.spent().is_some_and(|(at, free)| began.since(at) < limits::SPENT_LIFE && need > free) {
            return Ok(false);
        }
        loop {
            // What is left over here counts; nobody else may take it meanwhile.
            let left = meter.take_all();
            let more = need - left;
            match self.lease_units(engine, meter, more).await {
                Ok((_, Some(leased))) => {
                    meter.set_spent(None);
                    meter.put(leased - more);
                    return Ok(true);
                }
                Ok((look, None)) => {
                    meter.put(left);
                    let waited = engine.clock.now().since(began) >= limits::RECALL_TIME_MAX;
                    if waited || look.others == 0 || look.free + look.others < more {
                        meter.set_spent(Some((engine.clock.now(), look.free + left)));
                        return Ok(false);
                    }
                }
                Err(problem) => {
                    meter.put(left);
                    return Err(problem);
                }
            }
            engine.clock.sleep(limits::RECALL_PAUSE).await;
        }
    }

    /// Leases at least `more` units, if they are free; has others give back what they hold, if they are not.
    async fn lease_units(
        &self,
        engine: &Arc<Engine>,
        meter: &AccountMeter,
        more: i64,
    ) -> Result<(Look, Option<i64>), Problem> {
        let now = engine.clock.now();
        let (account, resource, holder) = (meter.id.to_string(), units_of(meter.month), self.holder()?);
        let mut tx = engine.db.write().await?;
        let plan = engine.memberships.plan(&mut tx, meter.id).await?.ok_or_else(|| gone(meter.id))?;
        let plan = engine.plans.get_or_first(&plan);
        // The row of the month comes first everywhere: whoever holds it deals out the units.
        let month = sql::add_to_month(&mut tx, meter.id, meter.month, 0, 0).await?;
        let held = sql::held(&mut tx, &account, &resource, holder, Timestamp::from_micros(0)).await?;
        let servers = self.count_servers(&mut tx, now).await?;
        let free = plan.monthly_units.saturating_add(month.granted) - month.used - held.own - held.others;
        let look = Look { free, others: held.others, servers };
        let leased = portion(more.max(0), look.free, look.servers);
        sql::extend_lease(&mut tx, &account, &resource, holder, leased.unwrap_or(0), now).await?;
        if leased.is_none() && look.others > 0 {
            sql::recall(&mut tx, &account, &resource, holder).await?;
        }
        tx.commit().await?;
        meter.learn(plan);
        self.numbers.lease_asked();
        Ok((look, leased))
    }

    /// How many servers deal out of one database.
    async fn count_servers(&self, tx: &mut Tx, now: Timestamp) -> Result<i64, Problem> {
        if !self.shared {
            return Ok(1);
        }
        Ok(sql::count_journals(tx, now - limits::SEEN_LIFE).await?.max(1))
    }

    /// A place in the minute of `subject`, where other servers admit calls of the same minute.
    pub(crate) async fn ask_minute(
        &self,
        engine: &Arc<Engine>,
        subject: &Subject,
        account: AccountId,
        limit: u32,
    ) -> Result<Asked, Problem> {
        let _turn = subject.asking.lock().await;
        let asked = subject.minute().take_shared(engine.clock.now(), limit);
        if asked != Asked::NeedsShare {
            return Ok(asked);
        }
        let (resource, holder) = (format!("{MINUTE}{}", subject.id), self.holder()?);
        let account = account.to_string();
        let mut tx = engine.db.write().await?;
        sql::lock_resource(&mut tx, &account, &resource).await?;
        let now = engine.clock.now();
        let held = sql::held(&mut tx, &account, &resource, holder, now - limits::SHARE_GONE).await?;
        let servers = u32::try_from(self.count_servers(&mut tx, now).await?).unwrap_or(u32::MAX);
        // From here until the commit nothing more is admitted.
        let used = subject.minute().shrink(now);
        let elsewhere = u32::try_from(held.others.max(0)).unwrap_or(u32::MAX);
        let share = share(limit, used, elsewhere, servers);
        let most = share.unwrap_or(used);
        sql::set_lease(&mut tx, &account, &resource, holder, most.into(), now).await?;
        if share.is_none() && elsewhere > 0 {
            sql::recall(&mut tx, &account, &resource, holder).await?;
        }
        tx.commit().await?;
        self.numbers.lease_asked();
        let mut minute = subject.minute();
        let full_until = share.is_none().then_some(now + limits::FULL_LIFE);
        minute.agree(Share { most, elsewhere, renewed_at: Some(now), full_until });
        Ok(match minute.take_shared(now, limit) {
            Asked::NeedsShare => Asked::Full(minute.standing(now, limit)),
            asked => asked,
        })
    }

    /// Gives back what was called back: all that is neither spent nor set aside.
    pub(crate) async fn answer_recalls(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let holder = self.holder()?;
        let recalled = sql::recalled(&mut engine.db.glance().await?, holder).await?;
        for lease in recalled {
            let mut tx = engine.db.write().await?;
            if let Some(subject) = lease.resource.strip_prefix(MINUTE) {
                let used = self
                    .find_subject(subject)
                    .map_or(0, |subject| subject.minute().shrink(engine.clock.now()));
                let now = engine.clock.now();
                sql::set_lease(&mut tx, &lease.account_id, &lease.resource, holder, used.into(), now).await?;
                tx.commit().await?;
                continue;
            }
            let meter = self.find_account(&lease.account_id, &lease.resource);
            let room = meter.as_ref().map_or(0, |meter| meter.take_all());
            sql::shrink_lease(&mut tx, &lease.account_id, &lease.resource, holder, room).await?;
            sql::answer_recall(&mut tx, &lease.account_id, &lease.resource, holder).await?;
            // Should the commit fail, nobody knows whether it came to be: what is given back stays given back, and is
            // nobody's until the account is idle.
            tx.commit().await?;
            meter.inspect(|meter| meter.forget());
        }
        Ok(())
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
