//! Tools that ask the client something while it waits, as the revisions with a handshake have it.

use portico_engine::{OfferFault, OfferRequest};
use serde_json::{Value, json};

use super::{argument, text_part, tool, words};

pub(super) fn list() -> Vec<Value> {
    let mut sampling = tool(("test_sampling", "Ask the client's model."));
    sampling["inputSchema"] = one_string("prompt", "What the model is asked.");
    let mut elicitation = tool(("test_elicitation", "Ask the person."));
    elicitation["inputSchema"] = one_string("message", "What the person is asked.");
    let defaults = ("test_elicitation_sep1034_defaults", "Ask the person, with answers that are filled in.");
    let choices = ("test_elicitation_sep1330_enums", "Ask the person to choose, in every way there is.");
    vec![sampling, elicitation, tool(defaults), tool(choices)]
}

fn one_string(name: &str, description: &str) -> Value {
    let property = json!({ "type": "string", "description": description });
    json!({ "type": "object", "properties": { name: property }, "required": [name] })
}

/// Asks, and returns what the client said; `None` for another's name.
pub(super) async fn call(name: &str, request: OfferRequest<'_>) -> Option<Result<Value, OfferFault>> {
    let asked = match name {
        "test_sampling" => argument(request, "prompt").map(|prompt| ask_model(prompt, 100)),
        "test_elicitation" => argument(request, "message").map(|message| ask_person(message, contact())),
        "test_elicitation_sep1034_defaults" => {
            Ok(ask_person("Please look through these.", json!({ "properties": with_defaults() })))
        }
        "test_elicitation_sep1330_enums" => {
            Ok(ask_person("Please choose.", json!({ "properties": with_choices() })))
        }
        _ => return None,
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(fault) => return Some(Err(fault)),
    };
    let method = asked["method"].as_str().unwrap_or_default();
    Some(Ok(match request.assistant.ask(method, asked["params"].clone()).await {
        Ok(said) if method == "sampling/createMessage" => {
            words(format!("LLM response: {}", said["content"]["text"].as_str().unwrap_or_default()))
        }
        Ok(said) => words(format!("User response: {said}")),
        Err(problem) => json!({ "content": [text_part(problem.error())], "isError": true }),
    }))
}

/// A question to the client's model.
pub(super) fn ask_model(prompt: &str, most_tokens: u32) -> Value {
    let message = json!({ "role": "user", "content": text_part(prompt) });
    json!({
        "method": "sampling/createMessage",
        "params": { "messages": [message], "maxTokens": most_tokens },
    })
}

/// A question to the person. The schema need not say that it is an object's.
pub(super) fn ask_person(message: &str, mut schema: Value) -> Value {
    schema["type"] = json!("object");
    json!({ "method": "elicitation/create", "params": { "message": message, "requestedSchema": schema } })
}

fn contact() -> Value {
    json!({
        "properties": {
            "username": { "type": "string", "description": "User's response" },
            "email": { "type": "string", "description": "User's email address" },
        },
        "required": ["username", "email"],
    })
}

fn with_defaults() -> Value {
    json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    })
}

fn with_choices() -> Value {
    let options = ["option1", "option2", "option3"];
    let titled = |titles: [&str; 3]| -> Vec<_> {
        let values = ["value1", "value2", "value3"].into_iter();
        values.zip(titles).map(|(value, title)| json!({ "const": value, "title": title })).collect()
    };
    json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": {
            "type": "string",
            "oneOf": titled(["First Option", "Second Option", "Third Option"]),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": {
            "type": "array",
            "items": { "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]) },
        },
    })
}
