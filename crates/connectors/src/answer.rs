//! An answer of a provider, as text, JSON or bytes, without the credential's values.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName};
use serde_json::json;

use crate::scrub::Scrubber;
use crate::text::first;

/// An answer of a provider.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The body, whole.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// Is the status a success?
    pub const fn is_success(&self) -> bool {
        matches!(self.status, 200..=299)
    }
}

/// The body of an answer.
#[derive(Debug)]
enum Content {
    Empty,
    Json(String),
    Text(String),
    Bytes(Vec<u8>),
}

/// An answer, scrubbed and understood.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) status: u16,
    headers: &'a HeaderMap,
    scrubber: &'a Scrubber,
    content: Content,
    content_type: String,
}

impl<'a> Message<'a> {
    pub(crate) fn new(answer: &Answer<'a>, scrubber: &'a Scrubber) -> Self {
        let content_type = header(answer.headers, &CONTENT_TYPE, scrubber).unwrap_or_default();
        let content = content(answer.body, &content_type, scrubber);
        Self { status: answer.status, headers: answer.headers, scrubber, content, content_type }
    }

    /// A part of the body as if it were all of it.
    pub(crate) fn part(&self, json: &str) -> Self {
        Self { content: Content::Json(json.to_owned()), content_type: self.content_type.clone(), ..*self }
    }

    /// The body, where it is JSON.
    pub(crate) fn json(&self) -> Option<&str> {
        match &self.content {
            Content::Json(json) => Some(json),
            Content::Empty | Content::Text(_) | Content::Bytes(_) => None,
        }
    }

    /// The first header of that name.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<String> {
        header(self.headers, name, self.scrubber)
    }

    /// The type of the body, as the provider says it.
    pub(crate) fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The whole body as JSON: text is a string, and other bytes are an object.
    pub(crate) fn result(&self) -> String {
        match &self.content {
            Content::Empty => "null".to_owned(),
            Content::Json(json) => json.clone(),
            Content::Text(text) => json!(text).to_string(),
            Content::Bytes(bytes) => {
                json!({ "content_type": self.content_type, "base64": BASE64_STANDARD.encode(bytes) })
                    .to_string()
            }
        }
    }
}

fn header(headers: &HeaderMap, name: &HeaderName, scrubber: &Scrubber) -> Option<String> {
    let value = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
    Some(scrubber.text(first(value.trim(), 8_192)).into_owned())
}

fn content(body: &[u8], content_type: &str, scrubber: &Scrubber) -> Content {
    if body.is_empty() {
        return Content::Empty;
    }
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Ok(text) = std::str::from_utf8(body) else {
        return Content::Bytes(scrubber.bytes(body).into_owned());
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_json(&media_type) {
        if text.trim().is_empty() {
            return Content::Empty;
        }
        if let Some(json) = scrubber.json(text) {
            return Content::Json(json);
        }
    }
    if is_json(&media_type) || is_text(&media_type) {
        return Content::Text(scrubber.text(text).into_owned());
    }
    Content::Bytes(scrubber.bytes(body).into_owned())
}

/// Is it JSON by its name? Where nothing is said, it may be.
fn is_json(media_type: &str) -> bool {
    matches!(media_type, "" | "application/json" | "text/json") || media_type.ends_with("+json")
}

fn is_text(media_type: &str) -> bool {
    const TEXT: [&str; 8] = [
        "application/xml",
        "application/javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "application/graphql",
    ];
    media_type.starts_with("text/") || media_type.ends_with("+xml") || TEXT.contains(&media_type)
}
