//! MCP: the operations as tools for assistants, at `/mcp`.
//!
//! One request is one answer: no server keeps anything between two of them. The way of a message is: the page's origin and
//! the token (`auth.rs`), the message (`message.rs`), the revision it speaks (`revision.rs`), then a method of the protocol or a
//! tool (`call.rs`), whose operation runs as over REST. While it runs, something may be told or asked
//! (`exchange.rs`); then the answer is a stream.

mod approval;
mod auth;
mod call;
mod exchange;
mod handle;
mod message;
mod methods;
mod questions;
mod request;
mod results;
mod revision;
mod running;
mod schema;
mod session;
mod stream;
mod tools;

use std::sync::Arc;

use http::HeaderValue;
use portico_engine::Offer;
use portico_identity::Identity;
use rmcp::model::Implementation;
use serde_json::json;

use self::questions::Questions;
use self::running::RunningCalls;
use self::tools::Tools;
use crate::calls::Calls;
use crate::cors::Origins;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What the server is to assistants.
pub(crate) struct Mcp {
    calls: Arc<Calls>,
    origins: Origins,
    /// The origin of the API's own pages.
    origin: HeaderValue,
    metadata_url: String,
    info: Implementation,
    /// What every answer says of the server, as the JSON of its `_meta`.
    server: String,
    tools: Tools,
    offers: Vec<Arc<dyn Offer>>,
    questions: Questions,
    running: Arc<RunningCalls>,
}

impl Mcp {
    pub(crate) fn new(
        calls: &Arc<Calls>,
        identity: &Identity,
        origins: &Origins,
    ) -> Result<Self, http::Error> {
        let info = Implementation::new("portico", env!("CARGO_PKG_VERSION")).with_title("Portico");
        let registry = &calls.engine.registry;
        Ok(Self {
            calls: calls.clone(),
            origins: origins.clone(),
            origin: HeaderValue::from_str(&identity.origin())?,
            metadata_url: identity.resource_metadata_url(),
            server: json!({ SERVER_INFO: info }).to_string(),
            info,
            tools: Tools::new(registry),
            offers: registry.offers().to_vec(),
            questions: Questions::default(),
            running: Arc::default(),
        })
    }
}
