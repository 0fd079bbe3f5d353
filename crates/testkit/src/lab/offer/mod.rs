//! What MCP's conformance suite asks for by name: tools, prompts and resources that the platform itself does not have.
//! They come to it on the way that the platform's own tools go.

mod asking;
mod prompts;
mod resources;
mod rounds;
mod tools;

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use portico_engine::{Engine, Offer, OfferFault, OfferRequest, OfferedList};
use portico_kernel::{Caller, Problem};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

/// The protocol's code for parameters that do not fit.
const INVALID_PARAMS: i32 = -32602;
/// How many changes may wait for one who listens.
const CHANGES_MAX: usize = 16;
/// An image of one white dot.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==";

/// The fixtures of the conformance suite.
pub(super) struct Fixtures {
    changes: broadcast::Sender<OfferedList>,
}

impl Default for Fixtures {
    fn default() -> Self {
        Self { changes: broadcast::Sender::new(CHANGES_MAX) }
    }
}

impl Offer for Fixtures {
    fn capabilities(&self) -> Map<String, Value> {
        Map::from_iter([
            ("tools".to_owned(), json!({ "listChanged": true })),
            ("prompts".to_owned(), json!({ "listChanged": true })),
            ("resources".to_owned(), json!({ "subscribe": true })),
            ("completions".to_owned(), json!({})),
            ("logging".to_owned(), json!({})),
        ])
    }

    fn tools<'a>(
        &'a self,
        _: &'a Arc<Engine>,
        _: &'a Arc<Caller>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Problem>> {
        Box::pin(ready(Ok([tools::list(), asking::list(), rounds::list()].concat())))
    }

    fn changes(&self, _: &Caller) -> Option<BoxStream<'static, OfferedList>> {
        Some(Box::pin(unfold(self.changes.subscribe(), async |mut changes| {
            loop {
                match changes.recv().await {
                    Ok(list) => return Some((list, changes)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })))
    }

    fn answer<'a>(&'a self, request: OfferRequest<'a>) -> BoxFuture<'a, Option<Result<Value, OfferFault>>> {
        Box::pin(async move {
            Some(match (request.method, request.assistant.is_modern()) {
                ("tools/call", _) => self.call(request).await,
                ("prompts/list", _) => Ok(prompts::list()),
                ("prompts/get", _) => prompts::get(request),
                ("completion/complete", _) => Ok(prompts::complete(request)),
                ("resources/list", _) => Ok(resources::list()),
                ("resources/templates/list", _) => Ok(resources::templates()),
                ("resources/read", _) => resources::read(request),
                // Nothing is kept between two requests, and these resources never change.
                ("logging/setLevel" | "resources/subscribe" | "resources/unsubscribe", false) => {
                    Ok(json!({}))
                }
                _ => return None,
            })
        })
    }
}

impl Fixtures {
    async fn call(&self, request: OfferRequest<'_>) -> Result<Value, OfferFault> {
        match named(request) {
            "test_trigger_tool_change" => Ok(self.change(OfferedList::Tools)),
            "test_trigger_prompt_change" => Ok(self.change(OfferedList::Prompts)),
            name => {
                if let Some(result) = tools::call(name, request).await {
                    return Ok(result);
                }
                if let Some(answered) = asking::call(name, request).await {
                    return answered;
                }
                rounds::call(name, request).unwrap_or_else(|| Err(wrong("params.name", "is no tool's")))
            }
        }
    }

    /// Says that a list changed. It need not: those who listen read it again anyway.
    fn change(&self, list: OfferedList) -> Value {
        // That nobody listens is no failure.
        let _ = self.changes.send(list);
        words("Those who listen are told.")
    }
}

/// What the request names.
fn named(request: OfferRequest<'_>) -> &str {
    request.params["name"].as_str().unwrap_or_default()
}

/// A string among the arguments, which must be there.
fn argument<'a>(request: OfferRequest<'a>, name: &str) -> Result<&'a str, OfferFault> {
    let given = request.params["arguments"][name].as_str();
    given.ok_or_else(|| wrong(&format!("params.arguments.{name}"), "must be a string"))
}

/// A refusal: a parameter does not fit.
fn wrong(field: &str, description: &str) -> OfferFault {
    OfferFault { code: INVALID_PARAMS, problem: Problem::field(field, description), more: Map::new() }
}

/// A tool that takes no arguments, as it is listed.
fn tool((name, description): (&str, &str)) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object", "properties": {} } })
}

/// The result of a tool that says one thing.
fn words(text: impl Into<String>) -> Value {
    json!({ "content": [text_part(text)] })
}

fn text_part(text: impl Into<String>) -> Value {
    json!({ "type": "text", "text": text.into() })
}

fn image_part() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn resource_part(uri: &str, mime_type: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime_type, "text": text } })
}
