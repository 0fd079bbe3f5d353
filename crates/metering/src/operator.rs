//! What the operator changes about units.

use portico_engine::Ctx;
use portico_kernel::{AccountId, Month, Problem};
use serde_json::json;

use crate::lease::units_of;
use crate::sql::LeaseAt;
use crate::{Metering, limits, sql};

/// What an account was granted.
#[derive(Debug, Clone, Copy)]
pub struct Granted {
    /// For which month.
    pub month: Month,
    /// What all grants of the month come to.
    pub granted: i64,
}

impl Metering {
    /// Grants `units` beside the plan for this month; takes them away when there are fewer than none. Servers that hold
    /// units of the account give them back, so that the change counts from within a second.
    pub async fn grant(&self, ctx: &mut Ctx, account: AccountId, units: i64) -> Result<Granted, Problem> {
        if !(-limits::GRANT_UNITS_MAX..=limits::GRANT_UNITS_MAX).contains(&units) {
            return Err(Problem::field("units", "must be a number of units that can be"));
        }
        ctx.plan(account).await?;
        let month = Month::of(ctx.now());
        let row = sql::add_to_month(ctx.tx().await?, account, month, 0, units).await?;
        if row.granted.unsigned_abs() > limits::GRANT_UNITS_MAX.unsigned_abs() {
            return Err(Problem::field("units", "would make the month's grants more than can be"));
        }
        self.terms_changed(ctx, account).await?;
        ctx.set_account(account);
        ctx.audit_with("units.granted", &account, json!({ "units": units.to_string(), "month": month }))?;
        Ok(Granted { month, granted: row.granted })
    }

    /// The account's plan or grants changed: what servers know of it is no longer good.
    pub async fn terms_changed(&self, ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
        let month = Month::of(ctx.now());
        let tx = ctx.tx().await?;
        // Whoever deals out units meanwhile waits for the row of the month, and then sees the change.
        sql::add_to_month(tx, account, month, 0, 0).await?;
        // Everyone's: the operator holds none.
        let (account, resource, holder) = (account.to_string(), units_of(month), String::new());
        Ok(sql::recall(tx, &LeaseAt { account, resource, holder }).await?)
    }
}
