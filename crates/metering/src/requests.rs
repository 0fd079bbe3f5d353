//! The log of requests, as its account reads it.

use portico_engine::{Ctx, Cursor, Operation, Page, Spec};
use portico_kernel::{AccountId, Category, Int64, Problem, Scope, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::block::{Logged, unpack};
use crate::usage::is_person;
use crate::{Metering, limits, sql};

/// List the requests that were made for the account, newest first, for 30 days. A page can be shorter than asked for:
/// with filters only so many requests are looked at for one page.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRequests {
    /// The account.
    org_id: AccountId,
    /// Only requests of this key, API token or person.
    #[serde(default)]
    key_id: Option<String>,
    /// Only requests of this operation, by its socket method.
    #[serde(default)]
    rpc: Option<String>,
    /// Only requests with this status.
    #[serde(default)]
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

/// Where a request stands: its time, its piece of the log, and its place there.
type At = (i64, String, usize);

fn parse(cursor: &Cursor) -> Option<At> {
    let mut parts = cursor.0.splitn(3, ' ');
    Some((parts.next()?.parse().ok()?, parts.next()?.to_owned(), parts.next()?.parse().ok()?))
}

fn cursor((at, block, place): &At) -> Cursor {
    Cursor(format!("{at} {block} {place}"))
}

impl ListRequests {
    fn wants(&self, logged: &Logged) -> bool {
        self.key_id.as_ref().is_none_or(|id| *id == logged.subject)
            && self.rpc.as_ref().is_none_or(|rpc| *rpc == logged.rpc)
            && self.status.is_none_or(|status| status == i32::from(logged.status))
            && self.since.is_none_or(|since| since.as_micros() <= logged.at)
    }

    /// Requests before `before`, newest first: at least `wanted` of them, if so many are found soon enough. Beside them,
    /// where to go on when the end was not reached.
    async fn find(
        &self,
        ctx: &mut Ctx,
        before: &At,
        wanted: usize,
    ) -> Result<(Vec<(At, Logged)>, Option<At>), Problem> {
        let until = Timestamp::from_micros(before.0);
        let span = (self.since.unwrap_or(Timestamp::from_micros(0)), until);
        let status = i64::from(self.status.unwrap_or(0));
        // A piece may end later than a request in it that is wanted, but not by more than a piece spans.
        let mut block = (until + limits::BLOCK_SPAN_MAX, String::new());
        let (mut found, mut looked_at, mut batch): (Vec<(At, Logged)>, _, _) = (Vec::new(), 0, 2);
        loop {
            let blocks =
                sql::blocks_before(ctx.tx().await?, self.org_id, span, status, &block, batch).await?;
            let is_end = i64::try_from(blocks.len()).unwrap_or(0) < batch;
            for row in blocks {
                let requests = unpack(&row.body)?;
                looked_at += requests.len();
                let placed = requests.into_iter().enumerate();
                let placed = placed.map(|(place, logged)| ((logged.at, row.id.clone(), place), logged));
                found.extend(placed.filter(|(at, logged)| at < before && self.wants(logged)));
                block = (row.last_at, row.id);
            }
            // What is not read yet came no later than this; what came later is in its final order.
            let border = if is_end { i64::MIN } else { block.0.as_micros() };
            found.sort_by(|(a, _), (b, _)| b.cmp(a));
            let settled = found.partition_point(|((at, ..), _)| *at > border);
            if is_end || settled >= wanted || looked_at >= limits::REQUESTS_READ_MAX {
                found.truncate(settled);
                return Ok((found, (!is_end).then(|| (border.saturating_add(1), String::new(), 0))));
            }
            batch = (batch * 2).min(limits::BLOCKS_READ);
        }
    }
}

impl Operation for ListRequests {
    const SPEC: Spec = Spec::get("metering.requests.list", "/v1/accounts/orgs/{org_id}/requests")
        .scope(Scope::UsageRead)
        .category(Category::List)
        .list("requests");
    type Area = Metering;
    type Answer = Page<LoggedRequest>;

    async fn run(self, metering: &Metering, ctx: &mut Ctx) -> Result<Page<LoggedRequest>, Problem> {
        metering.flush(ctx.engine()).await?;
        let request = ctx.page()?;
        // The first page begins in the future, because clocks of servers differ.
        let future = || ((ctx.now() + limits::BLOCK_SPAN_MAX).as_micros(), String::new(), 0);
        let before = match &request.after {
            Some(cursor) => parse(cursor).ok_or_else(|| Problem::internal("a cursor of requests"))?,
            None => future(),
        };
        let wanted = usize::try_from(request.rows()).unwrap_or(usize::MAX);
        let (found, more) = self.find(ctx, &before, wanted).await?;
        let mut page = request.page(found, |(at, _)| cursor(at), |(_, logged)| show(ctx, logged));
        if page.next.is_none() {
            page.next = more.as_ref().map(cursor);
        }
        Ok(page)
    }
}

fn show(ctx: &Ctx, logged: Logged) -> LoggedRequest {
    let entries = ctx.engine().registry.entries();
    let spec = entries.iter().map(|entry| &entry.spec).find(|spec| spec.name == logged.rpc);
    let person = is_person(&logged.subject);
    let (user_id, key_id) =
        if person { (logged.subject, String::new()) } else { (String::new(), logged.subject) };
    LoggedRequest {
        request_id: logged.request_id,
        at: Timestamp::from_micros(logged.at),
        method: spec.map_or("", |spec| spec.method.name()).to_owned(),
        path: spec.map_or("", |spec| spec.path).to_owned(),
        rpc: logged.rpc,
        status: logged.status.into(),
        code: logged.code,
        latency_ms: i32::try_from(logged.micros.saturating_add(500) / 1_000).unwrap_or(i32::MAX),
        units: Int64(logged.units.into()),
        key_id,
        user_id,
    }
}
