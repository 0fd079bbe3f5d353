//! Prompts, and what may stand in their arguments.

use portico_engine::{OfferFault, OfferRequest};
use serde_json::{Value, json};

use super::rounds::{ask, field, said};
use super::{argument, image_part, named, resource_part, text_part, wrong};

/// What an argument may be.
const VALUES: [&str; 3] = ["test", "test value", "another"];

pub(super) fn list() -> Value {
    json!({ "prompts": [
        prompt("test_simple_prompt", "A text.", &[]),
        prompt("test_prompt_with_arguments", "A text with two arguments.", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", "A resource and a text.", &["resourceUri"]),
        prompt("test_prompt_with_image", "An image and a text.", &[]),
        prompt("test_input_required_result_prompt", "A text that the person is asked for.", &[]),
    ] })
}

fn prompt(name: &str, description: &str, arguments: &[&str]) -> Value {
    let argument = |name| json!({ "name": name, "description": "Any text.", "required": true });
    let arguments: Vec<_> = arguments.iter().map(argument).collect();
    json!({ "name": name, "description": description, "arguments": arguments })
}

pub(super) fn get(request: OfferRequest<'_>) -> Result<Value, OfferFault> {
    let parts = match named(request) {
        "test_simple_prompt" => vec![text_part("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument(request, "arg1")?, argument(request, "arg2")?);
            vec![text_part(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            resource_part(
                argument(request, "resourceUri")?,
                "text/plain",
                "Embedded resource content for testing.",
            ),
            text_part("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![image_part(), text_part("Please analyze the image above.")],
        "test_input_required_result_prompt" => {
            let Some(said) = said(request, "user_context") else {
                let question = field("What context should the prompt use?", "context", "string");
                return ask(request, vec![("user_context", question)], None);
            };
            let context = said["content"]["context"].as_str().unwrap_or_default();
            vec![text_part(format!("Prompt with context: {context}"))]
        }
        _ => return Err(wrong("params.name", "is no prompt's")),
    };
    let messages: Vec<_> = parts.into_iter().map(|part| json!({ "role": "user", "content": part })).collect();
    Ok(json!({ "messages": messages }))
}

/// The values that begin with what was typed, whatever the argument.
pub(super) fn complete(request: OfferRequest<'_>) -> Value {
    let typed = request.params["argument"]["value"].as_str().unwrap_or_default();
    let values: Vec<_> = VALUES.into_iter().filter(|value| value.starts_with(typed)).collect();
    json!({ "completion": { "total": values.len(), "values": values, "hasMore": false } })
}
