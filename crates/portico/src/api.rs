//! A client of the API, for the commands that call it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use clap::builder::{StringValueParser, TypedValueParser};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use portico_egress::{Egress, EgressError, Limits, Networks, StreamingRequest, StreamingResponse};
use portico_kernel::{Secret, seconds};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Environment;
use crate::config::Config;

/// Longer than the server lets any call take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(40);
/// No answer of the API is longer.
const LIMITS: Limits = Limits { time: ANSWER_TIME_MAX, bytes: 4 << 20 };
/// Every network there is.
const ANYWHERE: &str = "0.0.0.0/0, ::/0";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

type Failure = Box<dyn Error + Send + Sync>;

/// The token and the address to call the API with.
#[derive(Debug, Args)]
pub(crate) struct ApiAccess {
    /// An API token, or a token that a key was exchanged for
    #[arg(long, env = "PORTICO_TOKEN", hide_env_values = true, value_name = "TOKEN",
        value_parser = StringValueParser::new().map(Secret::new))]
    token: Secret<String>,
    /// Where the API is [default: `base_url`]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// The API at an address, called with a token.
pub(crate) struct Api {
    pub(crate) egress: Egress,
    /// Its address, without a slash at the end.
    pub(crate) url: String,
    authorization: HeaderValue,
}

impl Api {
    pub(crate) fn new(config: &Config, access: ApiAccess) -> Result<Self, Failure> {
        // The address was typed at this machine, so it may lead anywhere.
        let anywhere: Networks = ANYWHERE.parse()?;
        let environment = Environment { egress_allow: anywhere, ..config.environment.clone() };
        let egress = environment.egress();
        let url = access.url.unwrap_or(environment.base_url).trim_end_matches('/').to_owned();
        check(&egress, "--url", &url)?;
        let authorization = HeaderValue::from_str(&format!("Bearer {}", access.token.expose().trim()));
        let mut authorization = authorization.map_err(|_| "the token has characters that no token has")?;
        authorization.set_sensitive(true);
        Ok(Self { egress, url, authorization })
    }

    /// Sends a request, and reads the head of the response.
    pub(crate) async fn open(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<StreamingResponse, ApiError> {
        headers.insert(AUTHORIZATION, self.authorization.clone());
        let url = format!("{}{path}", self.url);
        let call = StreamingRequest { url: &url, method, headers, body, time: ANSWER_TIME_MAX };
        self.egress.open(call).await.map_err(|error| self.unreachable(error))
    }

    /// Sends a request, with `body` as JSON if there is one, and parses the response.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ApiError> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, JSON)]);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let response = self.open(method, path, headers, body).await?;
        if !response.status.is_success() {
            return Err(self.refusal(response).await);
        }
        let status = response.status;
        let answer = response.read_to_end(LIMITS).await.map_err(|error| self.unreachable(error))?;
        serde_json::from_slice(&answer).map_err(|_| {
            let refusal = Refusal::saying("The answer is not what this version of the program knows.");
            ApiError::Refused { status, refusal, wait: None }
        })
    }

    /// The refusal in a response.
    pub(crate) async fn refusal(&self, response: StreamingResponse) -> ApiError {
        let (status, wait) = (response.status, retry_after(&response.headers));
        let body = response.read_to_end(LIMITS).await.unwrap_or_default();
        let refusal = Refusal::read(&body).unwrap_or_else(|| {
            Refusal::saying(format!("{} answered {status}, and not as the API does.", self.url))
        });
        ApiError::Refused { status, refusal, wait }
    }

    fn unreachable(&self, error: EgressError) -> ApiError {
        ApiError::Unreachable { url: self.url.clone(), error }
    }
}

/// Refuses what cannot be an address, with a message that names the flag.
pub(crate) fn check(egress: &Egress, flag: &str, url: &str) -> Result<(), Failure> {
    let message = || format!("{flag} must be an http or https address, not {url:?}");
    egress.check(url).map_err(|_| message().into())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(seconds)
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// There was no response.
    Unreachable { url: String, error: EgressError },
    /// The API refused it.
    Refused {
        status: StatusCode,
        refusal: Refusal,
        /// The value of `Retry-After`.
        wait: Option<Duration>,
    },
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { url, error } => write!(f, "{url}: {error}"),
            Self::Refused { refusal, .. } => {
                write!(f, "{refusal}")?;
                refusal.details.iter().try_for_each(|detail| write!(f, "\n  {}", describe(detail)))
            }
        }
    }
}

impl Error for ApiError {}

/// A refusal as the wire has it. It prints as its sentence.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    error: String,
    #[serde(default)]
    details: Vec<Value>,
}

impl Refusal {
    /// Parses the envelope; `None` when it is not one.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    pub(crate) fn saying(error: impl Into<String>) -> Self {
        Self { code: String::new(), error: error.into(), details: Vec::new() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.error))
    }
}

/// A detail in one line.
fn describe(detail: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let line = match detail["type"].as_str() {
        Some("field") => format!("{}: {}", text(&detail["field"]), text(&detail["description"])),
        Some("info") => {
            let metadata = detail["metadata"].as_object().into_iter().flatten();
            let metadata = metadata.map(|(name, value)| format!(" {name}={}", text(value)));
            format!("{}{}", text(&detail["reason"]), metadata.collect::<String>())
        }
        Some("retry") => format!("try again in {} s", text(&detail["after_seconds"])),
        _ => detail.to_string(),
    };
    printable(&line)
}

/// The text without what a terminal would obey instead of showing it.
pub(crate) fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_whole() {
        let body = r#"{"code":"bad_request","error":"That\u001b[2J will not do.","request_id":"req_1","details":[
            {"type":"field","field":"types[0]","description":"is not an event type"},
            {"type":"info","reason":"SCOPE_REQUIRED","domain":"gateway","metadata":{"scope":"events:read"}},
            {"type":"retry","after_seconds":"7"},{"type":"new","x":1}]}"#;
        let refusal = Refusal::read(body.as_bytes()).unwrap();
        assert_eq!(refusal.to_string(), "That\u{fffd}[2J will not do.");
        let refused = ApiError::Refused { status: StatusCode::BAD_REQUEST, refusal, wait: None };
        let lines = refused.to_string();
        let lines: Vec<&str> = lines.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "  types[0]: is not an event type",
                "  SCOPE_REQUIRED scope=events:read",
                "  try again in 7 s",
                "  {\"type\":\"new\",\"x\":1}",
            ]
        );
        assert!(Refusal::read(b"<html>").is_none());
    }
}
