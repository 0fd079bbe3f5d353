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

use super::Due;
use super::receiver::Target;
use crate::model::{Ended, GONE, Outcome, signed};
use crate::receive::{judge, keep};
use crate::{Webhooks, limits};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An attempt that came to its end.
pub(super) struct Done {
    pub(super) due: Due,
    /// The version of the endpoint that it was sent to.
    pub(super) version: i64,
    pub(super) ended: Ended,
    pub(super) began_at: Timestamp,
    pub(super) duration_ms: i64,
}

/// What the receiver said, or why nothing.
struct Said {
    outcome: Outcome,
    status_code: u16,
    retry_after: Option<Duration>,
}

impl Said {
    fn status(status: StatusCode, retry_after: Option<Duration>) -> Self {
        let outcome = if status.is_success() {
            Outcome::Delivered
        } else if status.is_redirection() {
            Outcome::Redirect
        } else {
            Outcome::Status
        };
        // Only these two say that it is about time (RFC 9110; RFC 6585).
        let asks = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
        Self { outcome, status_code: status.as_u16(), retry_after: retry_after.filter(|_| asks) }
    }

    fn nothing(outcome: Outcome) -> Self {
        Self { outcome, status_code: 0, retry_after: None }
    }
}

impl From<EgressError> for Said {
    fn from(error: EgressError) -> Self {
        Self::nothing(match error {
            EgressError::BadAddress | EgressError::Blocked => Outcome::BlockedAddress,
            EgressError::Dns => Outcome::Dns,
            EgressError::Tls => Outcome::Tls,
            EgressError::Timeout => Outcome::Timeout,
            EgressError::Connection | EgressError::TooLarge | EgressError::Protocol => Outcome::Connection,
        })
    }
}

/// Sends the delivery, signed now, and says what came of it.
pub(super) async fn attempt(
    webhooks: &Webhooks,
    engine: &Engine,
    account: AccountId,
    target: &Arc<Target>,
    due: Due,
) -> Done {
    let body = envelope_text(due.event, &due.event_type, due.occurred_at, account, &due.data);
    let (began_at, watch, headers) = loop {
        let (began_at, watch) = (engine.clock.now(), Stopwatch::start());
        let headers = signed(&target.keys, due.event.to_string(), began_at, body.as_bytes());
        // Once more after it is signed: a server that stood still in between may have lost its claims, and what leaves
        // when it wakes was signed before.
        if webhooks.sender.is_sure(engine) {
            break (began_at, watch, headers);
        }
        webhooks.sender.sure(engine).await;
    };
    let said = match target.row.inbox_id {
        Some(inbox) => to_inbox(engine, inbox, headers, body).await,
        None => to_address(webhooks, &target.row.url, headers, body, began_at).await,
    };
    let elapsed = watch.elapsed();
    let Said { outcome, status_code, retry_after } = said;
    let duration_ms = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    // Whoever reads this may not be meant to know what happened, or where it was sent.
    tracing::info!(
        %account,
        endpoint = %target.row.id,
        delivery = %due.id,
        attempt = due.tries + 1,
        outcome = outcome.name(),
        status = status_code,
        ms = duration_ms,
        "Sent a delivery"
    );
    let ended =
        Ended { outcome, status_code, retry_after, gone: status_code == GONE, at: began_at + elapsed };
    Done { due, version: target.row.version, ended, began_at, duration_ms }
}

async fn to_address(
    webhooks: &Webhooks,
    url: &str,
    headers: [(&'static str, String); 3],
    body: String,
    now: Timestamp,
) -> Said {
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
        Ok(answer) => Said::status(answer.status, retry_after(&answer.headers, now)),
        Err(error) => error.into(),
    }
}

/// What a receiver asks for, in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(count) => Some(seconds(count)),
        Err(_) => Some(Timestamp::from_http_date(value)?.since(now)),
    }
}

/// The account's own inbox is in this server: what would come to it over the network comes to it at once. So an inbox
/// works behind any proxy, and no address of ours need be allowed to be called.
async fn to_inbox(
    engine: &Engine,
    inbox: InboxId,
    headers: [(&'static str, String); 3],
    body: String,
) -> Said {
    let ours = [(CONTENT_TYPE.as_str(), "application/json"), (USER_AGENT.as_str(), portico_egress::OUR_NAME)];
    let ours = ours.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(ours);
    let request = RawRequest::new("POST", headers, body.into());
    let receiving = async {
        let now = engine.clock.now();
        let Some(verdict) = judge(engine, inbox, &request, now).await? else { return Ok(false) };
        let mut tx = engine.db.write().await?;
        let kept = keep(engine, &mut tx, inbox, &request, verdict, now).await?;
        tx.commit().await?;
        Ok(kept)
    };
    match tokio::time::timeout(limits::ATTEMPT_TIME_MAX, receiving).await {
        Ok(Ok(true)) => Said::status(StatusCode::OK, None),
        Ok(Ok(false)) => Said::status(StatusCode::NOT_FOUND, None),
        Ok(Err(problem)) => refused(&problem),
        Err(_) => Said::nothing(Outcome::Timeout),
    }
}

fn refused(problem: &portico_kernel::Problem) -> Said {
    let retry = problem.retry_seconds().and_then(|count| u64::try_from(count).ok()).map(seconds);
    match (problem.code(), StatusCode::from_u16(problem.code().status())) {
        (Code::RateLimited, Ok(status)) => Said::status(status, retry),
        _ => Said::nothing(Outcome::Connection),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_asks_in_seconds_or_by_date() {
        let now = "2026-11-18T00:00:00Z".parse().unwrap();
        let asked = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
            retry_after(&headers, now)
        };
        assert_eq!(asked("120"), Some(seconds(120)));
        assert_eq!(asked("Wed, 18 Nov 2026 00:01:00 GMT"), Some(seconds(60)));
        assert_eq!(asked("Wed, 18 Nov 2015 00:01:00 GMT"), Some(seconds(0)));
        assert_eq!(asked("soon"), None);
        assert_eq!(asked("-1"), None);
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn only_success_is_taken_and_only_two_may_delay() {
        let said = |code: u16| Said::status(StatusCode::from_u16(code).unwrap(), Some(seconds(9)));
        for code in [200, 201, 202, 204, 299] {
            assert_eq!(said(code).outcome, Outcome::Delivered, "{code}");
        }
        for code in [300, 301, 302, 307, 308] {
            assert_eq!(said(code).outcome, Outcome::Redirect, "{code}");
        }
        for code in [400, 404, 410, 418, 429, 500, 503] {
            assert_eq!(said(code).outcome, Outcome::Status, "{code}");
            assert_eq!(said(code).retry_after.is_some(), [429, 503].contains(&code), "{code}");
        }
    }
}
