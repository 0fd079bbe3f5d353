//! The envelope in a document. Written by hand, because generators want each detail as a component of its own with a
//! constant `type`.

use portico_engine::{Access, RequestBody, Spec};
use portico_kernel::Code;
use serde_json::{Map, Value, json};

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The schemas of the envelope and its details.
pub(crate) fn schemas() -> Map<String, Value> {
    let details = details();
    let names: Vec<_> = details.iter().map(|(name, kind, _)| (*name, *kind)).collect();
    let mapping: Map<_, _> =
        names.iter().map(|(name, kind)| ((*kind).to_owned(), reference(name)["$ref"].clone())).collect();
    let union = json!({
        "description": "What a refusal is about.",
        "oneOf": names.iter().map(|(name, _)| reference(name)).collect::<Vec<_>>(),
        "discriminator": { "propertyName": "type", "mapping": mapping },
    });
    let mut schemas: Map<_, _> =
        details.into_iter().map(|(name, _, schema)| (name.to_owned(), schema)).collect();
    schemas.insert("Detail".to_owned(), union);
    schemas.insert("Problem".to_owned(), envelope());
    schemas
}

fn envelope() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
    let meaning = |code: &Code| format!("`{}` ({}): {}", code.name(), code.status(), code.description());
    let meanings: Vec<_> = Code::ALL.iter().map(meaning).collect();
    json!({
        "type": "object",
        "description": "A refusal.",
        "properties": {
            "code": { "type": "string", "enum": codes, "description": meanings.join(" ") },
            "error": { "type": "string", "description": "A sentence for a person." },
            "details": {
                "type": "array", "items": reference("Detail"), "description": "What it is about, for a program.",
            },
            "request_id": { "type": "string", "description": "The call's `x-request-id`." },
        },
        "required": ["code", "error", "details", "request_id"],
    })
}

/// Each kind of detail: the name of its schema, its `type`, and the schema.
fn details() -> [(&'static str, &'static str, Value); 3] {
    let field = json!({
        "field": { "type": "string", "description": "The path in the request." },
        "description": { "type": "string", "description": "What is wrong with it." },
    });
    let info = json!({
        "reason": { "type": "string", "description": "The reason, in capitals." },
        "domain": { "type": "string", "description": "Who owns the reason." },
        "metadata": {
            "type": "object", "additionalProperties": { "type": "string" }, "description": "Values that go with it.",
        },
    });
    let retry = json!({ "after_seconds": {
        "type": "string", "format": "int64", "pattern": "^(0|[1-9][0-9]{0,18})$",
        "description": "Whole seconds to wait, rounded up; also sent as `Retry-After`.",
    } });
    [("FieldDetail", "field", field), ("InfoDetail", "info", info), ("RetryDetail", "retry", retry)].map(
        |(name, kind, mut fields)| {
            fields["type"] = json!({ "type": "string", "const": kind, "description": "The kind of detail." });
            let required: Vec<_> = fields.as_object().into_iter().flat_map(Map::keys).cloned().collect();
            (name, kind, json!({ "type": "object", "properties": fields, "required": required }))
        },
    )
}

/// The response that every refusal is.
pub(super) fn responses() -> Value {
    json!({ "Problem": {
        "description": "A refusal.",
        "headers": limited(json!({ "x-request-id": header("RequestId"), "Retry-After": header("RetryAfter") })),
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    } })
}

/// The headers of answers.
pub(super) fn headers() -> Value {
    let text = |description: &str| json!({ "description": description, "schema": { "type": "string" } });
    let count = |words: &str| json!({ "description": words, "schema": { "type": "integer", "minimum": 0 } });
    json!({
        "RequestId": text("The call's id: the one that was sent, or a new one."),
        "RetryAfter": { "description": "Seconds to wait before trying again.", "schema": { "type": "integer" } },
        "RateLimit": count("Calls that the caller may make in any 60 seconds."),
        "RateRemaining": count("Calls that are left of them now."),
        "RateReset": count("Seconds until the oldest call leaves the 60 seconds, or until there is room again."),
        "Link": text("The address of the next page, with `rel=\"next\"`, when there is one."),
        "ETag": text("The version of this answer, for `If-None-Match`."),
        "IdempotencyReplayed": text("`true` when this is the kept answer of an earlier call."),
    })
}

/// These headers, and those of the caller's rate limit, which every answer has whose caller is known.
pub(super) fn limited(mut headers: Value) -> Value {
    for (name, component) in [
        ("X-RateLimit-Limit", "RateLimit"),
        ("X-RateLimit-Remaining", "RateRemaining"),
        ("X-RateLimit-Reset", "RateReset"),
    ] {
        headers[name] = header(component);
    }
    headers
}

pub(super) fn header(name: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{name}") })
}

pub(super) fn response(name: &str) -> Value {
    json!({ "$ref": format!("#/components/responses/{name}") })
}

/// The refusals that an operation can meet before it runs, by their status.
pub(super) fn statuses(spec: &Spec) -> Vec<u16> {
    let mut codes = vec![Code::BadRequest];
    if spec.access != Access::Open {
        codes.extend([Code::Unauthenticated, Code::Forbidden, Code::RateLimited]);
    }
    match spec.body {
        RequestBody::Raw => codes.extend([Code::PayloadTooLarge, Code::RateLimited]),
        RequestBody::Json | RequestBody::Upload if spec.method.takes_body() => {
            codes.extend([Code::PayloadTooLarge, Code::UnsupportedMediaType]);
        }
        RequestBody::Json | RequestBody::Upload => {}
    }
    if spec.idempotency_key {
        codes.extend([Code::Conflict, Code::Unprocessable]);
    }
    codes.into_iter().map(Code::status).collect()
}
