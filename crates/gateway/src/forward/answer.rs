//! What a service answers, as its caller gets it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use portico_kernel::{Code, Problem, seconds};
use portico_upstream::{AnswerBody, Failure};
use serde_json::Value;

use crate::response;

/// How much of an error is looked at for a sentence.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// How long its sentence is waited for.
const ERROR_TIME_MAX: Duration = seconds(5);
/// How long a sentence may be that is repeated to the caller.
const SENTENCE_CHARACTERS_MAX: usize = 500;

/// The reason of an error that a service gave.
const REASON: &str = "UPSTREAM";

/// Why a service did not answer, as its caller is told.
pub(super) fn problem_of(failure: &Failure, service: &str) -> Problem {
    let problem = match failure {
        Failure::TimedOut { .. } => {
            Problem::new(Code::Timeout, format!("The service {service} took too long to answer."))
                .retry_after(seconds(1))
        }
        Failure::RequestBroke { .. } => return Problem::field("body", "did not arrive whole"),
        Failure::NoTarget { wait } => {
            Problem::unavailable(format!("The service {service} does not answer at the moment."), *wait)
        }
        Failure::Connect { .. } | Failure::Unanswered { .. } | Failure::BrokenHead { .. } => {
            let message = format!("The service {service} does not answer at the moment.");
            Problem::unavailable(message, seconds(1))
        }
    };
    problem.with_info(REASON, "gateway", [("service", service.to_owned())])
}

/// The code of an error with that status.
pub(super) fn code_of(status: StatusCode) -> Code {
    // That a call was taken back is for its caller to say.
    let known = Code::ALL.iter().filter(|code| **code != Code::Cancelled);
    let of_status = known.into_iter().find(|code| code.status() == status.as_u16());
    of_status.copied().unwrap_or(if status.is_server_error() { Code::Internal } else { Code::BadRequest })
}

/// An error of a service, as far as it was read.
pub(super) struct ServiceError {
    pub(super) status: StatusCode,
    pub(super) problem: Problem,
    /// It was the envelope already.
    pub(super) envelope: Option<Bytes>,
    retry_after: Option<HeaderValue>,
}

impl ServiceError {
    /// Reads the error that `response` is.
    pub(super) async fn read(response: Response<AnswerBody>, service: &str) -> Self {
        let (head, body) = response.into_parts();
        let is_json = head
            .headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.to_ascii_lowercase().contains("json"));
        let reading = tokio::time::timeout(ERROR_TIME_MAX, read_start(body)).await;
        let text = reading.ok().flatten().filter(|_| is_json);
        let value: Option<Value> = text.as_ref().and_then(|text| serde_json::from_slice(text).ok());
        let code = code_of(head.status);
        let sentence = value.as_ref().and_then(sentence).unwrap_or_else(|| {
            format!("The service {service} answered with status {}.", head.status.as_u16())
        });
        let mut problem =
            Problem::new(code, sentence).with_info(REASON, "gateway", [("service", service.to_owned())]);
        let retry_after = head.headers.get(RETRY_AFTER).cloned();
        let wait = retry_after.as_ref().and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
        if let Some(wait) = wait {
            problem = problem.retry_after(seconds(wait.into()));
        }
        let envelope = text.filter(|_| value.as_ref().is_some_and(is_envelope));
        Self { status: head.status, problem, envelope, retry_after }
    }

    /// The answer for the caller.
    pub(super) fn into_response(self, request_id: &str) -> Response<Bytes> {
        let body = self.envelope.unwrap_or_else(|| self.problem.to_json(request_id).into());
        let mut response = response::json(self.status, body);
        if let Some(value) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, value);
        }
        response
    }
}

/// The whole body, if it is short enough and arrives whole.
async fn read_start(mut body: AnswerBody) -> Option<Bytes> {
    let mut text = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if text.len() + data.len() > ERROR_BYTES_MAX {
            return None;
        }
        text.extend_from_slice(&data);
    }
    Some(text.freeze())
}

/// The sentence of an error: its `detail`, `message` or `error`, which may be an object with a `message`.
fn sentence(error: &Value) -> Option<String> {
    let text = ["detail", "message", "error"].iter().find_map(|name| match &error[*name] {
        Value::String(text) => Some(text.as_str()),
        object => object["message"].as_str(),
    });
    let text = text.map(str::trim).filter(|text| !text.is_empty())?;
    Some(text.chars().take(SENTENCE_CHARACTERS_MAX).collect())
}

/// Is it the envelope of our own refusals?
fn is_envelope(error: &Value) -> bool {
    let is_code = |code: &str| Code::ALL.iter().any(|known| known.name() == code);
    error["code"].as_str().is_some_and(is_code)
        && error["error"].is_string()
        && error["details"].is_array()
        && error["request_id"].is_string()
}

/// Lets nobody keep an answer of which its service does not say how long: it is the caller's alone.
pub(super) fn finish_head(response: &mut Response<Bytes>) {
    let headers = response.headers_mut();
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_is_found_where_frameworks_put_it() {
        for (error, expected) in [
            (json!({ "detail": "Not found" }), Some("Not found")),
            (json!({ "message": "no such invoice" }), Some("no such invoice")),
            (json!({ "error": { "message": "nested" } }), Some("nested")),
            (json!({ "error": "plain" }), Some("plain")),
            (json!({ "detail": [{ "loc": ["body"], "msg": "of FastAPI" }] }), None),
            (json!({ "message": "  " }), None),
            (json!("text"), None),
            (json!(null), None),
        ] {
            assert_eq!(sentence(&error).as_deref(), expected, "{error}");
        }
        assert_eq!(sentence(&json!({ "message": "x".repeat(10_000) })).unwrap().len(), 500);
    }

    #[test]
    fn statuses_become_codes() {
        for (status, code) in [
            (404, Code::NotFound),
            (418, Code::BadRequest),
            (422, Code::Unprocessable),
            (502, Code::Internal),
        ] {
            assert_eq!(code_of(StatusCode::from_u16(status).unwrap()), code);
        }
    }

    #[test]
    fn the_envelope_is_known() {
        let ours = Problem::new(Code::NotFound, "x").to_json("r");
        assert!(is_envelope(&serde_json::from_slice(&ours).unwrap()));
        assert!(!is_envelope(&json!({ "code": "not_found", "error": "x" })));
    }
}
