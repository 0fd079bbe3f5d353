//! Typed events and the catalogue of their types.

use portico_kernel::{AccountId, EventId, Id, Kind, Timestamp, kind};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

/// What happened: the `data` of an event. It holds ids of what was involved and who acted, never content.
///
/// The schema of a type never changes once it is out; a new shape is a new type.
pub trait Event: Serialize + JsonSchema + Send {
    /// The name, such as `key.created`.
    const TYPE: &'static str;
    /// An example for the reference.
    fn example() -> Self;
}

/// Declares event types: the doc comment says when one is sent, and each field comes with its example.
#[macro_export]
macro_rules! events {
    ($(
        $(#[doc = $when:literal])+
        $name:ident = $type:literal { $($(#[doc = $what:literal])+ $field:ident: $of:ty = $example:expr,)+ }
    )+) => {$(
        $(#[doc = $when])+
        #[derive(Debug, ::serde::Serialize, ::schemars::JsonSchema)]
        pub(crate) struct $name {
            $($(#[doc = $what])+ pub(crate) $field: $of,)+
        }

        impl $crate::Event for $name {
            const TYPE: &'static str = $type;

            fn example() -> Self {
                Self { $($field: $example),+ }
            }
        }
    )+};
}

/// An event as it is delivered, on every transport.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Envelope<D> {
    /// The event's id; the same on every retry.
    pub id: EventId,
    /// The event's type.
    pub r#type: String,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The account that it happened in.
    pub account_id: AccountId,
    /// Ids of the objects involved, and who acted.
    pub data: D,
}

/// The text of an envelope whose data is JSON already: what [`Envelope`] would be written as.
pub fn envelope_text(
    id: EventId,
    event_type: &str,
    occurred_at: Timestamp,
    account: AccountId,
    data: &str,
) -> String {
    // The names of types need no escapes.
    format!(
        r#"{{"id":"{id}","type":"{event_type}","occurred_at":"{occurred_at}","account_id":"{account}","data":{data}}}"#
    )
}

/// An entry of the catalogue.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EventType {
    /// The event's type.
    pub r#type: &'static str,
    /// When it is sent.
    pub description: String,
    /// The JSON Schema of the envelope.
    pub schema: Value,
    /// An envelope as it could be.
    pub example: Value,
}

/// An instant and ids for examples.
const EXAMPLE_TIME: Timestamp = Timestamp::from_seconds(1_775_000_000);

/// The id of an example, always the same one.
pub fn example_id<K: Kind>() -> Id<K> {
    Id::from_parts(EXAMPLE_TIME, [0x5a; 10])
}

impl EventType {
    /// The entry of `E`: everything comes from its type.
    pub fn of<E: Event>() -> Self {
        let mut generator: SchemaGenerator = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| settings.inline_subschemas = true)
            .into();
        let data = generator.subschema_for::<E>();
        let description = data.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::documented(E::TYPE, &description, data.to_value(), Some(&json!(E::example())))
    }

    /// The entry of a type that a document describes; `data` is the schema of its data.
    pub fn documented(
        r#type: &'static str,
        description: &str,
        mut data: Value,
        example: Option<&Value>,
    ) -> Self {
        let generator: SchemaGenerator = SchemaSettings::draft2020_12()
            .for_serialize()
            .with(|settings| settings.inline_subschemas = true)
            .into();
        let mut schema = generator.into_root_schema_for::<Envelope<Value>>().to_value();
        schema["title"] = json!(r#type);
        schema["description"] = json!(description);
        schema["properties"]["type"]["const"] = json!(r#type);
        let example = Envelope {
            id: example_id(),
            r#type: r#type.to_owned(),
            occurred_at: EXAMPLE_TIME,
            account_id: example_id(),
            data: example.cloned().unwrap_or_else(|| crate::example::of(&data)),
        };
        // What the data refers to is referred to from the root.
        if let Some(definitions) = data.as_object_mut().and_then(|data| data.remove("$defs")) {
            schema["$defs"] = definitions;
        }
        schema["properties"]["data"] = data;
        Self { r#type, description: description.to_owned(), schema, example: json!(example) }
    }
}

crate::events! {
    /// An audit log entry was written. It tells whoever reads the account's events the action and who did it.
    AuditWritten = "audit.event" {
        /// The id of the audit entry.
        audit_event_id: String = example_id::<kind::AuditEntry>().to_string(),
        /// What was done.
        action: String = "key.created".to_owned(),
        /// Who did it.
        actor: String = example_id::<kind::Person>().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_envelope() {
        let data = json!({ "key_id": "key_1", "actor": "a \"b\" \u{1f600}" });
        let envelope = Envelope {
            id: example_id(),
            r#type: "key.created".to_owned(),
            occurred_at: EXAMPLE_TIME,
            account_id: example_id(),
            data: data.clone(),
        };
        let text =
            envelope_text(envelope.id, "key.created", EXAMPLE_TIME, envelope.account_id, &data.to_string());
        assert_eq!(text, serde_json::to_string(&envelope).unwrap());
    }
}
