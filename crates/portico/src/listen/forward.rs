//! Forwards events to a receiver on this machine.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use portico_egress::{Egress, EgressError, Limits, Post};
use portico_engine::clock::Stopwatch;
use portico_kernel::Timestamp;
use portico_webhooks::limits::{ANSWER_BYTES_MAX, ATTEMPT_TIME_MAX};
use portico_webhooks::{SigningKey, signed};

/// The limits of real deliveries.
const LIMITS: Limits = Limits { time: ATTEMPT_TIME_MAX, bytes: ANSWER_BYTES_MAX };

/// Where events go, and what they are signed with.
pub(super) struct Forward {
    pub(super) url: String,
    pub(super) key: SigningKey,
}

/// The status of the receiver's response, or why there was none; and how long it took.
pub(super) struct ForwardResult {
    pub(super) status: Result<StatusCode, EgressError>,
    pub(super) took: Duration,
}

impl Forward {
    /// Posts `body` as a delivery of the event `id`, signed at `now`.
    pub(super) async fn send(&self, egress: &Egress, id: &str, body: Bytes, now: Timestamp) -> ForwardResult {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in signed(std::slice::from_ref(&self.key), id.to_owned(), now, &body) {
            // Ids, digits and base64 are always a value.
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        let watch = Stopwatch::start();
        let response = egress.post(Post { url: &self.url, headers, body, limits: LIMITS }).await;
        ForwardResult { status: response.map(|response| response.status), took: watch.elapsed() }
    }
}

impl fmt::Display for ForwardResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Ok(status) => {
                write!(f, "{} in {} ms", status.as_u16(), self.took.as_millis())?;
                if status.is_redirection() { f.write_str("; a redirect is not followed") } else { Ok(()) }
            }
            Err(error) => write!(f, "no answer: {error}"),
        }
    }
}
