//! The operations on deliveries.

use std::collections::HashMap;

use portico_engine::{Ctx, Cursor, Operation, Page, PageRequest, Spec, Tool, event_sequence};
use portico_kernel::{AttemptId, Category, DeliveryId, EndpointId, EventId, Problem, Role, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::endpoints::{check_access, check_enabled, check_room, find_endpoint, optional_time};
use crate::model::{Outcome, QueueKind, Status, int32};
use crate::sql::{self, AttemptRow, DeliveryPosition, DeliveryRow};
use crate::{Webhooks, limits};

/// Rows that are read at once while a filter is applied.
const CHUNK: i64 = 500;

/// The delivery of one event to one endpoint.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Delivery {
    /// The delivery's id.
    id: DeliveryId,
    /// The event, which is the `webhook-id` of every attempt.
    event_id: EventId,
    /// The event's type.
    event_type: String,
    /// The endpoint.
    endpoint_id: EndpointId,
    /// How it stands.
    status: Status,
    /// When it was made.
    created_at: Timestamp,
    /// When it is sent next; empty when it is not.
    next_attempt_at: String,
    /// What was tried, oldest first.
    attempts: Vec<Attempt>,
}

/// An attempt at a delivery.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Attempt {
    /// The attempt's id.
    id: AttemptId,
    /// Its number; the first is 1.
    number: i32,
    /// When it began.
    at: Timestamp,
    /// The status that the receiver answered with; 0 when it did not.
    status_code: i32,
    /// How long it took, in milliseconds.
    duration_ms: i32,
    /// How it ended.
    outcome: Outcome,
    /// When the next one was to follow; empty when none was.
    next_retry_at: String,
}

impl From<AttemptRow> for Attempt {
    fn from(row: AttemptRow) -> Self {
        Self {
            id: row.id,
            number: int32(row.number),
            at: row.at,
            status_code: int32(row.status_code),
            duration_ms: int32(row.duration_ms),
            outcome: row.outcome,
            next_retry_at: optional_time(row.next_retry_at),
        }
    }
}

/// The deliveries with their attempts, in the order of the rows.
async fn with_attempts(ctx: &mut Ctx, rows: &[DeliveryRow]) -> Result<Vec<Delivery>, Problem> {
    let now = ctx.now();
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let mut attempts: HashMap<DeliveryId, Vec<Attempt>> = HashMap::new();
    for row in sql::attempts(ctx.tx().await?, &ids, now).await? {
        attempts.entry(row.delivery_id).or_default().push(row.into());
    }
    let delivery = |row: &DeliveryRow| Delivery {
        id: row.id,
        event_id: row.event_id,
        event_type: row.event_type.clone(),
        endpoint_id: row.endpoint_id,
        status: row.status,
        created_at: row.created_at,
        next_attempt_at: optional_time(row.next_at),
        attempts: attempts.remove(&row.id).unwrap_or_default(),
    };
    Ok(rows.iter().map(delivery).collect())
}

/// List an endpoint's deliveries and their attempts, newest first. They are on record for 30 days. With a filter a page
/// may be short, or empty, and still not be the last.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDeliveries {
    /// The endpoint.
    endpoint_id: EndpointId,
    /// Those that stand so alone.
    #[serde(default)]
    status: Option<Status>,
    /// Those of this event type alone.
    #[serde(default)]
    event_type: Option<String>,
    /// Those made from this time on.
    #[serde(default)]
    since: Option<Timestamp>,
}

/// Where a page ends: time and id of its last delivery.
fn cursor(row: &DeliveryRow) -> Cursor {
    Cursor(format!("{} {}", row.created_at.as_micros(), row.id))
}

fn read_cursor(page: &PageRequest) -> Result<DeliveryPosition, Problem> {
    let Some(Cursor(text)) = &page.after else {
        return Ok(DeliveryPosition { created_at: Timestamp::from_micros(i64::MAX), id: String::new() });
    };
    let parts = text.split_once(' ').and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
    let (at, id) = parts.ok_or_else(|| Problem::internal("a malformed cursor of deliveries"))?;
    Ok(DeliveryPosition { created_at: Timestamp::from_micros(at), id })
}

impl ListDeliveries {
    fn matches(&self, row: &DeliveryRow) -> bool {
        self.status.is_none_or(|status| row.status == status)
            && self.event_type.as_ref().is_none_or(|event_type| row.event_type == *event_type)
    }
}

impl Operation for ListDeliveries {
    const SPEC: Spec =
        Spec::get("webhooks.deliveries.list", "/v1/webhooks/endpoints/{endpoint_id}/deliveries")
            .tool(
                Tool::new("webhooks_list_deliveries", "List deliveries of an endpoint")
                    .hint("Use this to see why an endpoint did not get something."),
            )
            .scope("webhooks:read")
            .category(Category::List)
            .list("deliveries");
    type Area = Webhooks;
    type Answer = Page<Delivery>;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Page<Delivery>, Problem> {
        if let Some(event_type) = &self.event_type {
            ctx.engine().registry.catalog().check_event_type("event_type", event_type)?;
        }
        find_endpoint(ctx, self.endpoint_id).await?;
        let (page, oldest) = (ctx.page()?, ctx.now() - limits::HISTORY_LIFE);
        let since = self.since.map_or(oldest, |since| since.max(oldest));
        let filtered = self.status.is_some() || self.event_type.is_some();
        let (wanted, chunk) = (page.rows(), if filtered { CHUNK } else { page.rows() });
        let mut before = read_cursor(&page)?;
        let (mut found, mut scanned, mut next) = (Vec::new(), 0, None);
        loop {
            let tx = ctx.tx().await?;
            let rows = sql::deliveries_before(tx, self.endpoint_id, since, &before, chunk).await?;
            let (read, last) = (rows.len(), rows.last().cloned());
            found.extend(rows.into_iter().filter(|row| self.matches(row)));
            scanned += read;
            let Some(last) = last else { break };
            before = DeliveryPosition { created_at: last.created_at, id: last.id.to_string() };
            if i64::try_from(read).is_ok_and(|read| read < chunk)
                || found.len() as u64 >= wanted.unsigned_abs()
            {
                break;
            }
            if scanned >= limits::SCANNED_MAX {
                next = Some(cursor(&last));
                break;
            }
        }
        let page_size = usize::try_from(wanted).unwrap_or(usize::MAX).saturating_sub(1);
        if found.len() > page_size {
            found.truncate(page_size);
            next = found.last().map(cursor);
        }
        let deliveries = with_attempts(ctx, &found).await?;
        Ok(Page { items: found.iter().map(cursor).zip(deliveries).collect(), next })
    }
}

/// Send a delivery again, with the same `webhook-id`: one attempt, at once. The schedule of a pending delivery goes on
/// from there and keeps its eight attempts; one that has ended gets this attempt alone. While an attempt is under way,
/// that is the one. A pending `audit.event` waits for those before it, which keep their order.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryDelivery {
    /// The delivery.
    delivery_id: DeliveryId,
}

/// A delivery that is sent again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Retried")]
pub(crate) struct RetryResult {
    /// The delivery.
    delivery: Delivery,
}

impl Operation for RetryDelivery {
    const SPEC: Spec = Spec::post("webhooks.deliveries.retry", "/v1/webhooks/deliveries/{delivery_id}/retry")
        .tool(Tool::new("webhooks_retry_delivery", "Send a delivery again"))
        .scope("webhooks:write")
        .role(Role::Admin)
        .category(Category::Send)
        .accepts_idempotency_key();
    type Area = Webhooks;
    type Answer = RetryResult;

    async fn run(self, webhooks: &Webhooks, ctx: &mut Ctx) -> Result<RetryResult, Problem> {
        let missing = || Problem::not_found("delivery", self.delivery_id);
        let now = ctx.now();
        let row = sql::delivery(ctx.tx().await?, self.delivery_id).await?;
        let row = row.filter(|row| row.created_at >= now - limits::HISTORY_LIFE).ok_or_else(missing)?;
        check_access(ctx, row.account_id, missing).await?;
        let endpoint = sql::endpoint(ctx.tx().await?, row.endpoint_id).await?.ok_or_else(missing)?;
        check_enabled(&endpoint)?;
        // A delivery that was recovered late may outlive its event.
        if event_sequence(ctx.tx().await?, row.account_id, row.event_id).await?.is_none() {
            let message = "The event of the delivery is no longer kept.";
            return Err(Problem::failed_precondition("EVENT_GONE", "webhooks", message, []));
        }
        let pending = row.status == Status::Pending;
        if !pending {
            check_room(ctx, endpoint.id).await?;
            let sender = webhooks.sender.clone();
            ctx.after_commit(Box::new(move || sender.note_made(row.account_id, 1)));
        }
        // Only pending deliveries keep their order; one that has ended is sent beside them.
        let queue = if pending { QueueKind::of_type(&row.event_type) } else { QueueKind::New };
        sql::send_now(ctx.tx().await?, row.id, queue, now).await?;
        webhooks.refresh_after_commit(ctx, row.account_id);
        let row = DeliveryRow { next_at: Some(now), ..row };
        let delivery = with_attempts(ctx, &[row]).await?.pop().ok_or_else(missing)?;
        Ok(RetryResult { delivery })
    }
}
