//! Tools that need to know more: their answer asks, and the client calls again with what it was asked, as the revisions
//! without a handshake have it. What they must remember goes with the client, sealed.

use portico_engine::{OfferFault, OfferRequest};
use portico_kernel::{Code, Problem};
use serde_json::{Map, Value, json};

use super::asking::{ask_model, ask_person};
use super::{tool, words, wrong};

/// The protocol's code for a client that cannot do what is needed.
const MISSING_CAPABILITY: i32 = -32021;

const TOOLS: [(&str, &str); 10] = [
    ("test_missing_capability", "Ask the model, which not every client has."),
    ("test_streaming_elicitation", "Ask the person, and tell how far it is."),
    ("test_input_required_result_elicitation", "Ask the person for a name."),
    ("test_input_required_result_sampling", "Ask the model for a capital."),
    ("test_input_required_result_list_roots", "Ask the client for its roots."),
    ("test_input_required_result_request_state", "Ask the person, and remember it."),
    ("test_input_required_result_multiple_inputs", "Ask for everything at once."),
    ("test_input_required_result_multi_round", "Ask the person twice."),
    ("test_input_required_result_tampered_state", "Ask the person, and refuse a changed memory."),
    ("test_input_required_result_capabilities", "Ask only what the client can answer."),
];

/// Questions, each under the key of its answer.
type Questions = Vec<(&'static str, Value)>;

pub(super) fn list() -> Vec<Value> {
    TOOLS.into_iter().map(tool).collect()
}

/// Asks until it knows enough; `None` for another's name.
pub(super) fn call(name: &str, request: OfferRequest<'_>) -> Option<Result<Value, OfferFault>> {
    let confirm = || vec![("confirm", field("Please confirm.", "ok", "boolean"))];
    let (questions, remembers) = match name {
        "test_missing_capability" => (vec![("word", ask_model("Say a word.", 10))], false),
        "test_streaming_elicitation" => {
            // What is told makes the answer a stream, and a refusal must not be one.
            if request.assistant.can("elicitation") {
                request.assistant.progress(0, 1, "");
            }
            (confirm(), false)
        }
        "test_input_required_result_elicitation" => (vec![("user_name", name_of_user())], false),
        "test_input_required_result_sampling" => {
            (vec![("capital_question", ask_model("What is the capital of France?", 100))], false)
        }
        "test_input_required_result_list_roots" => (vec![("client_roots", roots())], false),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            (confirm(), true)
        }
        "test_input_required_result_multiple_inputs" => {
            let greeting = ask_model("Generate a greeting", 50);
            let all = [("user_name", name_of_user()), ("greeting", greeting), ("client_roots", roots())];
            (all.to_vec(), true)
        }
        "test_input_required_result_multi_round" => return Some(two_rounds(name, request)),
        "test_input_required_result_capabilities" => (what_it_can(request), false),
        _ => return None,
    };
    Some(one_round(name, request, questions, remembers))
}

fn name_of_user() -> Value {
    field("What is your name?", "name", "string")
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// A question to the person for one thing.
pub(super) fn field(message: &str, name: &str, kind: &str) -> Value {
    let schema = json!({ "properties": { name: { "type": kind } }, "required": [name] });
    ask_person(message, schema)
}

fn what_it_can(request: OfferRequest<'_>) -> Questions {
    let mut all = vec![
        ("greeting", ask_model("Generate a greeting", 50)),
        ("confirm", field("Please confirm.", "ok", "boolean")),
    ];
    let can = |question: &Value| request.assistant.can(capability(question));
    if all.iter().any(|(_, question)| can(question)) {
        all.retain(|(_, question)| can(question));
    }
    all
}

fn one_round(
    name: &str,
    request: OfferRequest<'_>,
    questions: Questions,
    remembers: bool,
) -> Result<Value, OfferFault> {
    let known = !remembers || brought(name, request)?.is_some();
    if !known || questions.iter().any(|(key, _)| said(request, key).is_none()) {
        return ask(request, questions, remembers.then(|| request.assistant.seal(name, b"")));
    }
    Ok(words(match said(request, "user_name") {
        Some(said) => format!("Hello, {}!", said["content"]["name"].as_str().unwrap_or("whoever you are")),
        None if remembers => "state-ok".to_owned(),
        None => request.params["inputResponses"].to_string(),
    }))
}

/// Asks for a name, then for a colour; the name comes back in what was sealed.
fn two_rounds(tool: &str, request: OfferRequest<'_>) -> Result<Value, OfferFault> {
    let content = |key, field: &str| {
        said(request, key).map(|said| said["content"][field].as_str().unwrap_or_default().to_owned())
    };
    let remember = |what: &Value| Some(request.assistant.seal(tool, what.to_string().as_bytes()));
    let state = brought(tool, request)?;
    let state = state.map(|state| serde_json::from_slice(&state).unwrap_or(Value::Null));
    let name = match state {
        // After the first round it is there, and null.
        Some(Value::Null) => content("step1", "name"),
        Some(Value::String(name)) => Some(name),
        _ => None,
    };
    let Some(name) = name else {
        let question = field("Step 1: What is your name?", "name", "string");
        return ask(request, vec![("step1", question)], remember(&Value::Null));
    };
    let Some(color) = content("step2", "color") else {
        let question = field("Step 2: What is your favorite color?", "color", "string");
        return ask(request, vec![("step2", question)], remember(&json!(name)));
    };
    Ok(words(format!("{name} likes {color}.")))
}

/// What was sealed for the client and came back; what does not open is refused.
fn brought(tool: &str, request: OfferRequest<'_>) -> Result<Option<Vec<u8>>, OfferFault> {
    let Some(sealed) = request.params.get("requestState") else { return Ok(None) };
    let opened = sealed.as_str().and_then(|sealed| request.assistant.open(tool, sealed));
    opened.map(Some).ok_or_else(|| wrong("params.requestState", "is none of ours, or too old"))
}

/// What the client answers to a question, if it does.
pub(super) fn said<'a>(request: OfferRequest<'a>, key: &str) -> Option<&'a Value> {
    request.params.get("inputResponses")?.get(key).filter(|said| said.is_object())
}

/// What a client must be able to do to answer it: the first word of the method.
fn capability(question: &Value) -> &str {
    let method = question["method"].as_str().unwrap_or_default();
    method.split('/').next().unwrap_or_default()
}

/// A result that asks, if the client can answer.
pub(super) fn ask(
    request: OfferRequest<'_>,
    questions: Questions,
    state: Option<String>,
) -> Result<Value, OfferFault> {
    if !request.assistant.is_modern() {
        return Err(wrong("params.name", "asks by its answer, which this revision does not know"));
    }
    let lacking: Map<_, _> = questions
        .iter()
        .map(|(_, question)| capability(question))
        .filter(|capability| !request.assistant.can(capability))
        .map(|capability| (capability.to_owned(), json!({})))
        .collect();
    if !lacking.is_empty() {
        let problem = Problem::new(Code::BadRequest, "The client cannot do what is needed.");
        let more = Map::from_iter([("requiredCapabilities".to_owned(), lacking.into())]);
        return Err(OfferFault { code: MISSING_CAPABILITY, problem, more });
    }
    let questions: Map<_, _> =
        questions.into_iter().map(|(key, question)| (key.to_owned(), question)).collect();
    let mut result = json!({ "resultType": "input_required", "inputRequests": questions });
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    Ok(result)
}
