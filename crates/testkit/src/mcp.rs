//! Assistants.

use serde_json::{Value, json};

use crate::{TestApp, TestRequest};

/// The newest revision.
pub const NEWEST: &str = "2026-07-28";

/// A request of the newest revision from a client that can do this: all that it must say stands in it.
pub fn rpc_as(capabilities: &Value, token: &str, method: &str, mut params: Value) -> TestRequest {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEWEST);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities.clone();
    let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let sent = TestRequest::new("POST", "/mcp")
        .bearer(token)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", NEWEST)
        .header("mcp-method", method);
    let sent = match name {
        Some(name) => sent.header("mcp-name", &name),
        None => sent,
    };
    sent.json(&body)
}

/// The same from a client that can do nothing but call.
pub fn rpc(token: &str, method: &str, params: Value) -> TestRequest {
    rpc_as(&json!({}), token, method, params)
}

/// A request of a client with a handshake.
pub fn old_rpc(token: &str, method: &str, params: &Value) -> TestRequest {
    TestRequest::new("POST", "/mcp")
        .bearer(token)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

impl TestApp {
    /// The result of a request of the newest revision.
    pub async fn asked(&self, token: &str, method: &str, params: Value) -> Value {
        let answer = self.send(rpc(token, method, params)).await.ok();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(1)), "{answer}");
        assert_eq!(
            answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "portico",
            "{answer}"
        );
        answer["result"].clone()
    }

    /// The result of a tool.
    pub async fn tool(&self, token: &str, name: &str, arguments: Value) -> Value {
        let result = self.asked(token, "tools/call", json!({ "name": name, "arguments": arguments })).await;
        assert_eq!(result["resultType"], "complete", "{result}");
        result
    }

    /// The tools that a token sees.
    pub async fn tools(&self, token: &str) -> Vec<Value> {
        self.asked(token, "tools/list", json!({})).await["tools"].as_array().unwrap().clone()
    }
}
