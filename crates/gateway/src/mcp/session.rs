//! What a client said of itself in the handshake, sealed and given back to it: no server keeps it.

use http::{HeaderMap, HeaderName, HeaderValue};
use portico_engine::Engine;
use portico_engine::input::{Fields, Node};
use portico_kernel::{Caller, Code, Problem, seconds};
use portico_store::Context;
use rmcp::model::ErrorCode;
use serde_json::{Map, Value, json};

use super::message::{RpcError, value};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a client may go by one handshake.
const LIFE_SECONDS: u64 = 30 * 24 * 3600;
/// What it must be known of later: whether it can ask the person.
const REMEMBERED: &str = "elicitation";

fn context(actor: &str) -> Context<'_> {
    Context { account: actor, row: "handshake", purpose: "assistant" }
}

/// The session of a client that said something worth remembering; every other has none.
pub(super) fn begin(engine: &Engine, caller: &Caller, params: &Fields) -> Option<HeaderValue> {
    let Some(Node::Object(capabilities)) = params.get("capabilities") else { return None };
    let Value::Object(modes) = value(capabilities.get(REMEMBERED)?.clone()) else { return None };
    // One that names no mode shows forms; nothing else of what it says is needed here.
    if !modes.is_empty() && !modes.get("form").is_some_and(Value::is_object) {
        return None;
    }
    let until = engine.clock.now() + seconds(LIFE_SECONDS);
    let said = json!({ REMEMBERED: { "form": {} } }).to_string();
    let (entropy, actor) = (engine.entropy.as_ref(), caller.actor());
    let sealed = engine.keyring.seal_token(entropy, context(&actor), until, said.as_bytes());
    HeaderValue::from_str(&sealed).ok()
}

/// What the client said in the handshake, if it brings that back. A session that is over is told so by 404, and the
/// client repeats the handshake.
pub(super) fn recall(
    engine: &Engine,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Map<String, Value>, RpcError> {
    let Some(sealed) = headers.get(SESSION) else { return Ok(Map::new()) };
    let open = || {
        let (actor, now) = (caller.actor(), engine.clock.now());
        let said = engine.keyring.open_token(context(&actor), now, sealed.to_str().ok()?).ok()?;
        serde_json::from_slice(&said).ok()
    };
    open().ok_or_else(|| {
        let message = "The session is over, or another's; begin anew with `initialize`.";
        RpcError::new(ErrorCode::INVALID_REQUEST, Problem::new(Code::NotFound, message))
    })
}
