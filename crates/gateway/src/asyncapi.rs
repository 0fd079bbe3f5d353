//! The documents of what stays open: the frames of the socket as JSON Schema, and all three transports as `AsyncAPI`.

use std::collections::BTreeMap;

use portico_engine::{Catalog, EventType};
use portico_events::Resync;
use portico_events::limits::{STREAMS_PER_ACCOUNT, STREAMS_PER_CREDENTIAL, STREAMS_PER_PERSON};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::openapi::problem_schemas;
use crate::socket::{ClientFrame, ServerFrame};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const OF_DEFINITIONS: &str = "#/$defs/";
const OF_COMPONENTS: &str = "#/components/schemas/";

/// The JSON Schema of the socket's frames.
pub fn frames() -> Value {
    let mut definitions = definitions();
    redirect(&mut definitions, OF_COMPONENTS, OF_DEFINITIONS);
    json!({
        "$schema": DIALECT,
        "title": "Frames of the socket",
        "description": "A client sends `ClientFrame`s and is sent `ServerFrame`s, each as one text message of JSON.",
        "anyOf": [{ "$ref": "#/$defs/ClientFrame" }, { "$ref": "#/$defs/ServerFrame" }],
        "$defs": definitions,
    })
}

/// Every schema of the frames by name, referring to each other within `$defs`.
fn definitions() -> Value {
    let mut schemas = Map::new();
    for (name, frames) in [("ClientFrame", of::<ClientFrame>()), ("ServerFrame", of::<ServerFrame>())] {
        let variants: Vec<_> = frames
            .kinds
            .keys()
            .map(|kind| json!({ "$ref": format!("{OF_DEFINITIONS}{}", schema_name(kind)) }))
            .collect();
        schemas.insert(name.to_owned(), json!({ "description": frames.description, "oneOf": variants }));
        schemas.extend(frames.kinds.into_iter().map(|(kind, schema)| (schema_name(&kind), schema)));
        schemas.extend(frames.parts);
    }
    schemas.extend(problem_schemas().into_iter().map(|(name, mut schema)| {
        // Only OpenAPI knows it in this form.
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("discriminator");
        }
        (name, schema)
    }));
    schemas.into()
}

/// The frames that one side sends: the schema of each kind, and what these refer to.
struct Frames {
    description: Value,
    kinds: BTreeMap<String, Value>,
    parts: Map<String, Value>,
}

/// Frames are written by us and read by others as they are, whichever side sends them.
fn of<T: JsonSchema>() -> Frames {
    let mut generator: SchemaGenerator = SchemaSettings::draft2020_12().into();
    let mut schema = T::json_schema(&mut generator).to_value();
    let mut parts = generator.take_definitions(true);
    let mut kinds = BTreeMap::new();
    for mut variant in schema["oneOf"].as_array_mut().map(std::mem::take).unwrap_or_default() {
        let kind = variant["properties"]["type"]["const"].as_str().unwrap_or_default().to_owned();
        // A variant may refer to its fields; here it holds them, with the name of its kind among them.
        let target = variant
            .get("$ref")
            .and_then(Value::as_str)
            .map(|target| target.trim_start_matches(OF_DEFINITIONS));
        if let Some(mut whole) = target.and_then(|target| parts.remove(target)) {
            whole["properties"]["type"] = variant["properties"]["type"].take();
            if let Some(required) = whole["required"].as_array_mut() {
                required.insert(0, json!("type"));
            }
            variant = whole;
        }
        kinds.insert(kind, variant);
    }
    Frames { description: schema["description"].take(), kinds, parts }
}

/// `auth` as `AuthFrame`.
fn schema_name(kind: &str) -> String {
    let (first, rest) = kind.split_at(kind.len().min(1));
    format!("{}{rest}Frame", first.to_uppercase())
}

/// Makes what refers to names under `from` refer to them under `to`.
fn redirect(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::Object(object) => object.values_mut().for_each(|inner| redirect(inner, from, to)),
        Value::Array(items) => items.iter_mut().for_each(|inner| redirect(inner, from, to)),
        Value::String(text) => {
            if let Some(name) = text.strip_prefix(from) {
                *text = format!("{to}{name}");
            }
        }
        _ => {}
    }
}

/// The `AsyncAPI` document: what a client can receive and send over server-sent events, the socket and MQTT.
pub fn document(catalog: &Catalog, base_url: &str) -> Value {
    let mut schemas = definitions();
    schemas["Resync"] = Resync::json_schema(&mut SchemaGenerator::default()).to_value();
    redirect(&mut schemas, OF_DEFINITIONS, OF_COMPONENTS);
    if let Some(schemas) = schemas.as_object_mut() {
        schemas.extend(catalog.events().iter().flat_map(|event| event_schemas(event).1));
    }
    let (protocol, host) = base_url.split_once("://").unwrap_or(("http", base_url));
    let socket_protocol = if protocol == "https" { "wss" } else { "ws" };
    let security = json!([{ "$ref": "#/components/securitySchemes/token" }]);
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Portico streams",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!(
                "An account's events over server-sent events, a WebSocket and MQTT, and calls of every operation over \
                 the last two. At most {STREAMS_PER_CREDENTIAL} connections of all kinds for a credential, \
                 {STREAMS_PER_ACCOUNT} for an account, and {STREAMS_PER_PERSON} for a person with all keys and API tokens \
                 that they made, at once."
            ),
            "license": { "name": "Apache-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": {
            "sse": { "host": host, "protocol": protocol, "description": "Server-sent events.", "security": security },
            "socket": { "host": host, "protocol": socket_protocol, "description": "The WebSocket.", "security": security },
            "mqtt": {
                "host": host.rsplit_once(':').map_or(host, |(name, _)| name), "protocol": "mqtt",
                "description": "MQTT 3.1.1 and 5. The token is the password.", "security": security,
            },
        },
        "channels": channels(catalog),
        "operations": operations(catalog),
        "components": {
            "schemas": schemas,
            "messages": messages(catalog),
            "securitySchemes": { "token": {
                "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                "description": "An API token, or a token that a key was exchanged for, with the scope `events:read`.",
            } },
        },
    })
}

/// The messages of the frames that one side sends.
fn frame_messages<T: JsonSchema>() -> Vec<String> {
    of::<T>().kinds.keys().map(|kind| format!("frame.{kind}")).collect()
}

fn event_message(event: &EventType) -> String {
    format!("event.{}", event.r#type)
}

/// The schema of an event, and those that it refers to, which stand among the components under the name of its type.
fn event_schemas(event: &EventType) -> (Value, Map<String, Value>) {
    let mut schema = event.schema.clone();
    redirect(&mut schema, OF_DEFINITIONS, &format!("{OF_COMPONENTS}{}.", event.r#type));
    let mut definitions = Value::Null;
    if let Some(schema) = schema.as_object_mut() {
        // The document says once which dialect its schemas are in.
        schema.remove("$schema");
        definitions = schema.remove("$defs").unwrap_or_default();
    }
    let definitions = definitions.as_object().cloned().unwrap_or_default();
    let named = |(name, schema)| (format!("{}.{name}", event.r#type), schema);
    (schema, definitions.into_iter().map(named).collect())
}

fn messages(catalog: &Catalog) -> Value {
    let mut messages = Map::new();
    for kind in of::<ClientFrame>().kinds.keys().chain(of::<ServerFrame>().kinds.keys()) {
        let payload = json!({ "$ref": format!("{OF_COMPONENTS}{}", schema_name(kind)) });
        messages.insert(format!("frame.{kind}"), json!({ "name": kind, "payload": payload }));
    }
    let callable = || catalog.entries().iter().filter(|entry| entry.is_callable());
    messages["frame.call"]["examples"] = callable()
        .map(|entry| {
            let (method, params) = (entry.spec.name, entry.call_example());
            let frame = json!({ "type": "call", "id": "1", "method": method, "params": params });
            json!({ "name": method, "payload": frame })
        })
        .collect();
    for event in catalog.events() {
        let examples = json!([{ "payload": event.example }]);
        let payload = event_schemas(event).0;
        messages.insert(
            event_message(event),
            json!({ "name": event.r#type, "summary": event.description, "payload": payload, "examples": examples }),
        );
    }
    let reference = |schema: &str| json!({ "$ref": format!("{OF_COMPONENTS}{schema}") });
    messages.insert("resync".into(), json!({ "name": "resync", "payload": reference("Resync") }));
    messages.insert("problem".into(), json!({ "name": "error", "payload": reference("Problem") }));
    let params =
        json!({ "type": "object", "description": "The operation's fields, path variables included." });
    let examples: Vec<_> =
        callable().map(|entry| json!({ "name": entry.spec.name, "payload": entry.call_example() })).collect();
    messages.insert("call".into(), json!({ "name": "call", "payload": params, "examples": examples }));
    let result = json!({ "description": "What the operation answers over REST, or a Problem; the user property \
                                         `outcome` says which: `answer` or `error`." });
    messages.insert("reply".into(), json!({ "name": "reply", "payload": result }));
    messages.into()
}

fn channel(address: &str, server: &str, description: &str, messages: &[String]) -> Value {
    let messages: Map<_, _> = messages
        .iter()
        .map(|name| (name.clone(), json!({ "$ref": format!("#/components/messages/{name}") })))
        .collect();
    let servers = json!([{ "$ref": format!("#/servers/{server}") }]);
    json!({ "address": address, "description": description, "servers": servers, "messages": messages })
}

fn channels(catalog: &Catalog) -> Value {
    let events: Vec<_> = catalog.events().iter().map(event_message).collect();
    let frames = [frame_messages::<ClientFrame>(), frame_messages::<ServerFrame>()].concat();
    let streamed: Vec<_> = events.iter().cloned().chain(["resync".into(), "problem".into()]).collect();
    let mqtt = |address: &str, description: &str, messages: &[String], parameters: Value| {
        let mut channel = channel(address, "mqtt", description, messages);
        channel["parameters"] = parameters;
        channel
    };
    let description =
        "Subscribe `events/#`, `events/+` or `events/<type>`; QoS 0 and 1. A session that is kept resumes.";
    let parameters = json!({ "type": { "description": "The event's type." } });
    let mqtt_events = mqtt("events/{type}", description, &events, parameters);
    let description = "MQTT 5: publish with a response topic under `rpc/reply/`; correlation data is echoed.";
    let parameters = json!({ "method": { "description": "The operation's name." } });
    let calls = mqtt("rpc/{method}", description, &["call".into()], parameters);
    let description = "Answers to calls of the same connection, under the topic that the call named.";
    let parameters = json!({ "name": { "description": "Whatever the client chose." } });
    let replies = mqtt("rpc/reply/{name}", description, &["reply".into()], parameters);
    json!({
        "stream": channel(
            "/v1/events/stream", "sse",
            "Each block has `id`, the cursor to resume from, `event`, the type, and `data`, the envelope.", &streamed,
        ),
        "socket": channel(
            "/v1/socket", "socket", "Text frames of JSON, subprotocol `platform.v1`.", &frames,
        ),
        "mqttEvents": mqtt_events,
        "mqttCalls": calls,
        "mqttReplies": replies,
    })
}

fn operations(catalog: &Catalog) -> Value {
    let operation = |action: &str, channel: &str, description: &str, messages: &[String]| {
        let refer = |name: &String| json!({ "$ref": format!("#/channels/{channel}/messages/{name}") });
        let messages: Vec<_> = messages.iter().map(refer).collect();
        json!({
            "action": action, "channel": { "$ref": format!("#/channels/{channel}") }, "summary": description,
            "messages": messages,
        })
    };
    let events: Vec<_> = catalog.events().iter().map(event_message).collect();
    let streamed: Vec<_> = events.iter().cloned().chain(["resync".into(), "problem".into()]).collect();
    let mut call = operation("receive", "mqttCalls", "Takes calls over MQTT.", &["call".into()]);
    call["reply"] = json!({
        "channel": { "$ref": "#/channels/mqttReplies" },
        "messages": [{ "$ref": "#/channels/mqttReplies/messages/reply" }],
    });
    json!({
        "streamEvents": operation("send", "stream", "Streams events.", &streamed),
        "takeFrames": operation("receive", "socket", "Takes calls and subscriptions.", &frame_messages::<ClientFrame>()),
        "sendFrames": operation("send", "socket", "Sends answers and events.", &frame_messages::<ServerFrame>()),
        "publishEvents": operation("send", "mqttEvents", "Publishes events.", &events),
        "takeCalls": call,
    })
}
