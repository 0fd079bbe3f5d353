//! Where senders post: the test inbox's own end.

use std::collections::BTreeMap;

use portico_engine::input::Posted;
use portico_engine::{Ctx, Done, Engine, Operation, Spec};
use portico_kernel::{Code, InboxId, InboxRequestId, Problem, Timestamp};
use portico_store::Tx;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{Verdict, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, Webhook, verdict};
use crate::sql::{self, InboxRow, RequestRow};
use crate::{Webhooks, limits};

const CONTENT_TYPE: &str = "content-type";
/// The headers that are kept; no others are.
const KEPT: [&str; 5] = [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, CONTENT_TYPE, "user-agent"];
const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);

/// Post to a test inbox. It takes any method of signing, content type and body, needs no token, and keeps what came.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Receive {
    /// The inbox.
    inbox_id: String,
    #[schemars(skip)]
    posted: Posted,
}

impl Operation for Receive {
    const SPEC: Spec = Spec::post("webhooks.inboxes.receive", "/v1/webhooks/inboxes/{inbox_id}/receive")
        .open()
        .takes_anything(limits::INBOX_BODY_BYTES_MAX);
    type Area = Webhooks;
    type Answer = Done;

    async fn run(self, _: &Webhooks, ctx: &mut Ctx) -> Result<Done, Problem> {
        let missing = || Problem::not_found("test inbox", &self.inbox_id);
        // Whatever is no id is no inbox either.
        let inbox: InboxId = self.inbox_id.parse().map_err(|_| missing())?;
        let (engine, now) = (ctx.engine().clone(), ctx.now());
        let verdict = judge(&engine, inbox, &self.posted, now).await?.ok_or_else(missing)?;
        let kept = keep(&engine, ctx.tx().await?, inbox, &self.posted, verdict, now).await?;
        if kept { Ok(Done {}) } else { Err(missing()) }
    }
}

fn header<'a>(posted: &'a Posted, name: &str) -> &'a str {
    posted.headers.get(name).map(String::as_str).unwrap_or_default()
}

/// Says whether it was signed as it should be; nothing when there is no such inbox. Who posts to nowhere, or too much,
/// is turned away here, and signatures are checked here: all without a turn at the writer.
pub(crate) async fn judge(
    engine: &Engine,
    inbox: InboxId,
    posted: &Posted,
    now: Timestamp,
) -> Result<Option<Verdict>, Problem> {
    let mut query = engine.db.query();
    let Some(row) = sql::inbox(&mut query, inbox, now).await? else { return Ok(None) };
    count_in(&row, now)?;
    let signature = header(posted, WEBHOOK_SIGNATURE);
    if signature.is_empty() {
        return Ok(Some(Verdict::Unsigned));
    }
    let mut keys = Vec::new();
    for endpoint in sql::endpoints_of_inbox(&mut query, inbox).await? {
        keys.extend(endpoint.keys(engine, now));
    }
    let (id, timestamp) = (header(posted, WEBHOOK_ID), header(posted, WEBHOOK_TIMESTAMP));
    Ok(Some(verdict(Webhook { id, timestamp, body: &posted.body }, signature, &keys, now)))
}

/// Keeps what was posted; false when there is no such inbox.
pub(crate) async fn keep(
    engine: &Engine,
    tx: &mut Tx,
    inbox: InboxId,
    posted: &Posted,
    verdict: Verdict,
    now: Timestamp,
) -> Result<bool, Problem> {
    let Some(row) = sql::hold_inbox(tx, inbox, now).await? else { return Ok(false) };
    let recent = count_in(&row, now)?;
    let id: InboxRequestId = engine.entropy.id(now);
    let request = RequestRow {
        id,
        received_at: now,
        method: posted.method.clone(),
        content_type: shortened(header(posted, CONTENT_TYPE)),
        headers: serde_json::to_string(&kept(posted)).map_err(Problem::internal)?,
        body: posted.body.clone(),
        verdict,
    };
    sql::insert_request(tx, inbox, &request, limits::INBOX_REQUESTS_MAX).await?;
    sql::set_recent(tx, inbox, &recent).await?;
    Ok(true)
}

/// The listed headers that were sent.
fn kept(posted: &Posted) -> BTreeMap<&'static str, String> {
    KEPT.iter().filter_map(|name| Some((*name, shortened(posted.headers.get(*name)?)))).collect()
}

fn shortened(value: &str) -> String {
    value.chars().take(limits::INBOX_HEADER_CHARACTERS_MAX).filter(|c| *c != '\0').collect()
}

/// The times of the last minute with this one; refuses one too many.
fn count_in(row: &InboxRow, now: Timestamp) -> Result<String, Problem> {
    let times = row.recent.split(',').filter_map(|at| at.parse().ok()).map(Timestamp::from_micros);
    let mut recent: Vec<_> = times.filter(|at| now.since(*at) < MINUTE).collect();
    if let Some(oldest) = recent.first().filter(|_| recent.len() >= limits::INBOX_REQUESTS_PER_MINUTE) {
        let words = format!("A test inbox takes {} requests a minute.", limits::INBOX_REQUESTS_PER_MINUTE);
        return Err(Problem::new(Code::RateLimited, words).retry_after((*oldest + MINUTE).since(now)));
    }
    recent.push(now);
    let recent: Vec<_> = recent.iter().map(|at| at.as_micros().to_string()).collect();
    Ok(recent.join(","))
}
