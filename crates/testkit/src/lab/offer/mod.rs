//! What MCP's conformance suite asks for by name: tools, prompts and resources that the platform itself does not have.
//! They come to it on the way that the platform's own tools go.

mod asking;
mod prompts;
mod resources;
mod rounds;
mod tools;

use futures_util::future::BoxFuture;
use portico_engine::{Offer, OfferFault, OfferRequest};
use portico_kernel::Problem;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

/// The protocol's code for parameters that do not fit.
const INVALID_PARAMS: i32 = -32602;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// How many changes may wait for one who listens.
const CHANGES_MAX: usize = 16;
/// An image of one white dot.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==";

/// A list that clients can hear of when it changes.
#[derive(Clone, Copy)]
enum List {
    Tools,
    Prompts,
}

impl List {
    const ALL: [Self; 2] = [Self::Tools, Self::Prompts];

    /// What a client asks for to hear of it.
    const fn asked_by(self) -> &'static str {
        match self {
            Self::Tools => "toolsListChanged",
            Self::Prompts => "promptsListChanged",
        }
    }

    /// What tells of a change.
    const fn told_by(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
        }
    }
}

/// The fixtures of the conformance suite.
pub(super) struct Fixtures {
    changes: broadcast::Sender<List>,
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

    fn tools(&self) -> Vec<Value> {
        [tools::list(), asking::list(), rounds::list()].concat()
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
                ("subscriptions/listen", true) if request.assistant.hears() => Ok(self.listen(request).await),
                _ => return None,
            })
        })
    }
}

impl Fixtures {
    async fn call(&self, request: OfferRequest<'_>) -> Result<Value, OfferFault> {
        match named(request) {
            "test_trigger_tool_change" => Ok(self.change(List::Tools)),
            "test_trigger_prompt_change" => Ok(self.change(List::Prompts)),
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
    fn change(&self, list: List) -> Value {
        // That nobody listens is no failure.
        let _ = self.changes.send(list);
        words("Those who listen are told.")
    }

    /// Tells of changes until the client goes away.
    async fn listen(&self, request: OfferRequest<'_>) -> Value {
        // Before the client hears that it listens, so that it misses nothing from then on.
        let mut changes = self.changes.subscribe();
        let asked = &request.params["notifications"];
        let wanted = |list: List| asked[list.asked_by()] == true;
        let taken: Map<_, _> = List::ALL
            .into_iter()
            .filter(|list| wanted(*list))
            .map(|list| (list.asked_by().to_owned(), json!(true)))
            .collect();
        let meta = json!({ SUBSCRIPTION: request.id });
        request.assistant.tell(
            "notifications/subscriptions/acknowledged",
            json!({ "_meta": meta, "notifications": taken }),
        );
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = request.assistant.stopped() => return json!({ "_meta": meta }),
            };
            match change {
                Ok(list) if wanted(list) => request.assistant.tell(list.told_by(), json!({ "_meta": meta })),
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return json!({ "_meta": meta }),
            }
        }
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
