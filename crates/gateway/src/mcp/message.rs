//! A message of JSON-RPC, and the answer to it.

use std::fmt;

use bytes::Bytes;
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use portico_engine::input::{Fields, Node, VALUES_MAX, parse_object};
use portico_kernel::{Code, Problem};
use portico_store::Queries;
use rmcp::model::{ErrorCode, ErrorData};
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::response;

/// The id of a request, as JSON: a string or a whole number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(crate) String);

impl Id {
    /// The longest id, and the longest name that progress is told under: they are kept as long as the call runs.
    pub(crate) const BYTES_MAX: usize = 256;

    pub(crate) fn read(node: &Node) -> Option<Self> {
        match node {
            Node::Text(text) if text.len() <= Self::BYTES_MAX => {
                Some(Self(Value::from(text.as_str()).to_string()))
            }
            Node::Int(number) => Some(Self(number.to_string())),
            Node::Big(number) => Some(Self(number.to_string())),
            _ => None,
        }
    }
}

/// As much of a message as is needed to answer it.
#[derive(Deserialize)]
struct Envelope {
    id: Option<Id>,
}

/// Reads nothing but an id: one that is no id may be as large as a message.
impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;

        impl Visitor<'_> for IdVisitor {
            type Value = Option<Id>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id")
            }

            fn visit_i64<E>(self, id: i64) -> Result<Option<Id>, E> {
                Ok(Id::read(&Node::Int(id)))
            }

            fn visit_u64<E>(self, id: u64) -> Result<Option<Id>, E> {
                Ok(Id::read(&Node::Big(id)))
            }

            fn visit_str<E>(self, id: &str) -> Result<Option<Id>, E> {
                Ok(Id::read(&Node::Text(id.to_owned())))
            }
        }

        let id = deserializer.deserialize_any(IdVisitor)?;
        id.ok_or_else(|| D::Error::custom("the id is too long"))
    }
}

/// What a client sends.
pub(crate) enum Message {
    /// A request, which is answered.
    Request { id: Id, method: String, params: Fields },
    /// A notification, which is not.
    Notification { method: String, params: Fields },
    /// What the client answers to a question of ours: its result, or `None` for an error.
    Answer { id: Id, result: Option<Node> },
}

impl Message {
    /// Reads a message. One that does not read is refused under its id, if at least that reads.
    pub(crate) fn read(text: &[u8]) -> Result<Self, (Option<Id>, Problem)> {
        let read = parse_object(text, VALUES_MAX).map_err(Problem::from).and_then(Self::of);
        read.map_err(|problem| {
            let loosely = serde_json::from_slice::<Envelope>(text).ok();
            (loosely.and_then(|envelope| envelope.id), problem)
        })
    }

    fn of(mut fields: Fields) -> Result<Self, Problem> {
        if fields.remove("jsonrpc") != Some(Node::Text("2.0".to_owned())) {
            return Err(Problem::field("jsonrpc", "must be \"2.0\""));
        }
        let id = fields.remove("id").map(|id| Id::read(&id).ok_or(id)).transpose();
        let id =
            id.map_err(|_| Problem::field("id", "must be a whole number, or a string of at most 256 bytes"))?;
        let Some(method) = fields.remove("method") else {
            let id = id.ok_or_else(|| Problem::field("method", "is missing"))?;
            return match (fields.remove("result"), fields.contains_key("error")) {
                (Some(result), false) => Ok(Self::Answer { id, result: Some(result) }),
                (None, true) => Ok(Self::Answer { id, result: None }),
                _ => Err(Problem::field("method", "is missing")),
            };
        };
        let Node::Text(method) = method else {
            return Err(Problem::field("method", "must be a string"));
        };
        let params = match fields.remove("params") {
            None | Some(Node::Null) => Fields::new(),
            Some(Node::Object(params)) => params,
            Some(_) => return Err(Problem::field("params", "must be an object")),
        };
        Ok(match id {
            Some(id) => Self::Request { id, method, params },
            None => Self::Notification { method, params },
        })
    }
}

/// A refusal to a request whose id is known: an error of the protocol, which holds the `Problem`.
#[derive(Debug)]
pub(crate) struct RpcError {
    pub(crate) code: ErrorCode,
    pub(crate) problem: Problem,
    /// The status, where it is not the one of the problem.
    pub(crate) status: Option<StatusCode>,
    /// What the protocol wants beside the problem.
    pub(crate) more: Map<String, Value>,
    pub(crate) challenge: Option<HeaderValue>,
}

impl RpcError {
    pub(crate) fn new(code: ErrorCode, problem: Problem) -> Self {
        Self { code, problem, status: None, more: Map::new(), challenge: None }
    }

    /// What the headers and the body say does not fit together.
    pub(crate) fn mismatch(message: String) -> Self {
        Self::new(ErrorCode::HEADER_MISMATCH, Problem::new(Code::BadRequest, message))
    }

    /// A parameter does not fit.
    pub(crate) fn params(problem: Problem) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, problem)
    }

    pub(crate) fn no_method(method: &str) -> Self {
        let method: String = method.chars().take(100).collect();
        let message = format!("There is no method `{method}` here.");
        Self::new(ErrorCode::METHOD_NOT_FOUND, Problem::new(Code::NotFound, message))
    }

    /// The same for a client of that revision: one with a handshake reads a protocol error only if the status is 200.
    pub(crate) fn for_revision(mut self, is_stateless: bool) -> Self {
        let of_protocol = matches!(
            self.code,
            ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_PARAMS | ErrorCode::RESOURCE_NOT_FOUND
        );
        if of_protocol && !is_stateless {
            self.status = Some(StatusCode::OK);
        }
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        let of_problem = StatusCode::from_u16(self.problem.code().status());
        self.status.unwrap_or_else(|| of_problem.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }

    /// The answer's text.
    pub(crate) fn text(&self, id: &Id, request_id: &str) -> Bytes {
        let mut data =
            serde_json::from_slice(&self.problem.to_json(request_id)).unwrap_or_else(|_| json!({}));
        if let Some(data) = data.as_object_mut() {
            data.extend(self.more.clone());
        }
        let error = ErrorData::new(self.code, self.problem.error().to_owned(), Some(data));
        answer(id, "error", &json!(error).to_string())
    }

    pub(crate) fn response(self, id: &Id, request_id: &str) -> Response<Bytes> {
        let mut response = RpcOutcome::refused(&self, id, request_id).response();
        response.headers_mut().extend(self.challenge.map(|value| (WWW_AUTHENTICATE, value)));
        response
    }
}

/// How a request ended.
pub(crate) struct RpcOutcome {
    /// The whole answer.
    pub(crate) text: Bytes,
    pub(crate) status: StatusCode,
    /// The code of a refusal, for the request log.
    pub(crate) code: Option<Code>,
    pub(crate) queries: Queries,
    pub(crate) retry_seconds: Option<i64>,
}

impl RpcOutcome {
    pub(crate) fn done(id: &Id, result: &str) -> Self {
        Self::answered(answer(id, "result", result))
    }

    /// An answer that is written already.
    pub(crate) fn answered(text: Bytes) -> Self {
        Self { text, status: StatusCode::OK, code: None, queries: Queries::default(), retry_seconds: None }
    }

    pub(crate) fn refused(error: &RpcError, id: &Id, request_id: &str) -> Self {
        let (problem, text) = (&error.problem, error.text(id, request_id));
        let (code, retry_seconds) = (Some(problem.code()), problem.retry_seconds());
        Self { text, status: error.status(), code, queries: Queries::default(), retry_seconds }
    }

    pub(crate) fn response(self) -> Response<Bytes> {
        let mut response = response::json(self.status, self.text);
        let retry = self.retry_seconds.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds)));
        response.headers_mut().extend(retry);
        response
    }
}

/// A refusal of the platform at the protocol's own level, which has a status of its own.
impl From<Problem> for RpcError {
    fn from(problem: Problem) -> Self {
        let code = match problem.code() {
            Code::Internal => ErrorCode::INTERNAL_ERROR,
            // Codes of our own lie outside of what JSON-RPC and the protocol keep for themselves.
            code => ErrorCode(i32::from(code.status())),
        };
        Self::new(code, problem)
    }
}

/// An answer whose `member`, the result or the error, is written already.
pub(crate) fn answer(id: &Id, member: &str, text: &str) -> Bytes {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{member}\":{text}}}", id.0).into()
}

/// A part of a message as JSON.
pub(crate) fn value(node: Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => value.into(),
        Node::Int(value) => value.into(),
        Node::Big(value) => value.into(),
        Node::Float(value) => value.into(),
        Node::Text(value) => value.into(),
        Node::Texts(words) => words.into(),
        Node::List(items) => items.into_iter().map(value).collect(),
        Node::Object(fields) => object(fields),
    }
}

/// An object of a message as JSON.
pub(crate) fn object(fields: Fields) -> Value {
    Value::Object(fields.into_iter().map(|(name, node)| (name, value(node))).collect())
}
