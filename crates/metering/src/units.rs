//! What an account has, used and has left this month.

use std::collections::BTreeMap;

use portico_engine::{AccountRef, Ctx, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Day, Int64, Month, Plan, Problem, Timestamp};
use portico_store::Tx;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer_room::AnswerRoom;
use crate::pending::PendingRecords;
use crate::usage::{UsageElement, usage_of};
use crate::{Metering, limits, sql};

/// See the account's units of this month: what its plan allows, what was granted beside, what is used and what remains,
/// by day and by who used it. Calls that other servers answered show within a second.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUnits {
    /// The account.
    org_id: AccountRef,
}

/// The units of a month.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Units {
    /// The account.
    account_id: AccountId,
    /// The month, such as `2026-01`.
    month: Month,
    /// When the next month begins, and the units with it.
    resets_at: Timestamp,
    /// Units that the plan allows in a month.
    allowance: Int64,
    /// Units that were granted beside it for this month; negative when some were taken away.
    granted: Int64,
    /// Units used.
    used: Int64,
    /// Allowance and granted less used. Negative when persons went on after everything was spent.
    remaining: Int64,
    /// The account's plan.
    plan: UnitPlan,
    /// Who used what, what cost most first. What does not fit into the answer is summed in a last row, whose names are
    /// empty.
    usage: Vec<UsageElement>,
    /// Units by day, for each day with a call.
    days: Vec<UnitDay>,
}

/// A plan.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub(crate) struct UnitPlan {
    /// Its name.
    name: String,
    /// The plan in words.
    description: String,
    /// The kinds of account that it is meant for.
    accounts: String,
    /// Units a month.
    monthly_units: Int64,
    /// What happens to keys when the units are spent: `refuse` or `allow`.
    at_zero: String,
    /// When the operator last changed it; empty for a plan that is as it came.
    updated_at: String,
}

/// Units of one day.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UnitDay {
    /// The day.
    day: Day,
    /// Units used on it.
    units: Int64,
}

impl From<&Plan> for UnitPlan {
    fn from(plan: &Plan) -> Self {
        Self {
            name: plan.name.clone(),
            description: plan.description.clone(),
            accounts: plan.accounts.clone(),
            monthly_units: Int64(plan.monthly_units),
            at_zero: plan.at_zero.name().to_owned(),
            updated_at: plan.updated_at.clone(),
        }
    }
}

/// What the account used of the month and was granted for it, with what is not counted yet.
pub(crate) async fn used_and_granted(
    tx: &mut Tx,
    account: AccountId,
    month: Month,
    pending: &PendingRecords<'_>,
) -> Result<(i64, i64), Problem> {
    let row = sql::month(tx, account, month).await?;
    let (used, granted) = row.map_or((0, 0), |row| (row.used, row.granted));
    Ok((used + pending.used(month), granted))
}

impl Operation for GetUnits {
    const SPEC: Spec = Spec::get("metering.units.get", "/v1/accounts/orgs/{org_id}/units")
        .tool(
            Tool::new("metering_get_units", "See the units that are left")
                .hint("Use this for the budget of the month."),
        )
        .scope("usage:read")
        .category(Category::Read);
    type Area = Metering;
    type Answer = Units;

    async fn run(self, metering: &Metering, ctx: &mut Ctx) -> Result<Units, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let pending = metering.pending(ctx, account).await?;
        let month = Month::of(ctx.now());
        let plan = ctx.plan(account).await?;
        let plan = ctx.engine().plans.get_or_first(&plan).clone();
        let tx = ctx.tx().await?;
        let (used, granted) = used_and_granted(tx, account, month, &pending).await?;
        let (first, end) = (month.first_day(), month.next().first_day());
        let mut days: BTreeMap<Day, i64> = BTreeMap::new();
        let hours = first.first_hour().number()..end.first_hour().number();
        let rows = sql::spans(tx, sql::BY_DAY, account, hours.start, hours.end).await?;
        for row in rows.into_iter().chain(pending.by_day(first, end)) {
            *days.entry(Day::from_number(row.number)).or_default() += row.units;
        }
        let days = days.into_iter().map(|(day, units)| UnitDay { day, units: Int64(units) }).collect();
        let mut units = Units {
            account_id: account,
            month,
            resets_at: month.next().start(),
            allowance: Int64(plan.monthly_units),
            granted: Int64(granted),
            used: Int64(used),
            remaining: Int64(plan.monthly_units.saturating_add(granted).saturating_sub(used)),
            plan: (&plan).into(),
            usage: Vec::new(),
            days,
        };
        let room = AnswerRoom::beside(&units, limits::USAGE_ROW_BYTES)?;
        units.usage = usage_of(metering, ctx, account, month, &pending, room).await?;
        Ok(units)
    }
}
