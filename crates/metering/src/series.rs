//! Units over time.

use std::collections::{BTreeMap, HashMap, HashSet};

use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{Category, Day, Hour, Int64, Month, Problem, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer_room::{AnswerRoom, item_length};
use crate::sql::{self, Counts, SpanRow};
use crate::usage::category_of;
use crate::{Metering, limits};

/// See the account's calls and units over time: by hour, by day, or by day and category, key or operation. An hour or
/// day without a call has no row.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetSeries {
    /// The account.
    org_id: AccountRef,
    /// The first day; left out, the first of the month in which the last day lies.
    #[serde(default)]
    from: Option<Day>,
    /// The last day; left out, today.
    #[serde(default)]
    to: Option<Day>,
    /// What to group by. By hour at most 31 days, by day at most 366, otherwise at most 92; left out, by day.
    #[serde(default)]
    by: By,
}

/// What to group by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum By {
    /// The day.
    #[default]
    Day,
    /// The hour.
    Hour,
    /// The day and the category of the operation.
    Category,
    /// The day and the key, API token or person.
    Key,
    /// The day and the operation.
    Rpc,
}

/// Units over time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Series {
    /// The first day.
    from: Day,
    /// The last day.
    to: Day,
    /// What it is grouped by.
    by: By,
    /// Each hour or day and group, oldest first. Groups that do not fit into the answer are summed in one whose name is
    /// empty, the last of its day.
    rows: Vec<SeriesRow>,
    /// What each group comes to over all the time, what cost most first; last the one of those that do not fit.
    groups: Vec<SeriesGroup>,
}

/// One hour or day, and one group.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SeriesRow {
    /// When the hour or day begins.
    at: Timestamp,
    /// The category, the id of the key, API token or person, or the operation; `total` by day and by hour.
    group: String,
    /// Calls, refused ones included.
    calls: Int64,
    /// Units that they cost.
    units: Int64,
    /// Calls that were refused with a status of 4xx.
    client_errors: Int64,
    /// Calls that failed with a status of 5xx.
    platform_errors: Int64,
}

/// What a group comes to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SeriesGroup {
    /// The group.
    group: String,
    /// Calls, refused ones included.
    calls: Int64,
    /// Units that they cost.
    units: Int64,
}

impl By {
    fn days_max(self) -> i64 {
        match self {
            Self::Hour => limits::HOURS_DAYS_MAX,
            Self::Day => limits::DAYS_MAX,
            Self::Category | Self::Key | Self::Rpc => limits::GROUPED_DAYS_MAX,
        }
    }
}

impl Operation for GetSeries {
    const SPEC: Spec = Spec::get("metering.series.get", "/v1/accounts/orgs/{org_id}/units/series")
        .scope("usage:read")
        .category(Category::Read);
    type Area = Metering;
    type Answer = Series;

    async fn run(self, metering: &Metering, ctx: &mut Ctx) -> Result<Series, Problem> {
        let to = self.to.unwrap_or_else(|| Day::of(ctx.now()));
        let from = self.from.unwrap_or_else(|| Month::of(to.start()).first_day());
        let days = to.number() - from.number() + 1;
        if days < 1 {
            return Err(Problem::field("from", "must not be after `to`"));
        }
        if days > self.by.days_max() {
            let message = format!("must be at most {} days before the end", self.by.days_max());
            return Err(Problem::field("from", message));
        }
        let account = ctx.account(Some(self.org_id)).await?;
        let pending = metering.pending(ctx, account).await?;
        let until = Day::from_number(to.number() + 1);
        let tx = ctx.tx().await?;
        let hours = (from.first_hour(), until.first_hour());
        let in_hours = hours.0.number()..hours.1.number();
        let in_days = from.number()..until.number();
        let (by, span, more) = match self.by {
            By::Hour => (sql::BY_HOUR, in_hours, pending.by_hour(hours.0, hours.1)),
            By::Day => (sql::BY_DAY, in_hours, pending.by_day(from, until)),
            By::Key => (sql::BY_SUBJECT, in_days, pending.by_subject(from, until)),
            By::Category | By::Rpc => (sql::BY_RPC, in_days, pending.by_rpc(from, until)),
        };
        let rows = sql::spans(tx, by, account, span.start, span.end).await?;
        let cells = cells(self.by, rows.into_iter().chain(more), |rpc| category_of(ctx, rpc));
        let mut series = Series { from, to, by: self.by, groups: groups(&cells), rows: Vec::new() };
        series.rows = cells.into_iter().map(row).collect();
        fit(series)
    }
}

type Cells = BTreeMap<(Timestamp, String), Counts>;

/// The counts of each hour or day and group.
fn cells(by: By, rows: impl Iterator<Item = SpanRow>, category: impl Fn(&str) -> &'static str) -> Cells {
    let mut cells = Cells::new();
    for row in rows {
        let (at, group) = match by {
            By::Hour => (Hour::from_number(row.number).start(), "total".to_owned()),
            By::Day => (Day::from_number(row.number).start(), "total".to_owned()),
            By::Category => (Day::from_number(row.number).start(), category(&row.part).to_owned()),
            By::Key | By::Rpc => (Day::from_number(row.number).start(), row.part),
        };
        let sum = cells.entry((at, group)).or_default();
        sum.calls += row.calls;
        sum.units += row.units;
        sum.client_errors += row.client_errors;
        sum.platform_errors += row.platform_errors;
    }
    cells
}

fn groups(cells: &Cells) -> Vec<SeriesGroup> {
    let mut sums: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for ((_, group), counts) in cells {
        let sum = sums.entry(group).or_default();
        *sum = (sum.0 + counts.calls, sum.1 + counts.units);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (calls, units))| (-units, -calls));
    let group = |(group, (calls, units)): (&str, (i64, i64))| SeriesGroup {
        group: group.to_owned(),
        calls: Int64(calls),
        units: Int64(units),
    };
    sums.into_iter().map(group).collect()
}

/// The series with as many groups as fit into an answer, those that cost most; the others become one without a name.
fn fit(mut series: Series) -> Result<Series, Problem> {
    let (rows, groups) = (std::mem::take(&mut series.rows), std::mem::take(&mut series.groups));
    let mut lengths: HashMap<&str, usize> = HashMap::new();
    for row in &rows {
        *lengths.entry(&row.group).or_default() += item_length(row)?;
    }
    let spans = rows.chunk_by(|row, next| row.at == next.at).count();
    let mut room = AnswerRoom::beside(&series, (spans + 1) * limits::USAGE_ROW_BYTES)?;
    let mut kept = HashSet::new();
    for group in &groups {
        let bytes = lengths.get(group.group.as_str()).copied().unwrap_or(0) + item_length(group)?;
        if !room.take(bytes) {
            break;
        }
        kept.insert(group.group.clone());
    }
    // Where all fit, a group without a name is a category of its own.
    let all_fit = kept.len() == groups.len();
    let keeps = |group: &str| all_fit || (!group.is_empty() && kept.contains(group));
    let (mut rest, mut rest_of) = (BTreeMap::<Timestamp, Counts>::new(), Counts::default());
    for row in rows {
        if keeps(&row.group) {
            series.rows.push(row);
            continue;
        }
        for sum in [rest.entry(row.at).or_default(), &mut rest_of] {
            sum.calls += row.calls.0;
            sum.units += row.units.0;
            sum.client_errors += row.client_errors.0;
            sum.platform_errors += row.platform_errors.0;
        }
    }
    series.groups = groups.into_iter().filter(|group| keeps(&group.group)).collect();
    if !rest.is_empty() {
        let (calls, units) = (Int64(rest_of.calls), Int64(rest_of.units));
        series.groups.push(SeriesGroup { group: String::new(), calls, units });
        series.rows.extend(rest.into_iter().map(|(at, counts)| row(((at, String::new()), counts))));
        // Rows of one time stay in their order, and the new one is behind them.
        series.rows.sort_by_key(|row| row.at);
    }
    Ok(series)
}

fn row(((at, group), counts): ((Timestamp, String), Counts)) -> SeriesRow {
    SeriesRow {
        at,
        group,
        calls: Int64(counts.calls),
        units: Int64(counts.units),
        client_errors: Int64(counts.client_errors),
        platform_errors: Int64(counts.platform_errors),
    }
}
