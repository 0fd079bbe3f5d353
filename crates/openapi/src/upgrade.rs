//! A document of OpenAPI 3.0 as one of 3.1, whose schemas are JSON Schema.

use serde_json::{Map, Value, json};

use crate::model::{self, Kind};

/// Rewrites what 3.1 says otherwise. Nothing moves that a reference could point to.
pub(crate) fn upgrade(document: &mut Value) {
    model::change(document, Kind::Document, &mut |kind, object| {
        if kind == Kind::Schema {
            schema(object);
        }
    });
    document["openapi"] = json!("3.1.0");
}

fn schema(schema: &mut Map<String, Value>) {
    if schema.contains_key("$ref") {
        // In 3.0, whatever stands beside a reference is ignored.
        schema.retain(|name, _| matches!(name.as_str(), "$ref" | "description"));
        return;
    }
    exclusive(schema, "exclusiveMinimum", "minimum");
    exclusive(schema, "exclusiveMaximum", "maximum");
    if let Some(example) = schema.remove("example") {
        schema.entry("examples").or_insert_with(|| json!([example]));
    }
    if schema.remove("nullable") == Some(Value::Bool(true)) {
        allow_null(schema);
    }
}

/// A limit that is a boolean beside the number becomes the number.
fn exclusive(schema: &mut Map<String, Value>, exclusive: &str, inclusive: &str) {
    match schema.get(exclusive) {
        Some(Value::Bool(true)) => {
            schema.remove(exclusive);
            if let Some(limit) = schema.remove(inclusive) {
                schema.insert(exclusive.to_owned(), limit);
            }
        }
        Some(Value::Bool(false)) => {
            schema.remove(exclusive);
        }
        _ => {}
    }
}

/// Null becomes one of the types. Where the type comes from a composition, null becomes one of its choices: that is
/// what a nullable reference looks like in 3.0. Of an `enum` beside a type, null must be one of the values, as 3.0.3
/// says.
fn allow_null(schema: &mut Map<String, Value>) {
    match schema.get_mut("type") {
        Some(Value::Array(types)) if !types.contains(&json!("null")) => types.push(json!("null")),
        Some(Value::Array(_)) => {}
        Some(one) => *one = json!([one.clone(), "null"]),
        None => {
            let mut choice = Map::new();
            for keyword in ["allOf", "anyOf", "oneOf", "not", "enum"] {
                if let Some(value) = schema.remove(keyword) {
                    choice.insert(keyword.to_owned(), value);
                }
            }
            // The discriminator chooses among what stands beside it.
            if let Some(discriminator) = schema.remove("discriminator") {
                choice.insert("discriminator".to_owned(), discriminator);
            }
            if !choice.is_empty() {
                schema.insert("anyOf".to_owned(), json!([choice, { "type": "null" }]));
            }
        }
    }
}
