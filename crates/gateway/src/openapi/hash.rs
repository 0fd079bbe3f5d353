//! The hash of a cut: equal hashes mean the same API.

use portico_engine::LengthPrefixedHash;
use portico_kernel::hex;
use serde_json::{Map, Value};

/// What only a person reads.
const PROSE: [&str; 5] = ["description", "summary", "example", "examples", "title"];
/// Objects whose keys are names that someone chose, and not words of OpenAPI: a field may be called `description`.
const NAMES: [&str; 8] = [
    "properties",
    "schemas",
    "responses",
    "headers",
    "content",
    "paths",
    "securitySchemes",
    "patternProperties",
];
/// Values as they are, in which no word of OpenAPI stands.
const LITERALS: [&str; 3] = ["const", "default", "enum"];

/// The hash over operations and schemas, without what only a person reads.
pub(super) fn of(paths: &Map<String, Value>, components: &Value) -> String {
    let mut hash = LengthPrefixedHash::default();
    names(&mut hash, paths);
    value(&mut hash, components);
    format!("sha256:{}", hex(&hash.finish()))
}

/// An object of names: each is kept, and what stands under it is read as OpenAPI again.
fn names(hash: &mut LengthPrefixedHash, object: &Map<String, Value>) {
    each(hash, object, |_| true, |hash, _, inner| value(hash, inner));
}

fn value(hash: &mut LengthPrefixedHash, of: &Value) {
    match of {
        Value::Object(object) => each(
            hash,
            object,
            |name| !PROSE.contains(&name),
            |hash, name, inner| match inner {
                Value::Object(inner) if NAMES.contains(&name) => names(hash, inner),
                inner if LITERALS.contains(&name) => hash.add(b'v', inner.to_string().as_bytes()),
                inner => value(hash, inner),
            },
        ),
        Value::Array(items) => {
            hash.add(b'a', &items.len().to_be_bytes());
            for item in items {
                value(hash, item);
            }
        }
        other => hash.add(b'v', other.to_string().as_bytes()),
    }
}

/// The fields that count, in the order of their names, however the map keeps them.
fn each(
    hash: &mut LengthPrefixedHash,
    object: &Map<String, Value>,
    counts: impl Fn(&str) -> bool,
    inner: impl Fn(&mut LengthPrefixedHash, &str, &Value),
) {
    let mut fields: Vec<_> = object.iter().filter(|(name, _)| counts(name)).collect();
    fields.sort_unstable_by_key(|(name, _)| *name);
    hash.add(b'o', &fields.len().to_be_bytes());
    for (name, value) in fields {
        hash.add(b'n', name.as_bytes());
        inner(hash, name, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hash(schema: &Value) -> String {
        of(&Map::new(), &json!({ "schemas": { "Thing": schema } }))
    }

    #[test]
    fn prose_does_not_count_and_fields_do() {
        let plain = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let told = json!({
            "type": "object", "title": "A thing", "description": "It is one.",
            "properties": { "name": { "type": "string", "description": "Its name.", "examples": ["x"] } },
        });
        assert_eq!(hash(&plain), hash(&told));
        let mut wider = plain.clone();
        wider["properties"]["size"] = json!({ "type": "integer" });
        assert_ne!(hash(&plain), hash(&wider));
    }

    #[test]
    fn a_field_named_like_prose_counts() {
        let plain = json!({ "type": "object", "properties": {} });
        let with = json!({ "type": "object", "properties": { "description": { "type": "string" } } });
        assert_ne!(hash(&plain), hash(&with));
        let other = json!({ "type": "object", "properties": { "description": { "type": "integer" } } });
        assert_ne!(hash(&with), hash(&other));
    }
}
