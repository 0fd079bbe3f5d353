//! The protocol's own methods, and those that areas offer.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use portico_engine::input::Node;
use portico_engine::{OfferFault, OfferRequest};
use portico_kernel::{Caller, Problem};
use rmcp::model::{DiscoverResult, ErrorCode, InitializeResult, ProtocolVersion, ServerCapabilities};
use serde_json::{Map, Value, json};

use super::call::OfferedOperation;
use super::exchange::Exchange;
use super::message::{Id, RpcError, answer};
use super::request::RpcRequest;
use super::revision::SUPPORTED;
use super::{Mcp, SERVER_INFO, listen, session};
use crate::response;

/// How long a client may keep what it was told of the tools, in milliseconds: a token's scopes never change, a person's role
/// may.
const KEPT_MS: u32 = 60_000;

const INSTRUCTIONS: &str = "Every tool acts in the account of the token. Lists answer one page; go on with `page_token`. Repeat a write that got no answer \
    with the same `idempotency_key`. A refusal says which argument is wrong. Tools that are not shown need a \
    scope, which the person can allow when they connect again, or a role that the person does not have.";

fn done(id: &Id, result: &str) -> Response<Bytes> {
    response::json(StatusCode::OK, answer(id, "result", result))
}

impl Mcp {
    /// Answers the protocol's own methods; `None` for any other.
    pub(super) async fn own_method(
        &self,
        request: &RpcRequest<'_>,
    ) -> Result<Option<Response<Bytes>>, RpcError> {
        let caller = request.context.credential.caller();
        let response = match (request.method.as_str(), request.is_stateless()) {
            ("initialize", false) => self.initialize(request).await?,
            // Its answer is empty by the protocol's own schema.
            ("ping", false) => done(&request.id, "{}"),
            ("server/discover", true) => done(&request.id, &self.discovered(caller).await?),
            ("tools/list", is_stateless) => {
                if request.params.get("cursor").is_some_and(|cursor| *cursor != Node::Null) {
                    return Err(RpcError::params(Problem::field(
                        "params.cursor",
                        "is none of ours: there is one page",
                    )));
                }
                let offered: Vec<_> =
                    self.offered_tools(caller).await?.iter().map(Value::to_string).collect();
                let of_operations = self.tools.load_full();
                let mut tools = of_operations.listed(&self.calls.engine, caller).await?;
                tools.extend(offered.iter().map(String::as_str));
                done(&request.id, &self.listed(&tools, is_stateless))
            }
            _ => return Ok(None),
        };
        Ok(Some(response))
    }

    /// Answers the handshake of a client of an older revision.
    async fn initialize(&self, request: &RpcRequest<'_>) -> Result<Response<Bytes>, RpcError> {
        let Some(Node::Text(wanted)) = request.params.get("protocolVersion") else {
            return Err(RpcError::params(Problem::field("params.protocolVersion", "must name a revision")));
        };
        let (engine, caller) = (&self.calls.engine, request.context.credential.caller());
        let mut handshake_versions = SUPPORTED.iter().filter(|version| version.has_initialize());
        let same = handshake_versions.clone().find(|version| version.as_str() == wanted);
        let version = same.or_else(|| handshake_versions.next_back());
        // Nobody who shook hands can listen, since nothing is kept between two requests.
        let mut capabilities = self.capabilities()?;
        capabilities.tools.as_mut().map(|tools| tools.list_changed.take());
        capabilities.prompts.as_mut().map(|prompts| prompts.list_changed.take());
        let result = InitializeResult::new(capabilities)
            .with_server_info(self.info.clone())
            .with_instructions(self.instructions(caller).await?)
            .with_protocol_version(version.cloned().unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE));
        let mut response = done(&request.id, &json!(result).to_string());
        let session = session::begin(engine, caller, &request.params);
        response.headers_mut().extend(session.map(|session| (session::SESSION, session)));
        Ok(response)
    }

    async fn discovered(&self, caller: &Arc<Caller>) -> Result<String, Problem> {
        let mut result = json!(DiscoverResult::new(SUPPORTED.to_vec(), self.capabilities()?));
        result["instructions"] = json!(self.instructions(caller).await?);
        result["ttlMs"] = json!(KEPT_MS);
        result["_meta"] = json!({ SERVER_INFO: self.info });
        Ok(result.to_string())
    }

    /// What a model should know of the server, and of the tools that it does not see.
    async fn instructions(&self, caller: &Arc<Caller>) -> Result<String, Problem> {
        let subjects = self.calls.engine.registry.tool_subjects().join(", ");
        let mut instructions = format!("Tools of an account at this platform: {subjects}. {INSTRUCTIONS}");
        for (needed, names) in self.tools.load_full().hidden(&self.calls.engine, caller).await? {
            let names = names.join(", ");
            let _ = write!(instructions, " Not shown, for want of {needed}: {names}.");
        }
        Ok(instructions)
    }

    fn capabilities(&self) -> Result<ServerCapabilities, Problem> {
        let mut capabilities = Map::from_iter([("tools".to_owned(), json!({}))]);
        for (name, offered) in self.offers.iter().flat_map(|offer| offer.capabilities()) {
            match (capabilities.entry(&name).or_insert_with(|| json!({})), offered) {
                (Value::Object(known), Value::Object(offered)) => known.extend(offered),
                (known, offered) => *known = offered,
            }
        }
        serde_json::from_value(capabilities.into()).map_err(Problem::internal)
    }

    /// The answer to `tools/list`: always the whole list, because many clients never ask for a second page.
    fn listed(&self, tools: &[&str], is_stateless: bool) -> String {
        let meta = || {
            format!(
                ",\"ttlMs\":{KEPT_MS},\"cacheScope\":\"private\",\"resultType\":\"complete\",\"_meta\":{}",
                self.server
            )
        };
        format!("{{\"tools\":[{}]{}}}", tools.join(","), is_stateless.then(meta).unwrap_or_default())
    }

    /// Is it the name of one of the operations' tools?
    pub(super) fn is_own(&self, name: Option<&Node>) -> bool {
        matches!(name, Some(Node::Text(name)) if self.tools.load().get(name).is_some())
    }

    /// What areas offer to the caller beside operations.
    async fn offered_tools(&self, caller: &Arc<Caller>) -> Result<Vec<Value>, Problem> {
        let mut tools = Vec::new();
        for offer in &self.offers {
            tools.extend(offer.tools(&self.calls.engine, caller).await?);
        }
        Ok(tools)
    }

    /// Does an area offer a tool of the name that the request says?
    pub(super) async fn is_offered(&self, request: &RpcRequest<'_>) -> Result<bool, Problem> {
        let Some(Node::Text(name)) = request.params.get("name") else { return Ok(false) };
        let tools = self.offered_tools(request.context.credential.caller()).await?;
        Ok(tools.iter().any(|tool| tool["name"] == name.as_str()))
    }

    /// What a tool of that name would be a call of, and the area that offers such tools. Nothing is looked up.
    pub(super) fn offered_operation(&self, name: Option<&Node>, caller: &Caller) -> Option<OfferedOperation> {
        let Some(Node::Text(name)) = name else { return None };
        self.offers.iter().find_map(|offer| Some((offer.clone(), offer.operation_of(caller, name)?)))
    }
}

/// Questions the areas for an answer.
pub(super) async fn offered(
    exchange: &Exchange,
    id: &Id,
    method: &str,
    params: &Value,
) -> Result<String, RpcError> {
    let id = serde_json::from_str(&id.0).map_err(Problem::internal)?;
    if method == "subscriptions/listen"
        && let Some(mut result) = listen::listen(exchange, &id, params).await
    {
        result["resultType"] = json!("complete");
        result["_meta"][SERVER_INFO] = json!(exchange.mcp.info);
        return Ok(result.to_string());
    }
    let (caller, assistant) = (&exchange.caller, exchange);
    let request = OfferRequest { id: &id, method, params, caller, assistant };
    for offer in &exchange.mcp.offers {
        let Some(answered) = offer.answer(request).await else { continue };
        let mut result = answered.map_err(|OfferFault { code, problem, more }| RpcError {
            more,
            ..RpcError::new(ErrorCode(code), problem)
        })?;
        if exchange.revision.is_stateless {
            if let Some(result) = result.as_object_mut() {
                complete(result, method);
            }
            result["_meta"][SERVER_INFO] = json!(exchange.mcp.info);
        }
        return Ok(result.to_string());
    }
    Err(RpcError::no_method(method))
}

/// What every result has since it stands by itself.
fn complete(result: &mut Map<String, Value>, method: &str) {
    result.entry("resultType").or_insert_with(|| json!("complete"));
    if method.ends_with("/list") || method == "resources/read" {
        result.entry("ttlMs").or_insert_with(|| json!(0));
        result.entry("cacheScope").or_insert_with(|| json!("private"));
    }
}
