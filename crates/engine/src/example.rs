//! An example of an operation's input, made from its schema.

use serde_json::{Map, Value, json};

/// An example of what fits the schema: each field that is required, and each that has an example of its own
/// (`#[schemars(example = ..)]`). A value without an example is the smallest that the schema's own words allow.
pub(crate) fn of(schema: &Value) -> Value {
    if let Some(example) = schema.get("examples").and_then(|examples| examples.get(0)) {
        return example.clone();
    }
    if let Some(first) = schema.get("enum").and_then(|values| values.get(0)) {
        return first.clone();
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    for choice in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema.get(choice).and_then(|schemas| schemas.get(0)) {
            return of(first);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "",
    };
    match kind {
        "object" => object(schema),
        "array" => match (schema.get("minItems").and_then(Value::as_u64), schema.get("items")) {
            (Some(1..), Some(items)) => json!([of(items)]),
            _ => json!([]),
        },
        "string" => json!("text"),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        _ => Value::Null,
    }
}

fn object(schema: &Value) -> Value {
    let required: Vec<_> = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let shown = properties.filter(|(name, property)| {
        required.iter().any(|each| each == name.as_str()) || property.get("examples").is_some()
    });
    Value::Object(shown.map(|(name, property)| (name.clone(), of(property))).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_holds_what_is_required_and_what_is_shown() {
        let schema = json!({
            "type": "object",
            "required": ["name", "kind", "tags", "deep"],
            "properties": {
                "name": { "type": "string" },
                "kind": { "type": "string", "enum": ["a", "b"] },
                "tags": { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 3 } },
                "deep": { "anyOf": [{ "type": "object", "properties": { "left": { "type": "boolean" } } }] },
                "url": { "type": ["string", "null"], "examples": ["https://example.com/"] },
                "left_out": { "type": "string" },
            },
        });
        let expected = json!({
            "name": "text", "kind": "a", "tags": [3], "deep": {}, "url": "https://example.com/",
        });
        assert_eq!(of(&schema), expected);
    }
}
