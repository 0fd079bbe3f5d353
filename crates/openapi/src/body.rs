//! The body of a request: which types an operation takes, and how JSON is checked.

use std::sync::Arc;

use serde_json::Value;

use crate::finding::{Findings, shown};
use crate::json;
use crate::pointer;
use crate::schema::{Builder, Check, FieldError, Id, Place, Schemas};

/// What is to be done with the body of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRule {
    /// The operation takes no body.
    None,
    /// It is JSON: read it whole and check it.
    Check,
    /// It is of a type that passes as it comes.
    Pass,
    /// The operation names no such type: 415.
    Unsupported,
}

/// One media type of a body.
#[derive(Debug, Clone)]
struct Media {
    /// `application/json`, `image/*` or `*/*`, in lower case.
    range: String,
    schema: Option<Id>,
}

/// The body that an operation takes.
#[derive(Debug, Clone)]
pub struct RequestBody {
    /// Must there be one?
    pub required: bool,
    media: Vec<Media>,
    pub(crate) schemas: Arc<Schemas>,
}

/// The type alone, without its parameters, in lower case.
fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_json(essence: &str) -> bool {
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Are bodies of this type checked, as the document names it?
pub(crate) fn is_checked(media_type: &str) -> bool {
    is_json(&essence(media_type))
}

impl RequestBody {
    /// Reads the body of an operation; `place` is where it stands.
    pub(crate) fn read(
        document: &Value,
        body: &Value,
        place: String,
        builder: &mut Builder<'_>,
        findings: &mut Findings,
    ) -> Self {
        let (place, body) = pointer::resolve(document, place, body);
        let content = body.get("content").and_then(Value::as_object);
        // A reference that leads nowhere is said elsewhere.
        if body.get("$ref").is_none() && content.is_none_or(serde_json::Map::is_empty) {
            findings.add(&place, "A body names at least one type in `content`.");
        }
        let mut media = Vec::new();
        for (name, value) in content.into_iter().flatten() {
            let place = pointer::join(&pointer::join(&place, "content"), name);
            let range = essence(name);
            if range.split_once('/').is_none_or(|(kind, sub)| kind.is_empty() || sub.is_empty()) {
                findings.add(&place, format!("`{}` is not a media type.", shown(name)));
            }
            let has_schema = is_json(&range) && value.get("schema").is_some();
            let schema = has_schema.then(|| builder.id(&pointer::join(&place, "schema")));
            media.push(Media { range, schema });
        }
        // The most specific first.
        media.sort_by_key(|media| media.range.matches('*').count());
        let required = body.get("required").and_then(Value::as_bool).unwrap_or_default();
        Self { required, media, schemas: Arc::default() }
    }

    /// The types that it may have, as the document names them.
    pub fn media_types(&self) -> impl Iterator<Item = &str> {
        self.media.iter().map(|media| media.range.as_str())
    }

    /// May it be JSON?
    pub fn takes_json(&self) -> bool {
        self.media.iter().any(|media| is_json(&media.range))
    }

    /// The first type of JSON that it may have.
    pub(crate) fn json_range(&self) -> Option<&str> {
        self.media.iter().map(|media| media.range.as_str()).find(|range| is_json(range))
    }

    /// The schema of JSON.
    pub(crate) fn json_schema(&self) -> Option<Id> {
        self.media.iter().find(|media| is_json(&media.range)).and_then(|media| media.schema)
    }

    fn media(&self, content_type: Option<&str>) -> Option<&Media> {
        let essence = essence(content_type.unwrap_or_default());
        self.media.iter().find(|media| match media.range.strip_suffix("/*") {
            Some("*") => true,
            Some(kind) => essence.split_once('/').is_some_and(|(given, _)| given == kind),
            None => media.range == essence,
        })
    }

    /// What is to be done with a body of this type.
    pub fn rule(&self, content_type: Option<&str>) -> BodyRule {
        match self.media(content_type) {
            None => BodyRule::Unsupported,
            Some(media) if is_json(&media.range) => BodyRule::Check,
            Some(_) => BodyRule::Pass,
        }
    }

    /// Checks a body of JSON, read whole. An empty one is no body.
    pub fn check(&self, content_type: Option<&str>, text: &[u8]) -> Result<(), Vec<FieldError>> {
        if text.is_empty() {
            return if self.required { Err(vec![FieldError::new("body", "is required")]) } else { Ok(()) };
        }
        let value = json::read(text, json::BODY).map_err(|refusal| vec![refusal.error])?;
        match self.media(content_type).and_then(|media| media.schema) {
            None => Ok(()),
            Some(schema) => self.check_value(schema, &value),
        }
    }

    pub(crate) fn check_value(&self, schema: Id, value: &Value) -> Result<(), Vec<FieldError>> {
        let mut check = Check::closed(&self.schemas);
        check.value(schema, value, &Place::body());
        check.finish()
    }
}
