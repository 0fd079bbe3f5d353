//! The log of requests, as its account reads it.

use std::borrow::Cow;

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, Spec, Tool};
use portico_kernel::{Category, Int64, Problem, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::block::{BlockReader, LogEntry};
use crate::journal::SubjectId;
use crate::{Metering, limits, sql};

/// List the requests that were made for the account, newest first, for 30 days. A page can be shorter than asked for:
/// with filters only so many requests are looked at for one page. Of many refusals in a minute, and of more requests than
/// the plan logs in a day, the first are listed; usage counts all.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRequests {
    /// The account.
    org_id: AccountRef,
    /// Only requests of this key, API token or person.
    #[serde(default)]
    key_id: Option<SubjectFilter>,
    /// Only requests of this operation, by its socket method.
    #[serde(default)]
    rpc: Option<String>,
    /// Only requests with this status.
    #[serde(default)]
    #[schemars(range(min = 100, max = 599))]
    status: Option<i32>,
    /// Only requests that came at this time or later.
    #[serde(default)]
    since: Option<Timestamp>,
}

/// A request that was answered.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LoggedRequest {
    /// Its id, as in `x-request-id`.
    request_id: String,
    /// When it came.
    at: Timestamp,
    /// The operation, by its socket method.
    rpc: String,
    /// How it was called.
    method: String,
    /// The pattern of the path, without its values.
    path: String,
    /// The status of the answer.
    status: i32,
    /// The code of a refusal; empty for success.
    code: String,
    /// How long it took.
    latency_ms: i32,
    /// Units that it cost.
    units: Int64,
    /// The key or API token; empty for a person.
    key_id: String,
    /// The person; empty for a key or API token.
    user_id: String,
}

/// The position of a request in the log: its time, its journal, and its number there.
type LogPosition = (i64, String, u64);

fn parse(cursor: &Cursor) -> Option<LogPosition> {
    let mut parts = cursor.0.splitn(3, ' ');
    Some((parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?.parse().ok()?))
}

fn cursor((at, journal, number): &LogPosition) -> Cursor {
    Cursor(format!("{at} {journal} {number}"))
}

/// The id of a key, an API token or a person.
struct SubjectFilter(SubjectId);

impl<'de> Deserialize<'de> for SubjectFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let message = "must be the id of a key, an API token or a person";
        let id = SubjectId::parse(&String::deserialize(deserializer)?);
        id.map(Self).ok_or_else(|| de::Error::custom(message))
    }
}

impl JsonSchema for SubjectFilter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "RateLimitKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(key|tok|usr)_[0-7][0-9A-HJKMNP-TV-Z]{25}$" })
    }
}

impl ListRequests {
    /// The request, if it matches the filters and lies between `floor` and `before`.
    fn select(
        &self,
        ctx: &Ctx,
        floor: Option<&LogPosition>,
        before: &LogPosition,
        entry: &LogEntry<'_>,
    ) -> Option<(LogPosition, LoggedRequest)> {
        let wanted = self.key_id.as_ref().is_none_or(|id| id.0 == entry.subject)
            && self.rpc.as_ref().is_none_or(|rpc| *rpc == entry.rpc)
            && self.status.is_none_or(|status| status == i32::from(entry.status))
            && self.since.is_none_or(|since| since.as_micros() <= entry.at);
        let own = (entry.at, entry.journal, entry.number);
        let than = |at: &LogPosition| own.cmp(&(at.0, at.1.as_str(), at.2));
        let fits = || than(before).is_lt() && floor.is_none_or(|floor| than(floor).is_gt());
        let at = || (entry.at, entry.journal.to_owned(), entry.number);
        (wanted && fits()).then(|| (at(), show(ctx, entry)))
    }

    /// The requests in `found` and those in blocks before `before`, newest first: `wanted` of them, if so many are found
    /// within the limits. Also returns where to go on when the end was not reached.
    async fn find(
        &self,
        ctx: &mut Ctx,
        before: &LogPosition,
        wanted: usize,
        mut found: Vec<(LogPosition, LoggedRequest)>,
    ) -> Result<(Vec<(LogPosition, LoggedRequest)>, Option<LogPosition>), Problem> {
        let until = Timestamp::from_micros(before.0);
        let account = ctx.account(Some(self.org_id)).await?;
        let since = self.since.unwrap_or(Timestamp::from_micros(0));
        // A block may end later than a wanted request in it, but not by more than a block spans.
        let mut block = (until + limits::BLOCK_SPAN_MAX, String::new());
        let (mut requests, mut blocks, mut batch) = (0, 0, 2);
        loop {
            let rows = sql::blocks_before(ctx.tx().await?, account, since, until, &block, batch).await?;
            let is_end = i64::try_from(rows.len()).unwrap_or(0) < batch;
            blocks += rows.len();
            for row in rows {
                if i64::from(self.status.unwrap_or(0)) <= row.worst_status {
                    let reader = BlockReader::new(&row.body)?;
                    requests += reader.len();
                    // Of those that are found, no more than are wanted can be in the page.
                    let floor = found.get(wanted.saturating_sub(1)).map(|(at, _)| at.clone());
                    let select = |entry: LogEntry<'_>| self.select(ctx, floor.as_ref(), before, &entry);
                    found.extend(reader.requests().filter_map(select));
                    found.sort_by(|(a, _), (b, _)| b.cmp(a));
                    found.truncate(wanted);
                }
                block = (row.last_at, row.id);
            }
            // The blocks that are not read yet end no later than this; later requests are in their final order.
            let border = if is_end { i64::MIN } else { block.0.as_micros() };
            let settled = found.partition_point(|((at, ..), _)| *at > border);
            // Always goes on to an earlier moment, however many requests lie in one.
            let enough = (blocks >= limits::BLOCKS_READ_MAX || requests >= limits::REQUESTS_READ_MAX)
                && border.saturating_add(1) < before.0;
            if is_end || settled >= wanted || enough {
                found.truncate(settled);
                return Ok((found, (!is_end).then(|| (border.saturating_add(1), String::new(), 0))));
            }
            batch = (batch * 2).min(limits::BLOCKS_AT_ONCE);
        }
    }
}

impl Operation for ListRequests {
    const SPEC: Spec = Spec::get("metering.requests.list", "/v1/accounts/orgs/{org_id}/requests")
        .tool(
            Tool::new("metering_list_requests", "List recent API requests")
                .hint("Use this to look into calls that failed."),
        )
        .scope("usage:read")
        .category(Category::List)
        .list("requests");
    type Area = Metering;
    type Answer = Page<LoggedRequest>;

    async fn run(self, metering: &Metering, ctx: &mut Ctx) -> Result<Page<LoggedRequest>, Problem> {
        if self.status.is_some_and(|status| !(100..600).contains(&status)) {
            return Err(Problem::field("status", "must be a status of HTTP, 100 to 599"));
        }
        if let Some(rpc) = &self.rpc {
            ctx.engine().registry.catalog().check_operation("rpc", rpc)?;
        }
        let account = ctx.account(Some(self.org_id)).await?;
        let pending = metering.pending(ctx, account).await?;
        let request = ctx.page()?;
        let before = match &request.after {
            Some(cursor) => {
                parse(cursor).ok_or_else(|| Problem::internal("a cursor of requests that does not parse"))?
            }
            // The first page begins in the future, because clocks of servers differ.
            None => ((ctx.now() + limits::BLOCK_SPAN_MAX).as_micros(), String::new(), 0),
        };
        let wanted = usize::try_from(request.rows()).unwrap_or(usize::MAX);
        let select = |entry: LogEntry<'_>| self.select(ctx, None, &before, &entry);
        let mut found: Vec<_> = pending.requests().filter_map(select).collect();
        found.sort_by(|(a, _), (b, _)| b.cmp(a));
        found.truncate(wanted);
        let (found, more) = self.find(ctx, &before, wanted, found).await?;
        let mut page = request.page(found, |(at, _)| cursor(at), |(_, request)| request);
        if page.next.is_none() {
            page.next = more.as_ref().map(cursor);
        }
        Ok(page)
    }
}

fn show(ctx: &Ctx, entry: &LogEntry<'_>) -> LoggedRequest {
    let catalog = ctx.engine().registry.catalog();
    let spec = catalog.entry(entry.rpc).map(|operation| operation.spec);
    let (subject, nobody) = (entry.subject.to_string(), String::new());
    let (user_id, key_id) = if entry.subject.is_person() { (subject, nobody) } else { (nobody, subject) };
    LoggedRequest {
        request_id: entry.id.to_string(),
        at: Timestamp::from_micros(entry.at),
        method: spec.map_or("", |spec| spec.method.name()).to_owned(),
        path: spec.map_or("", |spec| spec.path).to_owned(),
        rpc: entry.rpc.to_owned(),
        status: entry.status.into(),
        code: entry.code.to_owned(),
        latency_ms: i32::try_from(entry.micros.saturating_add(500) / 1_000).unwrap_or(i32::MAX),
        units: Int64(entry.units.into()),
        key_id,
        user_id,
    }
}
