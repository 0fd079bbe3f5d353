//! Which revision of the protocol a request speaks, and whether its headers say what its body says.
//!
//! Until 2025-11-25 a client begins with a handshake; since 2026-07-28 every request says in `_meta` what it is, and in
//! headers what it is about, so that those who pass it on need not read it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName};
use portico_engine::input::{Fields, Node};
use portico_kernel::{Code, Problem};
use rmcp::model::{ErrorCode, ProtocolVersion};
use serde_json::{Map, Value, json};

use super::message::{RpcError, value};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The revisions that are served, oldest first.
pub(crate) const SUPPORTED: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// What a request says of whoever sends it.
pub(crate) struct Revision {
    pub(crate) is_stateless: bool,
    /// What the client can do; after a handshake it is not known here.
    pub(crate) capabilities: Map<String, Value>,
}

impl Revision {
    /// Reads it off a request; one that contradicts itself is refused.
    pub(crate) fn of(headers: &HeaderMap, method: &str, params: &Fields) -> Result<Self, RpcError> {
        let empty = Fields::new();
        let meta = match params.get("_meta") {
            Some(Node::Object(meta)) => meta,
            _ => &empty,
        };
        let named = one(headers, &VERSION)?;
        let inside = match meta.get(META_VERSION) {
            Some(Node::Text(version)) => Some(version.as_str()),
            _ => None,
        };
        let newest = ProtocolVersion::V_2026_07_28;
        let is_stateless = inside.is_some() || named == Some(newest.as_str()) || method == "server/discover";
        if !is_stateless {
            // Before the handshake there is nothing to agree on; without the header it is an old client.
            if let Some(named) = named.filter(|_| method != "initialize") {
                served(named)?;
            }
            return Ok(Self { is_stateless, capabilities: Map::new() });
        }
        let Some(inside) = inside else { return Err(missing(META_VERSION)) };
        if named != Some(inside) {
            let named = named.unwrap_or("nothing");
            return Err(RpcError::mismatch(format!(
                "`MCP-Protocol-Version` says {named}, and `_meta` says {inside}."
            )));
        }
        served(inside)?;
        let Some(Node::Object(capabilities)) = meta.get(META_CAPABILITIES) else {
            return Err(missing(META_CAPABILITIES));
        };
        check_names(headers, method, params)?;
        let capabilities = capabilities.iter().map(|(name, node)| (name.clone(), value(node.clone())));
        Ok(Self { is_stateless: inside == newest.as_str(), capabilities: capabilities.collect() })
    }

    /// Does the client say that it can do this?
    pub(crate) fn can(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some_and(Value::is_object)
    }
}

fn served(version: &str) -> Result<(), RpcError> {
    if SUPPORTED.iter().any(|served| served.as_str() == version) {
        return Ok(());
    }
    let version: String = version.chars().take(100).collect();
    let problem = Problem::new(Code::BadRequest, format!("The revision `{version}` is not served."));
    let mut error = RpcError::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, problem);
    error.more.insert("supported".to_owned(), json!(SUPPORTED));
    error.more.insert("requested".to_owned(), json!(version));
    Err(error)
}

fn missing(name: &str) -> RpcError {
    RpcError::params(Problem::field(format!("params._meta.{name}"), "is missing or not what it must be"))
}

/// The one value of a header.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(value), None) => Ok(Some(value)),
        _ => Err(RpcError::mismatch(format!("`{name}` must be given once, in plain letters."))),
    }
}

/// A message that is not answered must still be of a revision that is served.
pub(crate) fn check_version(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    let named = one(headers, &VERSION)?;
    named.map(served).transpose()?;
    Ok(named)
}

/// The same of a notification, which says in headers what it is, and is none if its name is a request's.
pub(crate) fn check_notification(headers: &HeaderMap, method: &str, params: &Fields) -> Result<(), RpcError> {
    if check_version(headers)? == Some(ProtocolVersion::V_2026_07_28.as_str()) {
        check_names(headers, method, params)?;
    }
    if method.starts_with("notifications/") {
        Ok(())
    } else {
        Err(RpcError::params(Problem::field("id", "is missing")))
    }
}

/// The headers must say what the body says: whoever passes the request on goes by them.
fn check_names(headers: &HeaderMap, method: &str, params: &Fields) -> Result<(), RpcError> {
    agree(headers, &METHOD, method)?;
    let named = match method {
        "tools/call" | "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => return Ok(()),
    };
    match named {
        Some(Node::Text(name)) => agree(headers, &NAME, name),
        _ => Ok(()),
    }
}

fn agree(headers: &HeaderMap, header: &HeaderName, inside: &str) -> Result<(), RpcError> {
    let differs = || RpcError::mismatch(format!("`{header}` must say what the body says."));
    let named = one(headers, header)?.ok_or_else(differs)?;
    // What does not fit into a header comes in base64, with a mark around it.
    let decoded = match named.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
        None => return if named == inside { Ok(()) } else { Err(differs()) },
    };
    if decoded.as_deref() == Some(inside) { Ok(()) } else { Err(differs()) }
}
