//! Event types: the webhooks of a document.

use std::sync::Arc;

use serde_json::Value;

use crate::bundle;
use crate::finding::{Findings, shown};
use crate::pointer;
use crate::schema::{Builder, Check, FieldError, Id, Place, Schemas};

/// An event type that the service publishes.
#[derive(Debug, Clone)]
pub struct EventType {
    /// The name, such as `invoice.paid`.
    pub name: String,
    /// When it is sent.
    pub description: String,
    /// The schema of `data`, with everything that it refers to.
    pub schema: Value,
    /// What `data` could be.
    pub examples: Vec<Value>,
    /// Where it stands in the document.
    pub pointer: String,
    pub(crate) check: Id,
    pub(crate) schemas: Arc<Schemas>,
}

impl EventType {
    /// Checks `data` by the schema, by what JSON Schema says and nothing else. Fields are named as those of `data`,
    /// which is itself called `data`.
    pub fn check(&self, data: &Value) -> Result<(), Vec<FieldError>> {
        let mut check = Check::open(&self.schemas);
        check.value(self.check, data, &Place::parameter("data", false));
        check.finish()
    }
}

/// What is read of one webhook, before schemas are compiled.
pub(crate) struct Draft {
    name: String,
    description: String,
    examples: Vec<Value>,
    pointer: String,
    schema: (String, Id),
}

impl Draft {
    pub(crate) fn finish(self, document: &Value, schemas: &Arc<Schemas>) -> EventType {
        EventType {
            name: self.name,
            description: self.description,
            schema: bundle::self_contained(document, &self.schema.0),
            examples: self.examples,
            pointer: self.pointer,
            check: self.schema.1,
            schemas: Arc::clone(schemas),
        }
    }
}

/// Reads every webhook.
pub(crate) fn read(document: &Value, builder: &mut Builder<'_>, findings: &mut Findings) -> Vec<Draft> {
    let webhooks = document.get("webhooks").and_then(Value::as_object);
    let mut events = Vec::new();
    for (name, item) in webhooks.into_iter().flatten() {
        let (place, item) = pointer::resolve(document, pointer::join("/webhooks", name), item);
        if !is_event_type(name) {
            findings.add(&place, format!(
                "The event type `{}` must be lower-case words with dots between them, such as `invoice.paid`.",
                shown(name)
            ));
        }
        let Some(post) = item.get("post").filter(|post| post.is_object()) else {
            findings.add(
                &place,
                format!("The webhook `{}` has no `post`, whose body is the event.", shown(name)),
            );
            continue;
        };
        events.extend(event(document, name, item, post, &place, builder, findings));
    }
    events
}

fn event(
    document: &Value,
    name: &str,
    item: &Value,
    post: &Value,
    place: &str,
    builder: &mut Builder<'_>,
    findings: &mut Findings,
) -> Option<Draft> {
    let pointer = pointer::join(place, "post");
    let body = post.get("requestBody");
    let body = body.map(|body| pointer::resolve(document, pointer::join(&pointer, "requestBody"), body));
    let media = body.and_then(|(place, body)| {
        let media = body.pointer("/content/application~1json")?;
        Some((format!("{place}/content/application~1json"), media))
    });
    let schema = media
        .as_ref()
        .and_then(|(place, media)| Some((pointer::join(place, "schema"), media.get("schema")?)));
    let (Some((_, media)), Some((place, schema))) = (&media, schema) else {
        findings.add(pointer, format!(
            "The webhook `{}` has no schema for a body of `application/json`, which is the `data` of the event.",
            shown(name)
        ));
        return None;
    };
    let text = |value: &Value, member: &str| {
        value.get(member).and_then(Value::as_str).map(|text| text.trim().to_owned())
    };
    let description = ["description", "summary"]
        .into_iter()
        .find_map(|member| text(post, member).or_else(|| text(item, member)))
        .unwrap_or_default();
    let id = builder.id(&place);
    let schema_examples = pointer::resolve(document, place.clone(), schema).1.get("examples");
    let schema_examples = schema_examples.and_then(Value::as_array).into_iter().flatten();
    let named = media.get("examples").and_then(Value::as_object).into_iter().flatten();
    let named =
        named.filter_map(|(_, example)| pointer::resolve(document, String::new(), example).1.get("value"));
    let examples: Vec<_> =
        media.get("example").into_iter().chain(named).chain(schema_examples).cloned().collect();
    Some(Draft { name: name.to_owned(), description, examples, pointer, schema: (place, id) })
}

fn is_event_type(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    name.len() <= 100 && name.contains('.') && name.split('.').all(word)
}
