//! One operation in a document.

use portico_engine::{Access, AnswerKind, Entry, PAGE_FIELDS, PageSize, Protocol, RequestBody, Spec};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::{inputs, object, problem};

/// Describes the operation; the parts of its answer go to `answers`.
pub(super) fn describe(entry: &Entry, answers: &mut SchemaGenerator) -> Value {
    let spec = entry.spec;
    let mut input = object(entry.input_schema(&mut inputs()));
    let description =
        input.remove("description").and_then(|text| text.as_str().map(one_line)).unwrap_or_default();
    let mut operation = json!({
        "operationId": spec.name,
        "summary": summary(&description),
        "description": description,
        "tags": [entry.area],
        "parameters": parameters(spec, &input),
        "responses": responses(entry, answers),
        "security": security(spec),
        "x-platform-rpc": spec.name,
        "x-platform-public": spec.access != Access::Person,
    });
    if spec.method.takes_body() {
        operation["requestBody"] = match spec.body {
            RequestBody::Raw => anything(),
            RequestBody::Upload => upload(),
            RequestBody::Json => body(entry, input),
        };
    }
    if let Some(list) = spec.list {
        operation["x-platform-list"] = json!({ "items": list });
    }
    if let Some(tool) = spec.tool {
        operation["x-platform-tool"] = json!({ "name": tool.name, "scopes": spec.tool_scopes() });
    }
    if let Some(category) = spec.category {
        operation["x-platform-units"] =
            json!({ "category": category.name(), "units": category.units().to_string() });
    }
    operation
}

/// Doc comments are wrapped; the document is not.
pub(crate) fn one_line(text: &str) -> String {
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n")
}

/// The first sentence.
fn summary(description: &str) -> String {
    let end = description.find(". ").or_else(|| description.find(".\n")).unwrap_or(description.len());
    description[..end].trim_end_matches('.').to_owned()
}

fn security(spec: &Spec) -> Value {
    match spec.access {
        Access::Open => json!([]),
        Access::AnyToken | Access::Person => json!([{ "bearer": [] }]),
        Access::Scope(scope) | Access::Service(scope) => json!([{ "bearer": [scope] }]),
        Access::AnyOf(lists) => lists.iter().map(|list| json!({ "bearer": list })).collect(),
    }
}

fn properties(input: &Map<String, Value>) -> Map<String, Value> {
    input.get("properties").and_then(Value::as_object).cloned().unwrap_or_default()
}

fn is_required(input: &Map<String, Value>, name: &str) -> bool {
    let required = input.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

fn parameters(spec: &Spec, input: &Map<String, Value>) -> Value {
    let variables: Vec<_> = spec.variables().collect();
    let mut fields = properties(input);
    let mut parameters = Vec::new();
    for name in &variables {
        if let Some(schema) = fields.remove(*name) {
            parameters.push(parameter("path", name, schema, true));
        }
    }
    if !spec.method.takes_body() {
        spread("", input, &fields, &mut parameters);
    }
    if spec.list.is_some() {
        parameters.extend(paging());
    }
    if spec.protocol == Some(Protocol::Sse) {
        let schema = json!({ "type": "string", "description": "The `id` of the last block that was seen." });
        parameters.push(parameter("header", "Last-Event-ID", schema, false));
    }
    if spec.idempotency_key {
        let schema = json!({
            "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$",
            "description": "Makes the call safe to repeat: the first answer is kept for a day and given again.",
        });
        parameters.push(parameter("header", "Idempotency-Key", schema, false));
    }
    parameters.into()
}

/// Query parameters: a nested field is dotted, a list repeats its name.
fn spread(prefix: &str, input: &Map<String, Value>, fields: &Map<String, Value>, into: &mut Vec<Value>) {
    for (name, schema) in fields {
        let schema = present(schema.clone());
        let path = format!("{prefix}{name}");
        if let Some(nested) = schema.as_object().filter(|schema| schema.contains_key("properties")) {
            spread(&format!("{path}."), nested, &properties(nested), into);
        } else {
            let required = prefix.is_empty() && is_required(input, name);
            into.push(parameter("query", &path, schema, required));
        }
    }
}

/// A query has no null: an optional field is one that may be left out.
pub(crate) fn present(mut schema: Value) -> Value {
    if let Some(types) = schema.get_mut("type").filter(|types| types.is_array()) {
        let kept: Vec<_> =
            types.as_array().into_iter().flatten().filter(|kind| *kind != "null").cloned().collect();
        *types = if kept.len() == 1 { kept[0].clone() } else { kept.into() };
    }
    let variants = schema.get("anyOf").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut kept: Vec<_> =
        variants.into_iter().filter(|variant| variant != &json!({ "type": "null" })).collect();
    if let (Some(Value::Object(only)), true) = (kept.pop(), kept.is_empty())
        && let Some(object) = schema.as_object_mut()
    {
        object.remove("anyOf");
        for (name, value) in only {
            object.entry(name).or_insert(value);
        }
    }
    if let Some(object) = schema.as_object_mut() {
        object.remove("default");
    }
    schema
}

fn parameter(place: &str, name: &str, mut schema: Value, required: bool) -> Value {
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let mut parameter = json!({ "name": name, "in": place, "required": required, "schema": schema });
    if let Some(description) = description {
        parameter["description"] = json!(one_line(description.as_str().unwrap_or_default()));
    }
    if parameter["schema"]["type"] == "array" {
        parameter["style"] = json!("form");
        parameter["explode"] = json!(true);
    }
    parameter
}

fn paging() -> Vec<Value> {
    let describe = |name: &str| match name {
        "page_size" => json!({
            "type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX,
            "description": format!(
                "How many items a page may have: 0 means {}, more than {most} means {most}.",
                PageSize::DEFAULT,
                most = PageSize::MAX,
            ),
        }),
        "limit" => json!({
            "type": "integer", "format": "int32", "minimum": 0, "maximum": i32::MAX,
            "description": "The older name of `page_size`, which wins when both are sent.",
        }),
        _ => json!({
            "type": "string",
            "description": "The `next_page_token` of the page before; every other parameter must stay as it was.",
        }),
    };
    let mut parameters: Vec<_> =
        PAGE_FIELDS.iter().map(|name| parameter("query", name, describe(name), false)).collect();
    for older in parameters.iter_mut().filter(|parameter| parameter["name"] == "limit") {
        older["deprecated"] = json!(true);
    }
    parameters
}

/// The body. A field of a path variable's name may stand in it, whatever it holds: the path overrides it.
fn body(entry: &Entry, mut input: Map<String, Value>) -> Value {
    let variables: Vec<_> = entry.spec.variables().collect();
    if let Some(properties) = input.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut().filter(|(name, _)| variables.contains(&name.as_str())) {
            *property = json!({ "description": "May be left out: the path overrides it." });
        }
    }
    if let Some(required) = input.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !variables.iter().any(|variable| name == variable));
    }
    let required = input.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    let mut schema = Value::Object(input);
    allow_null(&mut schema);
    let json = json!({ "schema": schema, "example": entry.example() });
    json!({ "required": required, "content": { "application/json": json } })
}

/// A body of any kind.
fn anything() -> Value {
    json!({ "required": false, "content": { "*/*": { "schema": {} } } })
}

/// Bytes, read as they arrive.
fn upload() -> Value {
    let schema = json!({ "type": "string", "format": "binary" });
    json!({ "required": true, "content": { "application/octet-stream": { "schema": schema } } })
}

/// In a body, a field that is null counts as left out; so whatever may be left out may be null.
fn allow_null(schema: &mut Value) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|names| names.iter().any(|each| each == name));
    for (name, property) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
    {
        allow_null(property);
        if is_required(name) {
            continue;
        }
        match property.get_mut("type") {
            Some(Value::Array(types)) if !types.contains(&json!("null")) => types.push(json!("null")),
            Some(one @ Value::String(_)) => *one = json!([one.clone(), "null"]),
            _ => {}
        }
        for list in ["enum", "anyOf", "oneOf"] {
            let null = if list == "enum" { Value::Null } else { json!({ "type": "null" }) };
            if let Some(values) = property.get_mut(list).and_then(Value::as_array_mut)
                && !values.contains(&null)
            {
                values.push(null);
            }
        }
    }
    if let Some(items) = schema.get_mut("items") {
        allow_null(items);
    }
}

fn responses(entry: &Entry, answers: &mut SchemaGenerator) -> Value {
    let spec = entry.spec;
    let answer = object(entry.answer_schema(answers));
    let media = match (entry.answer_kind, spec.protocol) {
        (_, Some(Protocol::Sse)) => "text/event-stream",
        (AnswerKind::Bytes, _) => "application/octet-stream",
        _ => "application/json",
    };
    let content = json!({ media: { "schema": answer } });
    let mut headers = json!({ "x-request-id": problem::header("RequestId") });
    if spec.list.is_some() {
        headers["Link"] = problem::header("Link");
    }
    if spec.idempotency_key {
        headers["Idempotency-Replayed"] = problem::header("IdempotencyReplayed");
    }
    if spec.etag {
        headers["ETag"] = problem::header("ETag");
    }
    if spec.access != Access::Open {
        headers = problem::limited(headers);
    }
    let mut responses = json!({
        "200": { "description": "The answer.", "headers": headers, "content": content },
        "default": problem::response("Problem"),
    });
    if spec.etag {
        let headers =
            json!({ "x-request-id": problem::header("RequestId"), "ETag": problem::header("ETag") });
        responses["304"] = json!({ "description": "The caller has it already.", "headers": headers });
    }
    for status in problem::statuses(spec) {
        responses[status.to_string()] = problem::response("Problem");
    }
    for code in entry.also {
        let headers = json!({ "x-request-id": problem::header("RequestId") });
        responses[code.status().to_string()] =
            json!({ "description": code.description(), "headers": headers, "content": content });
    }
    responses
}
