//! What manifests are read into, which are refused, what requests they make, and what they read in answers.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod answers;
mod changes;
mod connections;
mod endpoints;
mod fixtures;
mod hostile;
mod kinds;
mod manifests;
mod params;
mod refusals;
mod sign_in;
mod templates;

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use portico_connectors::{Credentials, Fault, Manifest};
use serde_json::{Map, Value, json};

/// The smallest manifest there is.
fn minimal() -> Value {
    json!({
        "id": "acme",
        "title": "Acme",
        "hosts": ["api.acme.example"],
        "auth": { "api_key": {} },
        "request": { "base_url": "https://api.acme.example/v1" },
        "test": { "path": "/me", "label": "/name", "external_id": "/id" },
        "actions": [action("get_thing")],
    })
}

/// An action that reads a thing by its id.
fn action(name: &str) -> Value {
    json!({
        "name": name,
        "class": "read",
        "reads_private": true,
        "reads_untrusted": false,
        "sends_out": false,
        "path": "/things/{params.id}",
        "params": [{ "name": "id", "type": "string", "required": true }],
        "result": "",
    })
}

/// The smallest manifest with something else at a place.
fn with(pointer: &str, value: Value) -> Value {
    let mut source = minimal();
    put(&mut source, pointer, value);
    source
}

/// Puts a value where the pointer leads; the object that it stands in is there, or is made.
fn put(source: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    if source.pointer(parent).is_none() {
        put(source, parent, json!({}));
    }
    match source.pointer_mut(parent).unwrap() {
        Value::Array(items) if name == "-" => items.push(value),
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
        parent => parent[name] = value,
    }
}

fn read(source: &Value) -> Manifest {
    Manifest::from_json(source).unwrap_or_else(|faults| panic!("{faults:?}"))
}

fn faults(source: &Value) -> Vec<Fault> {
    Manifest::from_json(source).err().unwrap_or_default()
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap()
}

fn credentials(value: &Value) -> Credentials {
    Credentials::from(strings(value))
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn headers(value: &Value) -> HeaderMap {
    let pair = |(name, value): (&String, &Value)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value.as_str().unwrap()).unwrap())
    };
    value.as_object().unwrap().iter().map(pair).collect()
}

/// The paths of faults.
fn paths(faults: &[Fault]) -> Vec<&str> {
    faults.iter().map(|fault| fault.path.as_str()).collect()
}
