//! The operator's changes of units.

use portico_engine::Ctx;
use portico_kernel::{AccountId, Month, Problem};
use serde_json::json;

use crate::lease::units_resource;
use crate::sql::{LeaseAt, PastBudgetRow};
use crate::{Metering, limits, sql};

/// The grants of an account in a month.
#[derive(Debug, Clone, Copy)]
pub struct MonthlyGrant {
    /// The month.
    pub month: Month,
    /// The sum of all grants of the month.
    pub units: i64,
}

impl Metering {
    /// Grants `units` beside the plan for this month; a negative number takes them away. Servers that hold units of the
    /// account release them, so that the change takes effect within a second.
    pub async fn grant(
        &self,
        ctx: &mut Ctx,
        account: AccountId,
        units: i64,
    ) -> Result<MonthlyGrant, Problem> {
        if !(-limits::GRANT_UNITS_MAX..=limits::GRANT_UNITS_MAX).contains(&units) {
            let message = format!("must be from -{max} to {max}", max = limits::GRANT_UNITS_MAX);
            return Err(Problem::field("units", message));
        }
        let month = Month::of(ctx.now());
        self.keep_budget(ctx, account).await?;
        let row = sql::add_to_month(ctx.tx().await?, account, month, 0, units).await?;
        if row.granted.unsigned_abs() > limits::GRANT_UNITS_MAX.unsigned_abs() {
            let message = format!("would make the month's grants more than {}", limits::GRANT_UNITS_MAX);
            return Err(Problem::field("units", message));
        }
        self.recall_units(ctx, account).await?;
        ctx.set_account(account);
        ctx.audit_with("units.granted", &account, json!({ "units": units.to_string(), "month": month }))?;
        Ok(MonthlyGrant { month, units: row.granted })
    }

    /// Keeps the budget of this month for the calls that were made under it and are not counted yet. Called before the
    /// plan or the grants change.
    pub async fn keep_budget(&self, ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
        let (month, until) = (Month::of(ctx.now()), ctx.now());
        let plan = ctx.plan(account).await?;
        let allowance = ctx.engine().plans.get_or_first(&plan).monthly_units;
        let tx = ctx.tx().await?;
        let row = sql::add_to_month(tx, account, month, 0, 0).await?;
        let past = PastBudgetRow { until, budget: allowance.saturating_add(row.granted), used: row.used };
        Ok(sql::keep_budget(tx, account, month, &past).await?)
    }

    /// Makes every server release its units of the account and load its plan again. Called when the plan or the grants
    /// change.
    pub async fn recall_units(&self, ctx: &mut Ctx, account: AccountId) -> Result<(), Problem> {
        let month = Month::of(ctx.now());
        let tx = ctx.tx().await?;
        // A server that leases units meanwhile waits for the row of the month, and then sees the change.
        sql::add_to_month(tx, account, month, 0, 0).await?;
        // An empty holder recalls the leases of all servers.
        let (account, resource, holder) = (account.to_string(), units_resource(month), String::new());
        Ok(sql::recall(tx, &LeaseAt { account, resource, holder }).await?)
    }
}
