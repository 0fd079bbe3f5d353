//! The stream of an account's events, as it comes from the API.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use portico_egress::{EgressError, StreamingResponse};
use url::form_urlencoded::Serializer;

use super::sse::{SseBlock, SseParser};
use crate::api::{Api, ApiError, Refusal};

const PATH: &str = "/v1/events/stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENT_STREAM: &str = "text/event-stream";
/// The server sends something every 15 seconds; after three times that, the connection is taken for dead.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// An open stream.
pub(super) struct EventStream {
    response: StreamingResponse,
    parser: SseParser,
}

/// Opens the stream of `types`, or of all where there are none, after `last_id`, or from now on where that is empty.
pub(super) async fn open(api: &Api, types: &[String], last_id: &str) -> Result<EventStream, ApiError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(id) = HeaderValue::from_bytes(last_id.as_bytes()).ok().filter(|id| !id.is_empty()) {
        headers.insert(LAST_EVENT_ID, id);
    }
    let response = api.open(Method::GET, &path(types), headers, Bytes::new()).await?;
    if !response.status.is_success() {
        return Err(api.refusal(response).await);
    }
    let kind = response.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if response.status != StatusCode::OK || !kind.starts_with(EVENT_STREAM) {
        let refusal = Refusal::saying(format!("{} answered without a stream of events.", api.url));
        return Err(ApiError::Refused { status: response.status, refusal, wait: None });
    }
    Ok(EventStream { response, parser: SseParser::default() })
}

fn path(types: &[String]) -> String {
    if types.is_empty() {
        return PATH.to_owned();
    }
    let pairs = types.iter().map(|each| ("types", each));
    format!("{PATH}?{}", Serializer::new(String::new()).extend_pairs(pairs).finish())
}

/// Would another try fail in the same way?
pub(super) fn is_final(error: &ApiError) -> bool {
    const PASSING: [StatusCode; 3] =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    match error {
        ApiError::Unreachable { .. } => false,
        // It lasts until the next month.
        ApiError::Refused { refusal, .. } if refusal.code == "quota_exceeded" => true,
        ApiError::Refused { status, .. } => !status.is_server_error() && !PASSING.contains(status),
    }
}

impl EventStream {
    /// The next block; an error says why the stream ended.
    pub(super) async fn next(&mut self) -> Result<SseBlock, String> {
        loop {
            if let Some(block) = self.parser.next() {
                return Ok(block);
            }
            let chunk = self.response.chunk(SILENCE_MAX).await.map_err(disconnected)?;
            let chunk = chunk.ok_or("the server ended the stream")?;
            self.parser.push(&chunk).map_err(|error| error.to_string())?;
        }
    }
}

fn disconnected(error: EgressError) -> String {
    match error {
        EgressError::Timeout => format!("the server said nothing for {} s", SILENCE_MAX.as_secs()),
        _ => "the stream was cut".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_asked_for_one_by_one() {
        let types = |types: &[&str]| path(&types.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(types(&[]), "/v1/events/stream");
        assert_eq!(
            types(&["token.created", "a&b=c"]),
            "/v1/events/stream?types=token.created&types=a%26b%3Dc"
        );
    }

    #[test]
    fn what_will_not_change_is_not_asked_again() {
        let refused = |status: u16, code: &str| {
            let body = format!("{{\"code\":\"{code}\",\"error\":\"No.\"}}");
            let refusal = Refusal::read(body.as_bytes()).unwrap();
            let status = StatusCode::from_u16(status).unwrap();
            is_final(&ApiError::Refused { status, refusal, wait: None })
        };
        for (status, code) in [
            (400, "bad_request"),
            (401, "unauthenticated"),
            (403, "forbidden"),
            (404, "not_found"),
            (429, "quota_exceeded"),
            (200, ""),
            (302, ""),
        ] {
            assert!(refused(status, code), "{status} {code}");
        }
        for (status, code) in
            [(429, "rate_limited"), (500, "internal"), (502, ""), (503, "unavailable"), (504, "timeout")]
        {
            assert!(!refused(status, code), "{status} {code}");
        }
        let error = EgressError::Connection;
        assert!(!is_final(&ApiError::Unreachable { url: String::new(), error }));
    }
}
