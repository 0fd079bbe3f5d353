//! One attempt at a delivery.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use portico_egress::{EgressError, Limits, Post};
use portico_engine::clock::Stopwatch;
use portico_engine::input::RawRequest;
use portico_engine::{Engine, envelope_text};
use portico_kernel::{AccountId, Code, InboxId, Timestamp, seconds};

use super::PendingDelivery;
use super::endpoint_queue::Target;
use super::worker_handle::WorkerHandle;
use crate::inboxes::receive::{store_request, verify};
use crate::model::{AttemptOutcome, AttemptResult, GONE, Outcome, signed};
use crate::{Webhooks, limits};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An attempt that has ended.
pub(super) struct FinishedAttempt {
    pub(super) delivery: PendingDelivery,
    /// The version of the endpoint that it was sent to.
    pub(super) endpoint_version: i64,
    pub(super) outcome: AttemptOutcome,
    pub(super) started_at: Timestamp,
    pub(super) duration_ms: i64,
}

impl AttemptResult {
    /// The receiver answered with that status.
    fn from_status(status: StatusCode, retry_after: Option<Duration>) -> Self {
        let outcome = if status.is_success() {
            Outcome::Delivered
        } else if status.is_redirection() {
            Outcome::Redirect
        } else {
            Outcome::Status
        };
        // Only these two ask for a later attempt (RFC 9110; RFC 6585).
        let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
        Self { outcome, status_code: status.as_u16(), retry_after: retry_after.filter(|_| asks) }
    }

    /// The receiver did not answer.
    fn without_status(outcome: Outcome) -> Self {
        Self { outcome, status_code: 0, retry_after: None }
    }
}

impl From<EgressError> for AttemptResult {
    fn from(error: EgressError) -> Self {
        Self::without_status(match error {
            EgressError::BadAddress | EgressError::Blocked => Outcome::BlockedAddress,
            EgressError::Dns => Outcome::Dns,
            EgressError::Tls => Outcome::Tls,
            EgressError::Timeout => Outcome::Timeout,
            EgressError::Connection | EgressError::TooLarge | EgressError::Protocol => Outcome::Connection,
        })
    }
}

/// Makes an attempt once there is a slot for it; slow endpoints share a part of the slots.
pub(super) async fn attempt_in_slot(
    webhooks: Arc<Webhooks>,
    engine: Arc<Engine>,
    account: AccountId,
    worker: Arc<WorkerHandle>,
    target: Arc<Target>,
    delivery: PendingDelivery,
    slow: bool,
) -> FinishedAttempt {
    let sender = webhooks.sender.clone();
    // Neither semaphore is ever closed.
    let _slow_slot = if slow { sender.slow_slots.acquire().await.ok() } else { None };
    let _slot = sender.slots.acquire().await.ok();
    sender.wait_for_claims(engine.clock.as_ref(), &worker).await;
    let _in_flight = webhooks.metrics.begin();
    attempt(&webhooks, &engine, account, &worker, &target, delivery).await
}

/// Signs the delivery now, sends it, and returns how that ended.
async fn attempt(
    webhooks: &Webhooks,
    engine: &Engine,
    account: AccountId,
    worker: &WorkerHandle,
    target: &Target,
    delivery: PendingDelivery,
) -> FinishedAttempt {
    let PendingDelivery { event, ref event_type, occurred_at, ref data, .. } = delivery;
    let body = envelope_text(event, event_type, occurred_at, account, data);
    let (started_at, watch, headers) = loop {
        let (started_at, watch) = (engine.clock.now(), Stopwatch::start());
        let headers = signed(&target.keys, event.to_string(), started_at, body.as_bytes());
        // Once more after it is signed: a server that stood still in between may have lost its claims, and what leaves
        // when it wakes was signed before.
        if webhooks.sender.has_valid_claim(engine.clock.as_ref(), worker) {
            break (started_at, watch, headers);
        }
        webhooks.sender.wait_for_claims(engine.clock.as_ref(), worker).await;
    };
    let result = match target.row.inbox_id {
        Some(inbox) => to_inbox(engine, inbox, headers, body).await,
        None => to_address(webhooks, &target.row.url, headers, body, started_at).await,
    };
    let elapsed = watch.elapsed();
    let duration_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    // Without the event and the address: whoever reads the log may not be meant to know them.
    tracing::info!(
        %account,
        endpoint = %target.row.id,
        delivery = %delivery.id,
        attempt = delivery.tries + 1,
        outcome = result.outcome.name(),
        status = result.status_code,
        ms = duration_ms,
        "Sent a delivery"
    );
    let outcome = AttemptOutcome { result, gone: result.status_code == GONE, ended_at: started_at + elapsed };
    FinishedAttempt { delivery, endpoint_version: target.row.version, outcome, started_at, duration_ms }
}

async fn to_address(
    webhooks: &Webhooks,
    url: &str,
    headers: [(&'static str, String); 3],
    body: String,
    now: Timestamp,
) -> AttemptResult {
    let mut map = HeaderMap::with_capacity(headers.len() + 1);
    map.insert(CONTENT_TYPE, JSON);
    for (name, value) in headers {
        // Ids, digits and base64 are always a value.
        if let Ok(value) = HeaderValue::from_str(&value) {
            map.insert(HeaderName::from_static(name), value);
        }
    }
    let limits = Limits { time: limits::ATTEMPT_TIME_MAX, bytes: limits::ANSWER_BYTES_MAX };
    match webhooks.egress.post(Post { url, headers: map, body: Bytes::from(body), limits }).await {
        Ok(answer) => AttemptResult::from_status(answer.status, retry_after(&answer.headers, now)),
        Err(error) => error.into(),
    }
}

/// Reads the header `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(count) => Some(seconds(count)),
        Err(_) => Some(Timestamp::from_http_date(value)?.since(now)),
    }
}

/// Delivers to the account's own inbox, which is in this database: no network is needed. So an inbox works behind any
/// proxy, and no address of ours need be allowed to be called.
async fn to_inbox(
    engine: &Engine,
    inbox: InboxId,
    headers: [(&'static str, String); 3],
    body: String,
) -> AttemptResult {
    let ours = [(CONTENT_TYPE.as_str(), "application/json"), (USER_AGENT.as_str(), portico_egress::OUR_NAME)];
    let ours = ours.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(ours);
    let request = RawRequest::new("POST", headers, body.into());
    let receiving = async {
        let now = engine.clock.now();
        let Some(verdict) = verify(engine, inbox, &request, now).await? else { return Ok(false) };
        let mut tx = engine.db.write().await?;
        let stored = store_request(engine, &mut tx, inbox, &request, verdict, now).await?;
        tx.commit().await?;
        Ok(stored)
    };
    match tokio::time::timeout(limits::ATTEMPT_TIME_MAX, receiving).await {
        Ok(Ok(true)) => AttemptResult::from_status(StatusCode::OK, None),
        Ok(Ok(false)) => AttemptResult::from_status(StatusCode::NOT_FOUND, None),
        Ok(Err(problem)) => refusal(&problem),
        Err(_) => AttemptResult::without_status(Outcome::Timeout),
    }
}

fn refusal(problem: &portico_kernel::Problem) -> AttemptResult {
    let retry = problem.retry_seconds().and_then(|count| u64::try_from(count).ok()).map(seconds);
    match (problem.code(), StatusCode::from_u16(problem.code().status())) {
        (Code::RateLimited, Ok(status)) => AttemptResult::from_status(status, retry),
        _ => AttemptResult::without_status(Outcome::Connection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_in_seconds_or_a_date() {
        let now = "2026-11-18T00:00:00Z".parse().unwrap();
        let read = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
            retry_after(&headers, now)
        };
        assert_eq!(read("120"), Some(seconds(120)));
        assert_eq!(read("Wed, 18 Nov 2026 00:01:00 GMT"), Some(seconds(60)));
        assert_eq!(read("Wed, 18 Nov 2015 00:01:00 GMT"), Some(seconds(0)));
        assert_eq!(read("soon"), None);
        assert_eq!(read("-1"), None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn only_success_delivers_and_only_two_statuses_may_delay() {
        let result =
            |code: u16| AttemptResult::from_status(StatusCode::from_u16(code).unwrap(), Some(seconds(9)));
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(result(code).outcome, Outcome::Delivered, "{code}");
        }
        for code in [300, 301, 302, 307, 308] {
            assert_eq!(result(code).outcome, Outcome::Redirect, "{code}");
        }
        for code in [400, 404, 410, 418, 429, 500, 503] {
            assert_eq!(result(code).outcome, Outcome::Status, "{code}");
            assert_eq!(result(code).retry_after.is_some(), [429, 503].contains(&code), "{code}");
        }
    }
}
