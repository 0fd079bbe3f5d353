//! Who used what in a month.

use std::collections::HashMap;

use portico_engine::{AccountRef, Ctx, Operation, Spec, Tool};
use portico_kernel::{AccountId, Category, Histogram, Int64, Month, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer_room::{AnswerRoom, item_length};
use crate::batch::MonthCounts;
use crate::journal::SubjectId;
use crate::pending::PendingRecords;
use crate::sql::{Counts, UsageRow};
use crate::{Metering, latency, limits, sql};

/// See what each key, API token and person of the account used in a month, operation by operation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUsage {
    /// The account.
    org_id: AccountRef,
    /// The month, such as `2026-01`; left out, this month.
    #[serde(default)]
    month: Option<Month>,
}

/// What was used.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// The account's plan.
    plan: String,
    /// Who used what, what cost most first. What does not fit into the answer is summed in a last row, whose names are
    /// empty.
    rows: Vec<UsageElement>,
}

/// What one key, API token or person used of one operation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UsageElement {
    /// The operation, by its socket method; empty in the row of all that does not fit into the answer.
    rpc: String,
    /// The category of the operation; empty for one that costs nothing or is gone.
    category: String,
    /// The key or API token; empty for a person.
    key_id: String,
    /// Its name.
    key_name: String,
    /// The person; empty for a key or API token.
    user_id: String,
    /// Their name.
    user_name: String,
    /// Calls, refused ones included.
    calls: Int64,
    /// Units that they cost.
    units: Int64,
    /// Tokens of models that they used.
    tokens: Int64,
    /// Calls that were refused with a status of 4xx.
    client_errors: Int64,
    /// Calls that failed on the platform's side, with a status of 5xx.
    platform_errors: Int64,
    /// Half of the calls took at most so many milliseconds, to about 10 %.
    p50_ms: i32,
    /// 95 % of the calls took at most so many milliseconds, to about 10 %.
    p95_ms: i32,
}

impl Operation for GetUsage {
    const SPEC: Spec = Spec::get("metering.usage.get", "/v1/accounts/orgs/{org_id}/usage")
        .tool(
            Tool::new("metering_get_usage", "See usage by operation and key")
                .hint("Use this to find out what uses up units."),
        )
        .scope("usage:read")
        .category(Category::Read);
    type Area = Metering;
    type Answer = Usage;

    async fn run(self, metering: &Metering, ctx: &mut Ctx) -> Result<Usage, Problem> {
        let account = ctx.account(Some(self.org_id)).await?;
        let pending = metering.pending(ctx, account).await?;
        let month = self.month.unwrap_or_else(|| Month::of(ctx.now()));
        let mut usage = Usage { plan: ctx.plan(account).await?, rows: Vec::new() };
        let room = AnswerRoom::beside(&usage, limits::USAGE_ROW_BYTES)?;
        usage.rows = usage_of(metering, ctx, account, month, &pending, room).await?;
        Ok(usage)
    }
}

/// The rows of a month, the most expensive first. Those that do not fit into `room` become one, so that the sums are right;
/// `room` has left space for that one.
pub(crate) async fn usage_of(
    metering: &Metering,
    ctx: &mut Ctx,
    account: AccountId,
    month: Month,
    pending: &PendingRecords<'_>,
    mut room: AnswerRoom,
) -> Result<Vec<UsageElement>, Problem> {
    let mut rows = merge(sql::usage(ctx.tx().await?, account, month).await?, pending, month).into_iter();
    let mut names: HashMap<String, String> = HashMap::new();
    let mut elements = Vec::new();
    while let Some((row, latency)) = rows.next() {
        if !names.contains_key(&row.subject) {
            let name = name_of(metering, ctx, account, &row.subject).await?;
            names.insert(row.subject.clone(), name);
        }
        let shown = element(ctx, &names, &row, &latency);
        if elements.len() == limits::USAGE_ROWS_MAX || !room.take(item_length(&shown)?) {
            let rest = sum(std::iter::once((row, latency)).chain(rows));
            elements.push(element(ctx, &names, &rest.0, &rest.1));
            break;
        }
        elements.push(shown);
    }
    Ok(elements)
}

/// One row of all of these, without names.
fn sum(rows: impl Iterator<Item = (UsageRow, Histogram)>) -> (UsageRow, Histogram) {
    let none = UsageRow::new(String::new(), String::new(), &MonthCounts::default());
    rows.fold((none, Histogram::default()), |(mut rest, mut times), (row, latency)| {
        rest.add(&row);
        times.merge(&latency);
        (rest, times)
    })
}

/// The rows with the pending records added, the most expensive first.
fn merge(rows: Vec<UsageRow>, pending: &PendingRecords<'_>, month: Month) -> Vec<(UsageRow, Histogram)> {
    // A histogram that does not parse counts as empty; the counts beside it do not depend on it.
    let read = |row: UsageRow| {
        let histogram = latency::from_bytes(&row.latency).unwrap_or_default();
        ((row.subject.clone(), row.rpc.clone()), (row, histogram))
    };
    let mut merged: HashMap<_, _> = rows.into_iter().map(read).collect();
    for ((of, subject, operation), counts) in pending.batch().months {
        if of == month {
            let (subject, rpc) = (subject.to_string(), pending.operation(operation).to_owned());
            let more = UsageRow::new(subject.clone(), rpc.clone(), &counts);
            let (row, latency) = merged.entry((subject.clone(), rpc.clone())).or_insert_with(|| {
                (UsageRow::new(subject, rpc, &MonthCounts::default()), Histogram::default())
            });
            row.add(&more);
            latency.merge(&counts.latency);
        }
    }
    let mut rows: Vec<_> = merged.into_values().collect();
    rows.sort_by(|(a, _), (b, _)| {
        (b.units, b.calls, &a.subject, &a.rpc).cmp(&(a.units, a.calls, &b.subject, &b.rpc))
    });
    rows
}

impl UsageRow {
    /// A row of these counts, without its histogram.
    pub(crate) fn new(subject: String, rpc: String, of: &MonthCounts) -> Self {
        let Counts { calls, units, client_errors, platform_errors } = of.counts;
        let (tokens, latency) = (of.tokens, Vec::new());
        Self { subject, rpc, calls, units, tokens, client_errors, platform_errors, latency }
    }

    fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.units += more.units;
        self.tokens += more.tokens;
        self.client_errors += more.client_errors;
        self.platform_errors += more.platform_errors;
    }
}

/// Is the subject a person, and not a key or an API token?
fn is_person(subject: &str) -> bool {
    SubjectId::parse(subject).is_some_and(SubjectId::is_person)
}

async fn name_of(
    metering: &Metering,
    ctx: &mut Ctx,
    account: AccountId,
    subject: &str,
) -> Result<String, Problem> {
    let tx = ctx.tx().await?;
    let name = if is_person(subject) {
        metering.directory.person(tx, subject).await?.map(|person| person.name)
    } else {
        metering.directory.credential(tx, account, subject).await?.map(|key| key.name)
    };
    Ok(name.unwrap_or_default())
}

/// The category of an operation.
pub(crate) fn category_of(ctx: &Ctx, rpc: &str) -> &'static str {
    let catalog = ctx.engine().registry.catalog();
    catalog.entry(rpc).and_then(|entry| entry.spec.category).map_or("", Category::name)
}

fn element(ctx: &Ctx, names: &HashMap<String, String>, row: &UsageRow, times: &Histogram) -> UsageElement {
    let subject = SubjectId::parse(&row.subject);
    // Of what a service reported without a key, only the account is known.
    let shown = if subject.is_some_and(SubjectId::is_service) { "" } else { &row.subject };
    let who = (shown.to_owned(), names.get(shown).cloned().unwrap_or_default());
    let (person, key) =
        if is_person(&row.subject) { (who, Default::default()) } else { (Default::default(), who) };
    UsageElement {
        category: category_of(ctx, &row.rpc).to_owned(),
        rpc: row.rpc.clone(),
        key_id: key.0,
        key_name: key.1,
        user_id: person.0,
        user_name: person.1,
        calls: Int64(row.calls),
        units: Int64(row.units),
        tokens: Int64(row.tokens),
        client_errors: Int64(row.client_errors),
        platform_errors: Int64(row.platform_errors),
        p50_ms: latency::percentile_ms(times, 50),
        p95_ms: latency::percentile_ms(times, 95),
    }
}
