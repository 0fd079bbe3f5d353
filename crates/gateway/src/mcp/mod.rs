//! MCP: the operations as tools for assistants, at `/mcp`.
//!
//! One request is one answer: no server keeps anything between two of them. The way of a message is: the page's origin and
//! the token (`door.rs`), the message (`message.rs`), the revision it speaks (`era.rs`), then a method of the protocol or a
//! tool (`call.rs`), whose operation runs as over REST. While it runs, something may be told or asked
//! (`exchange.rs`); then the answer is a stream.

mod approval;
mod asks;
mod assist;
mod call;
mod door;
mod era;
mod exchange;
mod message;
mod methods;
mod results;
mod running;
mod schema;
mod session;
mod tools;

use std::sync::Arc;

use http::HeaderValue;
use portico_engine::{Ctx, Done, Engine, Offer, Operation, Protocol, Spec};
use portico_identity::Identity;
use portico_kernel::Problem;
use rmcp::model::Implementation;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use self::asks::Asks;
use self::running::Running;
use self::tools::Tools;
use crate::Platform;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Send a message of the Model Context Protocol.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PostMessage {}

impl Operation for PostMessage {
    const SPEC: Spec = Spec::post("platform.messages.answer", "/mcp").opens(Protocol::Mcp).undocumented();
    type Area = Platform;
    type Answer = Done;

    async fn run(self, _: &Platform, _: &mut Ctx) -> Result<Self::Answer, Problem> {
        Err(Problem::internal("messages of assistants are answered before they are dispatched"))
    }
}

/// What the server is to assistants.
pub(crate) struct Mcp {
    /// The origin of the API's own pages.
    origin: HeaderValue,
    metadata_url: String,
    info: Implementation,
    /// What every answer says of the server, as the JSON of its `_meta`.
    server: String,
    tools: Tools,
    offers: Vec<Arc<dyn Offer>>,
    asks: Asks,
    running: Arc<Running>,
}

impl Mcp {
    pub(crate) fn new(engine: &Engine, identity: &Identity) -> Result<Self, http::Error> {
        let info = Implementation::new("portico", env!("CARGO_PKG_VERSION")).with_title("Portico");
        Ok(Self {
            origin: HeaderValue::from_str(&identity.origin())?,
            metadata_url: identity.resource_metadata_url(),
            server: json!({ SERVER_INFO: info }).to_string(),
            info,
            tools: Tools::new(&engine.registry),
            offers: engine.registry.offers().to_vec(),
            asks: Asks::default(),
            running: Arc::default(),
        })
    }
}
