//! What cannot be undone is asked of the person first, where the client can ask.

use portico_engine::Assistant as _;
use portico_engine::input::{Fields, Node, fingerprint};
use portico_kernel::{Code, Problem, hex};
use serde_json::{Value, json};

use super::exchange::Exchange;
use super::message::{RpcError, value};
use super::schema::IDEMPOTENCY_KEY;

/// The name of the one question.
const QUESTION: &str = "approval";
/// How much of a value is repeated in the question, and of all of them.
const VALUE_CHARACTERS_MAX: usize = 80;
const VALUES_CHARACTERS_MAX: usize = 400;

/// What came of asking.
pub(super) enum Approval {
    /// Go on, and keep the answer under this key if the client gave none: one approval is good for one call.
    Granted(Option<String>),
    /// The client is to ask, and to call again with the answer.
    InputRequired(Value),
    /// Nobody could be asked.
    Unavailable(Problem),
    /// The person does not want it.
    Declined,
}

/// What there is to approve: a call whose arguments the operation takes.
pub(super) struct IrreversibleCall {
    /// The call itself: the tool and its arguments.
    of: String,
    /// What the person reads.
    message: String,
}

impl IrreversibleCall {
    /// The call of a tool that cannot be undone.
    pub(super) fn new(name: &str, title: &str, arguments: &Fields) -> Self {
        let of = format!("approval {name} {}", hex(&fingerprint(arguments)));
        let shown = arguments.iter().filter(|(name, _)| *name != IDEMPOTENCY_KEY);
        let shown = shown.map(|(name, node)| format!("{name} = {}", shown_value(node)));
        let shown: String =
            shown.collect::<Vec<_>>().join(", ").chars().take(VALUES_CHARACTERS_MAX).collect();
        Self { of, message: format!("{title}: {shown}. It cannot be undone. Shall it be done?") }
    }

    fn question(&self) -> Value {
        json!({
            "mode": "form",
            "message": self.message,
            "requestedSchema": {
                "type": "object",
                "properties": { "approve": { "type": "boolean", "title": "Yes, do it", "default": false } },
                "required": ["approve"],
            },
        })
    }
}

/// A value as a person reads it. A model wrote it: nothing in it may pass for our own text.
fn shown_value(node: &Node) -> String {
    let value = value(node.clone());
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let plain = |letter: &char| letter.is_alphanumeric() || (letter.is_ascii_graphic() && *letter != '`');
    let text: String = text.chars().filter(plain).take(VALUE_CHARACTERS_MAX).collect();
    format!("`{text}`")
}

/// What the client brings back from asking.
pub(super) struct ElicitationReply {
    responses: Option<Node>,
    state: Option<Node>,
}

impl ElicitationReply {
    /// Takes it out of a request's parameters.
    pub(super) fn take(params: &mut Fields) -> Self {
        Self { responses: params.remove("inputResponses"), state: params.remove("requestState") }
    }
}

/// May it be done? Asks the person, if the client can ask.
pub(super) async fn request_approval(
    exchange: &Exchange,
    call: &IrreversibleCall,
    reply: ElicitationReply,
) -> Result<Approval, RpcError> {
    if !can_ask(exchange) {
        return Ok(Approval::Granted(None));
    }
    if !exchange.revision.is_stateless {
        // It can bring nothing back, and the wait may be long.
        drop(reply);
        return Ok(match exchange.ask("elicitation/create", call.question()).await {
            Ok(answer) if is_yes(&answer) => Approval::Granted(None),
            Ok(_) => Approval::Declined,
            Err(problem) => Approval::Unavailable(problem),
        });
    }
    let answer = match reply.responses {
        Some(Node::Object(mut responses)) => responses.remove(QUESTION).map(value),
        _ => None,
    };
    let (Some(answer), Some(state)) = (answer, reply.state) else {
        let nonce: [u8; 16] = exchange.engine().entropy.bytes();
        return Ok(Approval::InputRequired(json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: { "method": "elicitation/create", "params": call.question() } },
            "requestState": exchange.seal(&call.of, hex(&nonce).as_bytes()),
        })));
    };
    let nonce = match state {
        Node::Text(state) => exchange.open(&call.of, &state).and_then(|nonce| String::from_utf8(nonce).ok()),
        _ => None,
    };
    let nonce = nonce.ok_or_else(|| {
        let message = "is not the state that this call was asked with, or too old; call again without it";
        RpcError::params(Problem::field("requestState", message))
    })?;
    Ok(if is_yes(&answer) {
        Approval::Granted(Some(format!("approval-{nonce}")))
    } else {
        Approval::Declined
    })
}

/// Can the client show a form?
fn can_ask(exchange: &Exchange) -> bool {
    let elicitation = exchange.revision.capabilities.get("elicitation").and_then(Value::as_object);
    // One that names no mode means forms.
    let shows_forms = elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
    // One with a handshake is asked on the stream of the call.
    shows_forms && (exchange.revision.is_stateless || exchange.hears())
}

fn is_yes(answer: &Value) -> bool {
    answer["action"] == "accept" && answer["content"]["approve"] == true
}

/// The refusal of a call that the person does not want.
pub(super) fn declined() -> Problem {
    Problem::new(Code::FailedPrecondition, "The person was asked and did not allow it.").with_info(
        "DECLINED",
        "mcp",
        [],
    )
}
