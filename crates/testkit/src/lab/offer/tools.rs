//! Tools that answer at once, or tell something on the way.

use std::time::Duration;

use portico_engine::OfferRequest;
use portico_engine::clock::SystemClock;
use portico_kernel::Clock;
use serde_json::{Value, json};

use super::{image_part, resource_part, text_part, tool, words};

/// Time enough for what was told to go out by itself.
const PAUSE: Duration = Duration::from_millis(50);
/// A sound of one sample, which is silent.
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA==";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

const TOOLS: [(&str, &str); 11] = [
    ("test_simple_text", "Answer a text."),
    ("test_image_content", "Answer an image."),
    ("test_audio_content", "Answer a sound."),
    ("test_embedded_resource", "Answer a resource."),
    ("test_multiple_content_types", "Answer a text, an image and a resource."),
    ("test_error_handling", "Fail."),
    ("test_tool_with_progress", "Tell how far it is, three times."),
    ("test_tool_with_logging", "Log three lines."),
    ("test_logging_tool", "Log three lines, if the request wants them."),
    ("test_trigger_tool_change", "Tell that the tools changed."),
    ("test_trigger_prompt_change", "Tell that the prompts changed."),
];

pub(super) fn list() -> Vec<Value> {
    TOOLS.into_iter().map(tool).chain([with_a_rich_schema()]).collect()
}

/// A tool whose schema uses what only the newer drafts of JSON Schema have; it must come through as it is.
fn with_a_rich_schema() -> Value {
    json!({
        "name": "json_schema_2020_12_tool",
        "description": "Take arguments of a schema that uses much of JSON Schema 2020-12.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
                },
            },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" },
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false,
        },
    })
}

/// The result of the tool; `None` for another's name.
pub(super) async fn call(name: &str, request: OfferRequest<'_>) -> Option<Value> {
    let content = match name {
        "test_simple_text" => vec![text_part("This is a simple text response for testing.")],
        "test_image_content" => vec![image_part()],
        "test_audio_content" => vec![json!({ "type": "audio", "data": WAV, "mimeType": "audio/wav" })],
        "test_embedded_resource" => vec![resource_part(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        )],
        "test_multiple_content_types" => vec![
            text_part("Multiple content types test:"),
            image_part(),
            resource_part(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ],
        "test_error_handling" => {
            let why = text_part("This tool intentionally returns an error for testing");
            return Some(json!({ "content": [why], "isError": true }));
        }
        "test_tool_with_progress" => return Some(with_progress(request).await),
        "test_tool_with_logging" | "test_logging_tool" => return Some(with_logging(request).await),
        "json_schema_2020_12_tool" => vec![text_part(request.params["arguments"].to_string())],
        _ => return None,
    };
    Some(json!({ "content": content }))
}

async fn with_progress(request: OfferRequest<'_>) -> Value {
    request.assistant.progress(0, 100, "");
    SystemClock.sleep(PAUSE).await;
    request.assistant.progress(50, 100, "");
    SystemClock.sleep(PAUSE).await;
    request.assistant.progress(100, 100, "");
    words("It is done.")
}

async fn with_logging(request: OfferRequest<'_>) -> Value {
    // An older client says once what it wants to read, which nobody keeps; a modern one says so in each request.
    let wanted = !request.assistant.is_modern() || request.params["_meta"][LOG_LEVEL].is_string();
    let log = |line: &str| {
        if wanted {
            request.assistant.tell("notifications/message", json!({ "level": "info", "data": line }));
        }
    };
    log("Tool execution started");
    SystemClock.sleep(PAUSE).await;
    log("Tool processing data");
    SystemClock.sleep(PAUSE).await;
    log("Tool execution completed");
    words("It is done.")
}
