//! Which object of OpenAPI stands where in a document.
//!
//! Everything that looks for references or schemas goes by this table, since names mean nothing by themselves: a field
//! may be called `$ref`, and an example may look like a schema.

use serde_json::{Map, Value};

use crate::pointer;

/// An object of OpenAPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    Components,
    PathItem,
    Operation,
    Parameter,
    Header,
    RequestBody,
    Response,
    MediaType,
    Encoding,
    Callback,
    Link,
    Example,
    SecurityScheme,
    Schema,
}

/// How often it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    One,
    /// By names that somebody chose.
    Named,
    List,
}

/// The methods that OpenAPI knows.
pub(crate) const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// What stands under `key` of an object; `None` for what holds nothing of ours.
fn child(kind: Kind, key: &str) -> Option<(Shape, Kind)> {
    use Kind::{
        Callback, Components, Document, Encoding, Example, Header, Link, MediaType, Operation, Parameter,
        PathItem, RequestBody, Response, Schema, SecurityScheme,
    };
    use Shape::{List, Named, One};
    Some(match (kind, key) {
        (Document, "paths" | "webhooks") | (Components, "pathItems") => (Named, PathItem),
        (Document, "components") => (One, Components),
        (Components, "schemas") => (Named, Schema),
        (Components, "parameters") => (Named, Parameter),
        (Components, "requestBodies") => (Named, RequestBody),
        (Components | Operation, "responses") => (Named, Response),
        (Components | Response | Encoding, "headers") => (Named, Header),
        (Components | Operation, "callbacks") => (Named, Callback),
        (Components | Response, "links") => (Named, Link),
        (Components | Parameter | Header | MediaType, "examples") => (Named, Example),
        (Components, "securitySchemes") => (Named, SecurityScheme),
        (PathItem | Operation, "parameters") => (List, Parameter),
        (PathItem, method) if METHODS.contains(&method) => (One, Operation),
        (Operation, "requestBody") => (One, RequestBody),
        (Callback, name) if !name.starts_with("x-") && name != "$ref" => (One, PathItem),
        (Parameter | Header | RequestBody | Response, "content") => (Named, MediaType),
        (MediaType, "encoding") => (Named, Encoding),
        (Schema, "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas") => {
            (Named, Schema)
        }
        (Parameter | Header | MediaType, "schema")
        | (
            Schema,
            "items"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "not"
            | "if"
            | "then"
            | "else"
            | "contains"
            | "propertyNames"
            | "contentSchema",
        ) => (One, Schema),
        (Schema, "allOf" | "anyOf" | "oneOf" | "prefixItems") => (List, Schema),
        _ => return None,
    })
}

/// The keywords of a schema that are about the same value as the schema itself.
pub(crate) fn is_in_place(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas")
}

/// The kind of object that stands at a pointer, if the table knows.
pub(crate) fn kind_at(pointer: &str) -> Option<Kind> {
    let mut kind = Kind::Document;
    let mut steps = pointer::steps(pointer);
    while let Some(step) = steps.next() {
        let (shape, inner) = child(kind, &step)?;
        if shape != Shape::One {
            steps.next()?;
        }
        kind = inner;
    }
    Some(kind)
}

/// Goes through `value` and everything of ours in it, outside first; `visit` says whether to go further in.
pub(crate) fn walk<'a>(
    value: &'a Value,
    kind: Kind,
    pointer: &mut String,
    visit: &mut dyn FnMut(Kind, &str, &'a Value) -> bool,
) {
    if !visit(kind, pointer, value) {
        return;
    }
    let Value::Object(object) = value else { return };
    for (key, inner) in object {
        let Some((shape, kind)) = child(kind, key) else { continue };
        let length = pointer.len();
        pointer::push(pointer, key);
        match (shape, inner) {
            (Shape::One, inner) => walk(inner, kind, pointer, visit),
            (Shape::Named, Value::Object(named)) => {
                for (name, inner) in named {
                    below(pointer, name, |pointer| walk(inner, kind, pointer, visit));
                }
            }
            (Shape::List, Value::Array(items)) => {
                for (index, inner) in items.iter().enumerate() {
                    below(pointer, &index.to_string(), |pointer| walk(inner, kind, pointer, visit));
                }
            }
            _ => {}
        }
        pointer.truncate(length);
    }
}

fn below(pointer: &mut String, step: &str, walk: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer::push(pointer, step);
    walk(pointer);
    pointer.truncate(length);
}

/// Goes through every object of ours in `value`, inside first, and changes it.
pub(crate) fn change(value: &mut Value, kind: Kind, with: &mut dyn FnMut(Kind, &mut Map<String, Value>)) {
    let Value::Object(object) = value else { return };
    for (key, inner) in object.iter_mut() {
        let Some((shape, kind)) = child(kind, key) else { continue };
        match (shape, inner) {
            (Shape::One, inner) => change(inner, kind, with),
            (Shape::Named, Value::Object(named)) => {
                named.values_mut().for_each(|inner| change(inner, kind, with));
            }
            (Shape::List, Value::Array(items)) => {
                for inner in items {
                    change(inner, kind, with);
                }
            }
            _ => {}
        }
    }
    with(kind, object);
}
