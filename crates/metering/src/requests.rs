//! The log of requests, as its account reads it.

use std::borrow::Cow;

use portico_engine::{AccountRef, Ctx, Cursor, Operation, Page, Spec, Tool};
use portico_kernel::{Category, Int64, Problem, Scope, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::block::{Logged, Unpacked};
use crate::journal::SubjectId;
use crate::{Metering, limits, sql};

/// List the requests that were made for the account, newest first, for 30 days. A page can be shorter than asked for:
/// with filters only so many requests are looked at for one page.
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

/// Where a request stands: its time, its journal, and its number there.
type At = (i64, String, u64);

fn parse(cursor: &Cursor) -> Option<At> {
    let mut parts = cursor.0.splitn(3, ' ');
    Some((parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?.parse().ok()?))
}

fn cursor((at, journal, number): &At) -> Cursor {
    Cursor(format!("{at} {journal} {number}"))
}

/// The id of a key, an API token or a person.
struct SubjectFilter(SubjectId);

impl<'de> Deserialize<'de> for SubjectFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = "must be the id of a key, an API token or a person";
        let id = SubjectId::parse(&String::deserialize(deserializer)?);
        id.map(Self).ok_or_else(|| de::Error::custom(words))
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
    /// Takes the request, if it is wanted and stands before `before` and behind `floor`.
    fn take(
        &self,
        ctx: &Ctx,
        (floor, before): (Option<&At>, &At),
        logged: &Logged<'_>,
    ) -> Option<(At, LoggedRequest)> {
        let wanted = self.key_id.as_ref().is_none_or(|id| id.0 == logged.subject)
            && self.rpc.as_ref().is_none_or(|rpc| *rpc == logged.rpc)
            && self.status.is_none_or(|status| status == i32::from(logged.status))
            && self.since.is_none_or(|since| since.as_micros() <= logged.at);
        let own = (logged.at, logged.journal, logged.number);
        let than = |at: &At| own.cmp(&(at.0, at.1.as_str(), at.2));
        let fits = || than(before).is_lt() && floor.is_none_or(|floor| than(floor).is_gt());
        let at = || (logged.at, logged.journal.to_owned(), logged.number);
        (wanted && fits()).then(|| (at(), show(ctx, logged)))
    }

    /// Requests before `before`, newest first, beside those in `found`: at least `wanted` of them, if so many are found
    /// soon enough. With them, where to go on when the end was not reached.
    async fn find(
        &self,
        ctx: &mut Ctx,
        before: &At,
        wanted: usize,
        mut found: Vec<(At, LoggedRequest)>,
    ) -> Result<(Vec<(At, LoggedRequest)>, Option<At>), Problem> {
        let until = Timestamp::from_micros(before.0);
        let account = ctx.account(Some(self.org_id)).await?;
        let span = (self.since.unwrap_or(Timestamp::from_micros(0)), until);
        // A piece may end later than a request in it that is wanted, but not by more than a piece spans.
        let mut block = (until + limits::BLOCK_SPAN_MAX, String::new());
        let (mut requests, mut blocks, mut batch) = (0, 0, 2);
        loop {
            let rows = sql::blocks_before(ctx.tx().await?, account, span, &block, batch).await?;
            let is_end = i64::try_from(rows.len()).unwrap_or(0) < batch;
            blocks += rows.len();
            for row in rows {
                if i64::from(self.status.unwrap_or(0)) <= row.worst_status {
                    let unpacked = Unpacked::new(&row.body)?;
                    requests += unpacked.len();
                    // Of those that are found, no more than are wanted can be in the page.
                    let floor = found.get(wanted.saturating_sub(1)).map(|(at, _)| at.clone());
                    let range = (floor.as_ref(), before);
                    found.extend(unpacked.requests().filter_map(|logged| self.take(ctx, range, &logged)));
                    found.sort_by(|(a, _), (b, _)| b.cmp(a));
                    found.truncate(wanted);
                }
                block = (row.last_at, row.id);
            }
            // What is not read yet came no later than this; what came later is in its final order.
            let border = if is_end { i64::MIN } else { block.0.as_micros() };
            let settled = found.partition_point(|((at, ..), _)| *at > border);
            // Never without a step back, however much lies in one moment.
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
        .scope(Scope::UsageRead)
        .category(Category::List)
        .list("requests");
    type Area = Metering;
    type Answer = Page<LoggedRequest>;

    async fn run(self, metering: &Metering, ctx: &mut Ctx) -> Result<Page<LoggedRequest>, Problem> {
        if self.status.is_some_and(|status| !(100..600).contains(&status)) {
            return Err(Problem::field("status", "must be a status of HTTP, 100 to 599"));
        }
        let account = ctx.account(Some(self.org_id)).await?;
        let tail = metering.tail(ctx, account).await?;
        let request = ctx.page()?;
        let before = match &request.after {
            Some(cursor) => parse(cursor).ok_or_else(|| Problem::internal("a cursor of requests"))?,
            // The first page begins in the future, because clocks of servers differ.
            None => ((ctx.now() + limits::BLOCK_SPAN_MAX).as_micros(), String::new(), 0),
        };
        let wanted = usize::try_from(request.rows()).unwrap_or(usize::MAX);
        let range = (None, &before);
        let mut found: Vec<_> = tail.requests().filter_map(|logged| self.take(ctx, range, &logged)).collect();
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

fn show(ctx: &Ctx, logged: &Logged<'_>) -> LoggedRequest {
    let entries = ctx.engine().registry.entries();
    let spec = entries.iter().map(|entry| &entry.spec).find(|spec| spec.name == logged.rpc);
    let (subject, nobody) = (logged.subject.to_string(), String::new());
    let (user_id, key_id) = if logged.subject.is_person() { (subject, nobody) } else { (nobody, subject) };
    LoggedRequest {
        request_id: logged.id.to_string(),
        at: Timestamp::from_micros(logged.at),
        method: spec.map_or("", |spec| spec.method.name()).to_owned(),
        path: spec.map_or("", |spec| spec.path).to_owned(),
        rpc: logged.rpc.to_owned(),
        status: logged.status.into(),
        code: logged.code.to_owned(),
        latency_ms: i32::try_from(logged.micros.saturating_add(500) / 1_000).unwrap_or(i32::MAX),
        units: Int64(logged.units.into()),
        key_id,
        user_id,
    }
}
