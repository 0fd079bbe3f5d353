//! The frames of the socket, as `/frames.json` describes them.

use bytes::Bytes;
use portico_engine::Envelope;
use portico_engine::input::{Fields, Node, VALUES_MAX, parse_object, read};
use portico_events::{Frame, Resync};
use portico_kernel::{AccountId, Problem};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Letters of the id that a client gives a call or a subscription.
pub(crate) const ID_CHARACTERS_MAX: usize = 100;

/// Says who the client is, where the request could not. It must be the first frame, within 5 seconds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    /// The token.
    pub(crate) token: String,
    /// The account whose events to stream: a team that the person belongs to; left out, the caller's own.
    #[serde(default)]
    pub(crate) account_id: Option<String>,
}

/// Calls an operation by its name. It is answered by an `answer` or an `error` of the same id, in whatever order calls end.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallFrame {
    /// Names the call; it must not be that of a call under way.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) id: String,
    /// The operation's name: `x-platform-rpc` in the OpenAPI document.
    pub(crate) method: String,
    /// The operation's fields, path variables included.
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    #[expect(dead_code, reason = "taken out before the rest is read, because it is read more strictly")]
    pub(crate) params: Option<IgnoredAny>,
    /// Makes the call safe to repeat, where the operation takes one.
    #[serde(default)]
    pub(crate) idempotency_key: Option<String>,
}

/// Subscribes to the account's events. It is answered by an `answer` that holds the cursor to resume from, and then by
/// `event` frames. A socket has one subscription at a time, and subscribing counts in the minute like a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subscribe {
    /// Names the subscription.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) id: String,
    /// The types to be sent; left out, all of them.
    #[serde(default)]
    pub(crate) types: Vec<String>,
    /// Where to begin: a cursor, or the id of an event; left out, with what comes from now on.
    #[serde(default)]
    pub(crate) after: Option<String>,
}

/// Ends a subscription. It is answered by an `answer`, after which no more `event` comes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unsubscribe {
    /// The id of the subscription.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) id: String,
}

/// Takes a call back. If it is still under way it is answered by an `error` with the code `cancelled`; a write may have
/// been done all the same.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// The id of the call.
    #[schemars(length(min = 1, max = 100))]
    pub(crate) id: String,
}

/// The envelope of a refusal, which the documents hold already.
fn problem_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/$defs/Problem" })
}

/// What a client sends.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(dead_code, reason = "its schema is the contract; frames are read one type at a time, strictly")]
pub(crate) enum ClientFrame {
    /// Says who the client is.
    Auth(Auth),
    /// Calls an operation.
    Call(CallFrame),
    /// Subscribes to events.
    Subscribe(Subscribe),
    /// Ends a subscription.
    Unsubscribe(Unsubscribe),
    /// Takes a call back.
    Cancel(Cancel),
}

/// A frame as it was read.
pub(crate) enum InboundFrame {
    Auth(Auth),
    Call(CallFrame, Fields),
    Subscribe(Subscribe),
    Unsubscribe(Unsubscribe),
    Cancel(Cancel),
}

/// A frame that does not read, and the id to answer it with.
pub(crate) struct FrameError {
    pub(crate) id: String,
    pub(crate) problem: Problem,
}

impl InboundFrame {
    /// Reads a frame, as strictly as any request.
    pub(crate) fn read(text: &[u8]) -> Result<Self, FrameError> {
        let mut fields = parse_object(text, VALUES_MAX)
            .map_err(|fault| FrameError { id: String::new(), problem: fault.into() })?;
        let id = match fields.get("id") {
            Some(Node::Text(id)) if (1..=ID_CHARACTERS_MAX).contains(&id.chars().count()) => id.clone(),
            _ => String::new(),
        };
        let read = Self::read_fields(&mut fields, &id);
        read.map_err(|problem| FrameError { id, problem })
    }

    fn read_fields(fields: &mut Fields, id: &str) -> Result<Self, Problem> {
        let Some(Node::Text(kind)) = fields.remove("type") else {
            return Err(Problem::field("type", "must name the kind of frame"));
        };
        if kind != "auth" && id.is_empty() {
            return Err(Problem::field("id", format!("must be 1 to {ID_CHARACTERS_MAX} characters")));
        }
        let params = if kind == "call" { fields.remove("params") } else { None };
        let fields = std::mem::take(fields);
        Ok(match kind.as_str() {
            "auth" => Self::Auth(read(fields)?),
            "call" => {
                let params = match params {
                    None | Some(Node::Null) => Fields::new(),
                    Some(Node::Object(params)) => params,
                    Some(_) => return Err(Problem::field("params", "must be an object")),
                };
                Self::Call(read(fields)?, params)
            }
            "subscribe" => Self::Subscribe(read(fields)?),
            "unsubscribe" => Self::Unsubscribe(read(fields)?),
            "cancel" => Self::Cancel(read(fields)?),
            _ => return Err(Problem::field("type", "is no kind of frame that a client sends")),
        })
    }
}

/// What holds for this connection. It is the first frame, once the client is known.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ready {
    /// The account whose events are streamed.
    pub(crate) account_id: AccountId,
    /// How often the server pings, in seconds.
    pub(crate) ping_seconds: u64,
    /// After how many seconds without a byte from the client it is closed; a pong is enough.
    pub(crate) idle_seconds: u64,
    /// After how many seconds it is closed in any case.
    pub(crate) life_seconds: u64,
    /// How many calls may be under way at once.
    pub(crate) calls_max: usize,
    /// The largest frame that is taken, in bytes.
    pub(crate) frame_bytes_max: usize,
}

/// The result of a call, of a subscription or of its end.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AnswerFrame {
    /// The id that the client gave.
    pub(crate) id: String,
    /// What the operation answers over REST; for a subscription `{cursor}`.
    pub(crate) result: Value,
}

/// A refusal.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorFrame {
    /// The id that the client gave; empty when the frame could not be read so far.
    pub(crate) id: String,
    #[schemars(schema_with = "problem_schema")]
    pub(crate) problem: Value,
}

/// An event.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EventFrame {
    /// The place after this event, to resume from.
    pub(crate) cursor: String,
    /// The envelope: `id`, `type`, `occurred_at`, `account_id` and `data`.
    #[schemars(with = "Envelope<Map<String, Value>>")]
    pub(crate) event: Value,
}

/// The connection is about to be closed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Closing {
    /// Why, in a sentence.
    pub(crate) reason: String,
    /// May the client come back at once?
    pub(crate) retry: bool,
}

/// What the server sends.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(
    dead_code,
    reason = "its schema is the contract; what holds JSON already is written around it below"
)]
pub(crate) enum ServerFrame {
    /// What holds for this connection.
    Ready(Ready),
    /// The result of a call.
    Answer(AnswerFrame),
    /// A refusal.
    Error(ErrorFrame),
    /// An event.
    Event(EventFrame),
    /// Events were missed: what was asked for is not kept any more.
    Resync(Resync),
    /// The connection is about to be closed.
    Closing(Closing),
}

impl ServerFrame {
    pub(crate) fn text(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// An [`AnswerFrame`] whose result is JSON already.
pub(crate) fn answer(id: &str, result: &[u8]) -> Bytes {
    carrying("answer", id, "result", result)
}

/// An [`ErrorFrame`] around a `Problem` that is JSON already: the frame's id names the call, so the envelope names none.
pub(crate) fn error(id: &str, problem: &[u8]) -> Bytes {
    carrying("error", id, "problem", problem)
}

fn carrying(kind: &str, id: &str, name: &str, json: &[u8]) -> Bytes {
    let id = serde_json::to_string(id).unwrap_or_default();
    let head = format!(r#"{{"type":"{kind}","id":{id},"{name}":"#);
    [head.as_bytes(), json, b"}"].concat().into()
}

/// An [`EventFrame`], written once for everyone.
pub(crate) fn event(frame: &Frame) -> Bytes {
    let head = format!(r#"{{"type":"event","cursor":"{}","event":"#, frame.cursor());
    [head.as_bytes(), &frame.envelope, b"}"].concat().into()
}
