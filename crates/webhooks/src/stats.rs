//! Statistics of deliveries.

use std::collections::BTreeMap;
use std::ops::Range;

use portico_engine::{AccountRef, Ctx, Operation, Spec};
use portico_kernel::{AccountId, Category, EndpointId, Hour, Problem, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoints::find_endpoint;
use crate::model::{Outcome, int32, latency_histogram, latency_percentile_ms};
use crate::sql::{self, EndpointKey, StatRow};
use crate::{Webhooks, limits};

/// What a row of statistics spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum By {
    /// An hour.
    Hour,
    /// A day.
    Day,
}

const DAY_HOURS: i64 = 24;

/// Read how deliveries fared: attempts that were taken and that failed, by hour or day, how long answers took, and why
/// attempts failed. Hours and days without an attempt are left out. Beside that, how many deliveries are pending for each
/// endpoint: with 5,000 of them, or 10,000 in the account, those of further events are held back until there is room.
/// The events themselves are in the list of events and in streams at once.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetStats {
    /// Of this endpoint alone.
    #[serde(default)]
    endpoint_id: Option<EndpointId>,
    /// The team; without it the caller's own account, or the endpoint's.
    #[serde(default)]
    account_id: Option<AccountRef>,
    /// From the hour or day of this time on; without it the last 24 hours, or 30 days.
    #[serde(default)]
    from: Option<Timestamp>,
    /// Up to this time, whose hour or day is in it; without it up to now.
    #[serde(default)]
    to: Option<Timestamp>,
    /// What a row spans; without it an hour.
    #[serde(default)]
    by: Option<By>,
}

/// How deliveries fared.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stats {
    /// Oldest first.
    rows: Vec<StatsRow>,
    /// How many attempts ended how, over all rows.
    outcomes: Vec<OutcomeCount>,
    /// What is pending now, for each endpoint.
    backlogs: Vec<Backlog>,
}

/// The pending deliveries of an endpoint.
#[derive(Serialize, JsonSchema)]
struct Backlog {
    /// The endpoint.
    endpoint_id: EndpointId,
    /// Deliveries that are to be sent, or sent again.
    pending: i32,
    /// How many there may be; fewer while the account has too many.
    limit: i32,
    /// Are the deliveries of further events held back?
    full: bool,
    /// Deliveries that are held back, counted up to 10,000; they are made in order when there is room.
    held_back: i32,
}

/// An hour or a day.
#[derive(Serialize, JsonSchema)]
struct StatsRow {
    /// When it began.
    at: Timestamp,
    /// Attempts that were taken.
    delivered: i32,
    /// Attempts that failed.
    failed: i32,
    /// Half of the answers took at most so many milliseconds, to about a fifth.
    p50_ms: i32,
    /// 95 of 100 did.
    p95_ms: i32,
}

/// How many attempts ended so.
#[derive(Serialize, JsonSchema)]
struct OutcomeCount {
    /// How they ended.
    outcome: Outcome,
    /// How many they are.
    count: i32,
}

fn stats_row(start: i64, rows: &[&StatRow]) -> StatsRow {
    let is_delivered = |row: &&&StatRow| row.outcome == Outcome::Delivered;
    let delivered = rows.iter().filter(is_delivered).map(|row| row.count).sum();
    let all: i64 = rows.iter().map(|row| row.count).sum();
    // The latency is that of attempts that were answered.
    let answered = [Outcome::Delivered, Outcome::Status, Outcome::Redirect];
    let answered = rows.iter().filter(|row| answered.contains(&row.outcome));
    let latency = latency_histogram(answered.map(|row| (row.step, row.count)));
    let ms = |percent| int32(latency_percentile_ms(&latency, percent).into());
    StatsRow {
        at: Hour::from_number(start).start(),
        delivered: int32(delivered),
        failed: int32(all - delivered),
        p50_ms: ms(50),
        p95_ms: ms(95),
    }
}

impl GetStats {
    /// The hours that the statistics are of.
    fn hours(&self, now: Timestamp, by: By) -> Result<Range<i64>, Problem> {
        let to = self.to.unwrap_or(now);
        let back = if by == By::Hour { limits::RECENT } else { limits::HISTORY_LIFE };
        let from = self.from.unwrap_or(to - back);
        if to < from {
            return Err(Problem::field("to", "must not be before `from`"));
        }
        let days = limits::STATS_DAYS_MAX;
        if to.since(from).as_secs() > days * 86_400 {
            return Err(Problem::field("from", format!("must not be more than {days} days before `to`")));
        }
        let (first, last) = (Hour::of(from).number(), Hour::of(to).number());
        Ok(match by {
            By::Hour => first..last + 1,
            By::Day => first.div_euclid(DAY_HOURS) * DAY_HOURS..(last.div_euclid(DAY_HOURS) + 1) * DAY_HOURS,
        })
    }
}

impl GetStats {
    /// The backlogs of the account's endpoints, or of the one that is asked for.
    async fn backlogs(&self, ctx: &mut Ctx, account: AccountId) -> Result<Vec<Backlog>, Problem> {
        let tx = ctx.tx().await?;
        let mut backlogs = Vec::new();
        for row in sql::backlogs(tx, account).await? {
            let endpoint_id = row.endpoint_id;
            if self.endpoint_id.is_some_and(|id| id != endpoint_id) {
                continue;
            }
            let held_back = match row.held_after {
                Some(after) => {
                    sql::count_held(tx, EndpointKey { account, endpoint: endpoint_id }, after).await?
                }
                None => 0,
            };
            backlogs.push(Backlog {
                endpoint_id,
                pending: int32(row.pending),
                limit: int32(limits::ENDPOINT_PENDING_MAX),
                full: row.held_after.is_some(),
                held_back: int32(held_back),
            });
        }
        Ok(backlogs)
    }
}

impl Operation for GetStats {
    const SPEC: Spec =
        Spec::get("webhooks.stats.get", "/v1/webhooks/stats").scope("webhooks:read").category(Category::Read);
    type Area = Webhooks;
    type Answer = Stats;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Stats, Problem> {
        let by = self.by.unwrap_or(By::Hour);
        let hours = self.hours(ctx.now(), by)?;
        let named = match self.account_id {
            Some(named) => Some(ctx.account(Some(named)).await?),
            None => None,
        };
        let account = match self.endpoint_id {
            None => ctx.account(named.map(AccountRef::from)).await?,
            Some(id) => {
                let account = find_endpoint(ctx, id).await?.account_id;
                if named.is_some_and(|named| named != account) {
                    return Err(Problem::not_found("webhook endpoint", id));
                }
                account
            }
        };
        let backlogs = self.backlogs(ctx, account).await?;
        let found = sql::stats(ctx.tx().await?, account, self.endpoint_id, hours).await?;
        let mut groups: BTreeMap<i64, Vec<&StatRow>> = BTreeMap::new();
        let mut outcomes: BTreeMap<Outcome, i64> = BTreeMap::new();
        for stat in &found {
            let width = if by == By::Hour { 1 } else { DAY_HOURS };
            groups.entry(stat.hour.div_euclid(width) * width).or_default().push(stat);
            *outcomes.entry(stat.outcome).or_default() += stat.count;
        }
        Ok(Stats {
            rows: groups.iter().map(|(start, rows)| stats_row(*start, rows)).collect(),
            outcomes: outcomes
                .into_iter()
                .map(|(outcome, count)| OutcomeCount { outcome, count: int32(count) })
                .collect(),
            backlogs,
        })
    }
}
