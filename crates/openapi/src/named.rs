//! Calls by name: one flat object of path, query and body fields, as sockets, MQTT and tools make them.

use std::collections::HashSet;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Map, Value, json};

use crate::bundle;
use crate::operation::{Operation, dots_fault};
use crate::parameter::{In, Parameter, Style};
use crate::pointer;
use crate::schema::{Check, FieldError, Id, Place};
use crate::shape::{self, Shape};

/// What a path segment or a value of a query may hold as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How an operation is called by name.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    /// Where the schema of the body stands, and what it is compiled to, if there is a body.
    body: Option<(String, Id)>,
}

/// A call by name, as a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRequest {
    /// The path with its query, encoded.
    pub path_and_query: String,
    /// The body, which is JSON.
    pub body: Option<Vec<u8>>,
}

impl Named {
    /// How the operation is called by name, or why it is not.
    pub(crate) fn of(document: &Value, operation: &Operation) -> Result<Self, String> {
        if operation.websocket {
            return Err("it becomes a WebSocket".to_owned());
        }
        let outside: Vec<_> = operation.parameters.iter().filter(|one| one.place != In::Header).collect();
        if let Some(header) = operation.parameters_in(In::Header).find(|header| header.required) {
            return Err(format!("it needs the header `{}`, which is no field", header.name));
        }
        let mut names: Vec<&str> = outside.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[one, next]| one == next) {
            return Err(format!("`{name}` stands both in the path and in the query"));
        }
        let Some(body) = &operation.body else { return Ok(Self { body: None }) };
        let (place, id) = json_schema(document, operation)
            .zip(body.json_schema())
            .ok_or("its body is no JSON with a schema")?;
        let schema = document.pointer(&place).ok_or("its body has no schema")?;
        if !shape::is_object_only(document, schema) {
            return Err("its body is no JSON object".to_owned());
        }
        let fields = Shape::of(document, schema).fields;
        if let Some(name) = names.iter().find(|name| fields.contains(**name)) {
            return Err(format!("`{name}` stands both in the body and beside it"));
        }
        Ok(Self { body: Some((place, id)) })
    }

    /// The schema of the one object, with everything that it refers to.
    fn schema(&self, document: &Value, operation: &Operation) -> Value {
        let mut flat = Flat::default();
        for parameter in operation.parameters.iter().filter(|one| one.place != In::Header) {
            flat.parameter(document, parameter);
        }
        let body = self.body.as_ref().and_then(|(place, _)| document.pointer(place));
        if let (Some(schema), Some(body)) = (body, &operation.body) {
            flat.body(document, schema, body.required);
        }
        bundle::with_definitions(document, flat.finish())
    }
}

/// Where the schema of the operation's JSON body stands.
fn json_schema(document: &Value, operation: &Operation) -> Option<String> {
    let place = pointer::join(&operation.pointer, "requestBody");
    let (place, body) = pointer::resolve(document, place.clone(), document.pointer(&place)?);
    let range = operation.body.as_ref()?.json_range()?;
    let content = body.get("content")?.as_object()?;
    let (name, media) = content.iter().find(|(name, _)| name.to_ascii_lowercase().starts_with(range))?;
    media.get("schema")?;
    Some(format!("{}/schema", pointer::join(&pointer::join(&place, "content"), name)))
}

/// The flat object, while it is put together.
#[derive(Default)]
struct Flat {
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// What else the body must fit.
    also: Vec<Value>,
    /// What the body says of fields that are not named.
    closing: Map<String, Value>,
    /// The parts of the body that were spread, by where they stand: each counts once, however many refer to it.
    spread: HashSet<*const Value>,
}

impl Flat {
    fn parameter(&mut self, document: &Value, parameter: &Parameter) {
        let described = document.pointer(&parameter.pointer);
        let schema = described.and_then(|described| {
            described.get("schema").or_else(|| described.pointer("/content/application~1json/schema"))
        });
        let mut schema = schema.cloned().unwrap_or_else(|| json!({}));
        let description = described.and_then(|described| described.get("description"));
        if let (Value::Object(schema), Some(description)) = (&mut schema, description) {
            schema.entry("description").or_insert_with(|| description.clone());
        }
        self.properties.insert(parameter.name.clone(), schema);
        if parameter.required {
            self.required.push(parameter.name.as_str().into());
        }
    }

    /// Spreads the fields of the body, through references and `allOf`; choices stay as they are.
    fn body(&mut self, document: &Value, schema: &Value, required: bool) {
        let Some(object) = schema.as_object().filter(|_| self.spread.insert(schema)) else { return };
        for (keyword, value) in object {
            match (keyword.as_str(), value) {
                ("properties", Value::Object(named)) => {
                    for (name, property) in named {
                        match self.properties.get_mut(name) {
                            // Two parts of the body describe it.
                            Some(known) if known != property => {
                                *known = json!({ "allOf": [known.clone(), property] });
                            }
                            _ => {
                                self.properties.insert(name.clone(), property.clone());
                            }
                        }
                    }
                }
                ("required", Value::Array(names)) if required => self.required.extend(names.iter().cloned()),
                ("allOf", Value::Array(parts)) => {
                    for part in parts {
                        self.body(document, part, required);
                    }
                }
                ("$ref", _) => {
                    if let Some((_, target)) = pointer::target(document, schema) {
                        self.body(document, target, required);
                    }
                }
                ("additionalProperties" | "patternProperties", value) if *value != Value::Bool(false) => {
                    self.closing.insert(keyword.clone(), value.clone());
                }
                (
                    "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas"
                    | "dependentRequired",
                    value,
                ) => {
                    // The same keyword in two parts must not become one.
                    self.also.push(json!({ keyword: value }));
                }
                _ => {}
            }
        }
        self.join_condition();
    }

    /// `if`, `then` and `else` mean something together alone.
    fn join_condition(&mut self) {
        let is_branch =
            |value: &Value| ["if", "then", "else"].iter().any(|keyword| value.get(keyword).is_some());
        let (branches, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.also).into_iter().partition(is_branch);
        self.also = rest;
        let mut joined = Map::new();
        for branch in branches {
            if let Value::Object(branch) = branch {
                if branch.keys().any(|keyword| joined.contains_key(keyword)) {
                    self.also.push(Value::Object(std::mem::take(&mut joined)));
                }
                joined.extend(branch);
            }
        }
        if !joined.is_empty() {
            self.also.push(Value::Object(joined));
        }
    }

    fn finish(mut self) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        // With choices, a field may be one of theirs.
        let closed = if self.also.is_empty() { "additionalProperties" } else { "unevaluatedProperties" };
        if self.closing.is_empty() {
            schema.insert(closed.to_owned(), json!(false));
        }
        schema.append(&mut self.closing);
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        self.required.sort_by_key(ToString::to_string);
        self.required.dedup();
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(self.required));
        }
        if !self.also.is_empty() {
            schema.insert("allOf".to_owned(), Value::Array(self.also));
        }
        Value::Object(schema)
    }
}

impl Operation {
    /// The schema of the one object of a call by name, with everything that it refers to; `None` when it is not called
    /// by name.
    /// It is made anew each time, since it may be many times as long as what is written in the document.
    pub fn input_schema(&self) -> Option<Value> {
        self.named.as_ref().ok().map(|named| named.schema(&self.source, self))
    }

    /// Makes a request of a call by name, and checks it as every request is checked.
    pub fn request(&self, mut fields: Map<String, Value>) -> Result<NamedRequest, Vec<FieldError>> {
        let named = self.named.as_ref().map_err(|reason| {
            vec![FieldError::new(
                "body",
                format!("cannot be taken: the operation is not called by name, since {reason}"),
            )]
        })?;
        let mut check = Check::closed(&self.schemas);
        let mut path = self.path.clone();
        let mut query = Vec::new();
        for parameter in self.parameters.iter().filter(|one| one.place != In::Header) {
            let place = Place::parameter(&parameter.name, false);
            // Neither a path nor a query has a null: it is left out.
            let Some(value) = fields.remove(&parameter.name).filter(|value| !value.is_null()) else {
                if parameter.required {
                    check.report(&place, "is required");
                }
                continue;
            };
            match (&value, parameter.schema) {
                // A path holds text, whatever it stands for.
                (Value::String(text), _) if parameter.place == In::Path => {
                    parameter.check(&mut check, &parameter.texts_of(text));
                }
                (value, Some(schema)) => check.value(schema, value, &place),
                (_, None) => {}
            }
            if parameter.place == In::Path {
                let text = joined(&value, &parameter.style, &mut check, &place);
                if let Some(fault) = dots_fault(&percent_decode_str(&text).decode_utf8_lossy()) {
                    check.report(&place, fault);
                }
                path = path.replace(&format!("{{{}}}", parameter.name), &text);
            } else {
                write_query(parameter, &value, &mut query, &mut check, &place);
            }
        }
        let body = self.body.as_ref().filter(|body| body.required || !fields.is_empty());
        if self.body.is_none() {
            let outside = self.parameters.iter().filter(|one| one.place != In::Header);
            let known: Vec<_> = outside.map(|one| one.name.as_str()).collect();
            for name in fields.keys() {
                check.report(&Place::body().field(name), crate::schema::unknown(&known));
            }
        }
        let value = Value::Object(fields);
        if let (Some(_), Some((_, schema))) = (body, &named.body) {
            check.value(*schema, &value, &Place::body());
        }
        check.finish()?;
        let query = query.join("&");
        let path_and_query = if query.is_empty() { path } else { format!("{path}?{query}") };
        Ok(NamedRequest { path_and_query, body: body.map(|_| value.to_string().into_bytes()) })
    }
}

/// One value as text.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A value as one encoded text.
fn joined(value: &Value, style: &Style, check: &mut Check<'_>, place: &Place<'_>) -> String {
    match (value, style) {
        (Value::Array(items), Style::Joined(separator)) => {
            let items: Vec<_> = items.iter().map(|item| encode(&text(item))).collect();
            items.join(&encode(&separator.to_string()).replace("%2C", ","))
        }
        (_, Style::Json) => encode(&value.to_string()),
        (Value::Array(_), _) => {
            check.report(place, "must be one value, not a list");
            String::new()
        }
        (Value::Object(_), _) => {
            check.report(place, "must be one value, not an object");
            String::new()
        }
        (scalar, _) => encode(&text(scalar)),
    }
}

fn write_query(
    parameter: &Parameter,
    value: &Value,
    query: &mut Vec<String>,
    check: &mut Check<'_>,
    place: &Place<'_>,
) {
    let name = encode(&parameter.name);
    match (&parameter.style, value) {
        (Style::Repeated, Value::Array(items)) => {
            for item in items {
                query.push(format!("{name}={}", joined(item, &Style::Plain, check, place)));
            }
        }
        (Style::Spread(_), Value::Object(fields)) => {
            for (field, value) in fields {
                query.push(format!("{}={}", encode(field), joined(value, &Style::Plain, check, place)));
            }
        }
        (Style::Brackets, value @ (Value::Object(_) | Value::Array(_))) => {
            write_brackets(&name, value, query);
        }
        (style, value) => query.push(format!("{name}={}", joined(value, style, check, place))),
    }
}

fn write_brackets(name: &str, value: &Value, query: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                write_brackets(&format!("{name}%5B{}%5D", encode(field)), value, query);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                write_brackets(&format!("{name}%5B{index}%5D"), value, query);
            }
        }
        scalar => query.push(format!("{name}={}", encode(&text(scalar)))),
    }
}
