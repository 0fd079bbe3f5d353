//! MCP: the operations as tools for assistants, at `/mcp`.
//!
//! One request is one answer: no server keeps anything between two of them. The way of a message is: the page's origin and
//! the token (`auth.rs`), the message (`message.rs`), the revision it speaks (`revision.rs`), then a method of the protocol or a
//! tool (`call.rs`), whose operation runs as over REST. While it runs, something may be told or asked
//! (`exchange.rs`); then the answer is a stream.
//!
//! How an assistant calls a tool:
//!
//! 1. `Tools::new` has read the registry at the start: every operation whose `SPEC` says `.tool(..)` is one. Its
//!    description is the doc comment, its schemas are the types (`schema.rs`), its scopes follow from its method and
//!    category.
//! 2. `POST /mcp` is routed like any operation, and `Mcp::handle_mcp` (`handle.rs`) takes it from there. `auth.rs`
//!    checks the origin of the page and the token. Without a token, 401 says where to get one.
//! 3. The body is read by the strict reader of every other request, into a JSON-RPC message (`message.rs`). From here
//!    on a refusal is an error of the protocol that holds the `Problem`. `Revision::of` finds the revision, and checks
//!    that the headers agree with the body.
//! 4. `Mcp::admit_tool` (`call.rs`) finds the tool. A missing scope is 403, and names every scope that the token would
//!    need. Then the call is admitted as over REST (`Calls::admit_named`). Of a tool that an area offers, the name says
//!    which operation it calls (`Offer::operation_of`), so `Mcp::admit_offered` admits the call first, and only then
//!    asks the area for the tool.
//! 5. `request_approval` (`approval.rs`) asks the person first, if the call cannot be undone and the client can ask.
//! 6. `Calls::run` runs the operation with the options of tools: pages of 20 items, a byte budget for each page,
//!    progress, and a rollback if the client disconnects. If anything is sent before the answer, the answer becomes a
//!    stream (`stream.rs`).
//! 7. `ResultWriter` (`results.rs`) writes the answer as JSON and as text, shortens what is too long (`cut.rs`) and says
//!    how to go on. A refusal of the operation is a result too, so that the model can mend its call.

mod approval;
mod auth;
mod call;
mod cut;
mod exchange;
mod handle;
mod listen;
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

use arc_swap::ArcSwap;
use http::HeaderValue;
use portico_engine::Offer;
use portico_identity::Identity;
use rmcp::model::Implementation;
use serde_json::json;

use self::questions::Questions;
use self::running::RunningCalls;
pub(crate) use self::tools::Tools;
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
    tools: ArcSwap<Tools>,
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
            tools: ArcSwap::from_pointee(Tools::new(&registry.catalog())),
            offers: registry.offers().to_vec(),
            questions: Questions::default(),
            running: Arc::default(),
        })
    }

    /// From now on these are the tools.
    pub(crate) fn set_tools(&self, tools: Tools) {
        self.tools.store(Arc::new(tools));
    }
}
