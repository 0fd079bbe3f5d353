//! What a tool of assistants costs beside the REST route that it mirrors: the same operation of the same server, asked in
//! turns by the same callers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::load::{self, Requests};
use super::{in_turns, portico, stock};
use crate::report::Report;

/// Tools that read, and their routes: one that asks no database, where the way there is all that costs, and one that does.
const READS: [(&str, &str); 2] =
    [("identity_get_me", "/v1/me"), ("webhooks_list_endpoints", "/v1/webhooks/endpoints")];

/// The call as a client of the newest revision writes it.
pub(crate) fn call(token: &str, tool: &str, arguments: &Value) -> Vec<u8> {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{arguments},\
         \"_meta\":{{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
         \"io.modelcontextprotocol/clientInfo\":{{\"name\":\"bench\",\"version\":\"1\"}},\
         \"io.modelcontextprotocol/clientCapabilities\":{{}}}}}}}}"
    );
    format!(
        "POST /mcp HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: {tool}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) async fn measure(report: &mut Report) {
    let folder = tempfile::tempdir().unwrap();
    let tokens = stock::fill(folder.path(), 1, 1).await;
    let server = portico(folder.path());
    for (tool, route) in READS {
        let of_tool: Requests = Arc::new(vec![call(&tokens[0], tool, &json!({}))]);
        let of_route: Requests = Arc::new(vec![super::request(&tokens[0], route)]);
        let said = load::fetch(server.address, &of_tool[0]).await;
        assert!(said.contains("\"isError\":false"), "{said}");
        let (of_tool, of_route) = in_turns((&server, &of_tool), (&server, &of_route)).await;
        let what = |figure: &str| format!("tools/call {tool}, against GET {route}: {figure}");
        report.ratio(&what("calls"), of_tool.round.rate, of_route.round.rate, "/s", "bar: 0.7");
        report.ratio(&what("processor time for each"), of_tool.cpu_ns, of_route.cpu_ns, "ns", "no bar");
        let p50 = (of_tool.round.percentile_us(50), of_route.round.percentile_us(50));
        report.ratio(&what("p50"), p50.0, p50.1, "µs", "no bar");
    }
}
