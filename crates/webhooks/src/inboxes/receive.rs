//! Receiving: what is posted to a test inbox.

use std::collections::BTreeMap;

use portico_engine::input::RawRequest;
use portico_engine::{Ctx, Done, Engine, Operation, Spec};
use portico_kernel::{Code, InboxId, InboxRequestId, Problem, Timestamp};
use portico_store::Tx;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{Verdict, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, Webhook, verdict};
use crate::sql::{self, InboxRow, RequestRow};
use crate::{Webhooks, limits};

const CONTENT_TYPE: &str = "content-type";
/// The headers that are stored; no others are.
const STORED_HEADERS: [&str; 5] =
    [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, CONTENT_TYPE, "user-agent"];
const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);

/// Post to a test inbox. It takes any method of signing, content type and body, needs no token, and keeps what came.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receive {
    /// The inbox.
    inbox_id: String,
}

impl Operation for Receive {
    const SPEC: Spec = Spec::post("webhooks.inboxes.receive", "/v1/webhooks/inboxes/{inbox_id}/receive")
        .open()
        .raw_body(limits::INBOX_BODY_BYTES_MAX);
    type Area = Webhooks;
    type Answer = Done;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Done, Problem> {
        let missing = || Problem::not_found("test inbox", &self.inbox_id);
        // A malformed id is a missing inbox.
        let inbox: InboxId = self.inbox_id.parse().map_err(|_| missing())?;
        let (engine, now) = (ctx.engine().clone(), ctx.now());
        let request = ctx.raw_request()?;
        let verdict = verify(&engine, inbox, &request, now).await?.ok_or_else(missing)?;
        let stored = store_request(&engine, ctx.tx().await?, inbox, &request, verdict, now).await?;
        if stored { Ok(Done {}) } else { Err(missing()) }
    }
}

fn header<'a>(request: &'a RawRequest, name: &str) -> &'a str {
    request.headers.get(name).map(String::as_str).unwrap_or_default()
}

/// Checks the rate limit and the signature of a request; `None` when there is no such inbox. This needs no write
/// transaction, so bad requests cost little.
pub(crate) async fn verify(
    engine: &Engine,
    inbox: InboxId,
    request: &RawRequest,
    now: Timestamp,
) -> Result<Option<Verdict>, Problem> {
    let mut query = engine.db.query();
    let Some(row) = sql::inbox(&mut query, inbox, now).await? else { return Ok(None) };
    recent_times(&row, now)?;
    let signature = header(request, WEBHOOK_SIGNATURE);
    if signature.is_empty() {
        return Ok(Some(Verdict::Unsigned));
    }
    let mut keys = Vec::new();
    for endpoint in sql::endpoints_of_inbox(&mut query, inbox).await? {
        keys.extend(endpoint.keys(engine, now));
    }
    let (id, timestamp) = (header(request, WEBHOOK_ID), header(request, WEBHOOK_TIMESTAMP));
    Ok(Some(verdict(Webhook { id, timestamp, body: &request.body }, signature, &keys, now)))
}

/// Stores the request; returns false when there is no such inbox.
pub(crate) async fn store_request(
    engine: &Engine,
    tx: &mut Tx,
    inbox: InboxId,
    request: &RawRequest,
    verdict: Verdict,
    now: Timestamp,
) -> Result<bool, Problem> {
    let Some(row) = sql::lock_inbox(tx, inbox, now).await? else { return Ok(false) };
    let recent = recent_times(&row, now)?;
    let id: InboxRequestId = engine.entropy.id(now);
    let row = RequestRow {
        id,
        received_at: now,
        method: request.method.clone(),
        content_type: shortened(header(request, CONTENT_TYPE)),
        headers: serde_json::to_string(&stored_headers(request)).map_err(Problem::internal)?,
        body: request.body.to_vec(),
        verdict,
    };
    sql::insert_request(tx, inbox, &row, limits::INBOX_REQUESTS_MAX).await?;
    sql::set_recent(tx, inbox, &recent).await?;
    Ok(true)
}

/// Those of the headers to store that were sent.
fn stored_headers(request: &RawRequest) -> BTreeMap<&'static str, String> {
    STORED_HEADERS.iter().filter_map(|name| Some((*name, shortened(request.headers.get(*name)?)))).collect()
}

fn shortened(value: &str) -> String {
    value.chars().take(limits::INBOX_HEADER_CHARACTERS_MAX).filter(|c| *c != '\0').collect()
}

/// Returns the times of the requests of the last minute, with this one; refuses when there are too many.
fn recent_times(row: &InboxRow, now: Timestamp) -> Result<String, Problem> {
    let times = row.recent.split(',').filter_map(|at| at.parse().ok()).map(Timestamp::from_micros);
    let mut recent: Vec<_> = times.filter(|at| now.since(*at) < MINUTE).collect();
    if let Some(oldest) = recent.first().filter(|_| recent.len() >= limits::INBOX_REQUESTS_PER_MINUTE) {
        let limit = limits::INBOX_REQUESTS_PER_MINUTE;
        let message =
            format!("The test inbox already received {limit} requests within a minute, the maximum.");
        return Err(Problem::new(Code::RateLimited, message).retry_after((*oldest + MINUTE).since(now)));
    }
    recent.push(now);
    let recent: Vec<_> = recent.iter().map(|at| at.as_micros().to_string()).collect();
    Ok(recent.join(","))
}
