//! How a provider says that something went wrong.

use http::HeaderName;
use http::header::RETRY_AFTER;
use portico_kernel::{Timestamp, is_printable, text_enum};
use serde_json::Value;

use crate::answer::Message;
use crate::body::PAIRS_MAX;
use crate::pointer::Pointers;
use crate::source::{Node, Table};
use crate::text::{first, header_name};
use crate::values::scalar;

/// The longest message of a provider that is passed on, in characters.
pub const PROVIDER_MESSAGE_MAX: usize = 300;
/// The most conditions in one place.
const CONDITIONS_MAX: usize = 10;

text_enum! {
    /// Why an answer is no success.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ErrorClass {
        /// The provider refuses the credential.
        Auth = "auth",
        /// The credential may not do that.
        Permission = "permission",
        /// There is no such thing, or the credential may not see it.
        NotFound = "not_found",
        /// Another refusal, or an answer that says of itself that it is no success.
        Provider4xx = "provider_4xx",
        /// It leads elsewhere, which is not followed.
        Redirect = "redirect",
        /// Too many calls.
        RateLimited = "rate_limited",
        /// The provider failed.
        Provider5xx = "provider_5xx",
    }
}

/// Why an answer is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which sort of failure.
    pub class: ErrorClass,
    /// The status.
    pub status_code: u16,
    /// What the provider says, scrubbed; empty when it says nothing.
    pub provider_message: String,
    /// For how many seconds to wait, 1 to 3,600, where the provider says so.
    pub retry_after: Option<u32>,
    /// The provider refuses the credential: a fresh access token may help, once.
    pub expired: bool,
}

/// What an answer must look like to count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    statuses: Vec<u16>,
    at: Pointers,
    values: Vec<String>,
}

impl Condition {
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            let statuses = table.list("status", CONDITIONS_MAX, |node| {
                let status = node.value.as_u64().and_then(|status| u16::try_from(status).ok());
                let status = status.filter(|status| (100..=599).contains(status));
                if status.is_none() {
                    node.fault("must be a status of HTTP");
                }
                status
            });
            let at = Pointers::field(table, "at");
            let values = table.list("values", PAIRS_MAX, |node| node.text(1..=200).map(str::to_owned));
            if at.is_empty() != values.is_empty() {
                table.fault("values", "and at go together");
            }
            if statuses.is_empty() && at.is_empty() {
                table.fault("status", "or at is required");
            }
            Self { statuses, at, values }
        })
    }

    /// A condition of these statuses, and one of these values where the pointer leads.
    pub(crate) fn new(statuses: &[u16], at: Pointers, values: &[&str]) -> Self {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        Self { statuses: statuses.to_vec(), at, values }
    }

    pub(crate) fn read_list(table: &Table<'_>, name: &'static str) -> Vec<Self> {
        table.list(name, CONDITIONS_MAX, Self::read)
    }

    pub(crate) fn holds(&self, message: &Message<'_>) -> bool {
        let status = self.statuses.is_empty() || self.statuses.contains(&message.status);
        let has_value = || self.at.text(message).is_some_and(|text| self.values.contains(&text));
        status && (self.at.is_empty() || has_value())
    }
}

/// What a success holds, or does not.
#[derive(Debug, Clone, PartialEq)]
struct Success {
    at: Pointers,
    /// What stands there; `None` when nothing may.
    equals: Option<Value>,
}

impl Success {
    fn read(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            let at = table.required("at").map(|node| Pointers::read(&node));
            let absent = table.flag("absent", false);
            let equals = table.get("equals").map(|node| {
                if scalar(node.value).is_none() {
                    node.fault("must be a string, a number or a boolean");
                }
                node.value.clone()
            });
            if absent == equals.is_some() {
                table.fault("equals", "or absent = true is required, and not both");
            }
            if at.as_ref().is_some_and(Pointers::is_empty) {
                table.fault("at", "must not be empty");
            }
            Some(Self { at: at?, equals })
        })?
    }

    fn holds(&self, message: &Message<'_>) -> bool {
        let found = self.at.json(message);
        match &self.equals {
            Some(value) => found.is_some_and(|found| is_scalar(&found, value)),
            None => found.is_none_or(|found| found == "[]"),
        }
    }
}

/// Is it this string, number or boolean?
fn is_scalar(json: &str, value: &Value) -> bool {
    !json.starts_with(['{', '[']) && serde_json::from_str::<Value>(json).is_ok_and(|found| found == *value)
}

/// How answers of a provider are judged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rules {
    ok_when: Option<Success>,
    error_at: Pointers,
    expired_when: Vec<Condition>,
    retry_after: HeaderName,
}

impl Default for Rules {
    fn default() -> Self {
        let error_at = Pointers::default();
        Self { ok_when: None, error_at, expired_when: Vec::new(), retry_after: RETRY_AFTER }
    }
}

impl Rules {
    /// Reads them from the table `request`, which has other fields too.
    pub(crate) fn read(table: &Table<'_>) -> Self {
        let retry_after = table.get("rate").and_then(|node| {
            node.table(|rate| rate.get("retry_after").and_then(|node| node.parse(100, header_name)))?
        });
        Self {
            ok_when: table.get("ok_when").and_then(|node| Success::read(&node)),
            error_at: Pointers::field(table, "error_at"),
            expired_when: Condition::read_list(table, "expired_when"),
            retry_after: retry_after.unwrap_or(RETRY_AFTER),
        }
    }

    /// Is the answer a success?
    pub(crate) fn judge(&self, message: &Message<'_>) -> Result<(), Failure> {
        let expired =
            message.status == 401 || self.expired_when.iter().any(|condition| condition.holds(message));
        let class = match message.status {
            _ if expired => ErrorClass::Auth,
            200..=299 if self.ok_when.as_ref().is_none_or(|success| success.holds(message)) => return Ok(()),
            300..=399 => ErrorClass::Redirect,
            403 => ErrorClass::Permission,
            404 => ErrorClass::NotFound,
            429 => ErrorClass::RateLimited,
            200..=299 | 400..=499 => ErrorClass::Provider4xx,
            _ => ErrorClass::Provider5xx,
        };
        Err(Failure {
            class,
            status_code: message.status,
            provider_message: self.message(message),
            retry_after: retry_after(message, &self.retry_after),
            expired,
        })
    }

    fn message(&self, message: &Message<'_>) -> String {
        let said = self.error_at.text(message).or_else(|| self.error_at.json(message)).unwrap_or_default();
        let plain: String = said.chars().take(4 * PROVIDER_MESSAGE_MAX).map(plain).collect();
        first(plain.trim(), PROVIDER_MESSAGE_MAX).to_owned()
    }
}

/// A character for a line of text, which nothing invisible may turn around.
pub(crate) fn plain(character: char) -> char {
    if is_printable(character.encode_utf8(&mut [0; 4])) { character } else { ' ' }
}

/// For how many seconds a provider asks to wait.
pub(crate) fn retry_after(message: &Message<'_>, name: &HeaderName) -> Option<u32> {
    let text = message.header(name)?;
    let seconds = if let Ok(seconds) = text.parse::<f64>() {
        seconds.ceil()
    } else {
        // A time instead of a span counts from the provider's own clock.
        let now = Timestamp::from_http_date(&message.header(&http::header::DATE)?)?;
        Timestamp::from_http_date(&text)?.since(now).as_secs_f64()
    };
    seconds.is_finite().then(|| clamped(seconds))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 1 and 3,600")]
fn clamped(seconds: f64) -> u32 {
    seconds.clamp(1.0, 3_600.0) as u32
}
