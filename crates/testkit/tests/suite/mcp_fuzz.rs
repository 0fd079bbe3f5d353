//! Messages of assistants that are bent in every place: each gets an answer in JSON, and none is a fault of ours.

use portico_testkit::{Answer, Database, NEWEST, TestApp, TestRequest};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::fuzz::{json as some_json, pieces};

const MESSAGES: usize = 30_000;

/// Words of the protocol, of tools and of nobody.
fn word() -> impl Strategy<Value = String> {
    let known = [
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
        "resources/read",
        "prompts/get",
        "notifications/cancelled",
        "identity_get_me",
        "webhooks_list_endpoints",
        "webhooks_create_endpoint",
        "lab_create_thing",
        "lab_delete_thing",
        "metering_get_usage",
        NEWEST,
        "2025-11-25",
        "2025-06-18",
        "2025-03-26",
        "application/json, text/event-stream",
        "text/event-stream",
        "http://api.test",
        "=?base64?aWQ=?=",
    ];
    prop_oneof![6 => prop::sample::select(known.map(str::to_owned).to_vec()), 1 => pieces(3)]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => word().prop_map(Value::from),
        2 => some_json().prop_map(|text| serde_json::from_str(&text).unwrap_or(Value::Null)),
        1 => Just(json!({})),
    ]
}

/// Where a message is bent.
const PLACES: [&str; 16] = [
    "/jsonrpc",
    "/id",
    "/method",
    "/params",
    "/params/name",
    "/params/arguments",
    "/params/arguments/name",
    "/params/arguments/idempotency_key",
    "/params/arguments/page_size",
    "/params/_meta",
    "/params/inputResponses",
    "/params/requestState",
    "/params/cursor",
    "/params/protocolVersion",
    "/params/requestId",
    "/params/_meta/io.modelcontextprotocol~1clientCapabilities",
];
const HEADERS: [&str; 9] = [
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
    "accept",
    "origin",
    "content-type",
    "host",
    "last-event-id",
];

#[derive(Debug, Clone)]
struct Bent {
    method: String,
    tool: String,
    bends: Vec<(usize, Option<Value>)>,
    headers: Vec<(usize, Option<String>)>,
    /// Instead of the message.
    body: Option<Vec<u8>>,
}

fn bent() -> impl Strategy<Value = Bent> {
    let bends = prop::collection::vec((0..PLACES.len(), prop::option::of(value())), 0..2);
    let headers = prop::collection::vec((0..HEADERS.len(), prop::option::of(word())), 0..3);
    let body = prop_oneof![
        12 => Just(None),
        1 => pieces(8).prop_map(|text| Some(text.into_bytes())),
        1 => prop::collection::vec(any::<u8>(), 0..64).prop_map(Some),
    ];
    (word(), word(), bends, headers, body).prop_map(|(method, tool, bends, headers, body)| Bent {
        method,
        tool,
        bends,
        headers,
        body,
    })
}

impl Bent {
    fn sent(&self, token: &str) -> TestRequest {
        let mut message = json!({ "jsonrpc": "2.0", "id": 1, "method": self.method, "params": {
            "name": self.tool, "arguments": { "name": "a", "thing_id": "a" },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": NEWEST,
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            },
        } });
        let mut headers: Vec<(&str, String)> = vec![
            ("mcp-protocol-version", NEWEST.to_owned()),
            ("mcp-method", self.method.clone()),
            ("mcp-name", self.tool.clone()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        for (place, value) in &self.bends {
            let (parent, name) = PLACES[*place].rsplit_once('/').unwrap();
            let name = name.replace("~1", "/");
            let Some(parent) = message.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
            match value {
                Some(value) => parent.insert(name, value.clone()),
                None => parent.remove(&name),
            };
        }
        for (at, value) in &self.headers {
            headers.retain(|(name, _)| *name != HEADERS[*at]);
            headers.extend(value.clone().map(|value| (HEADERS[*at], value)));
        }
        let body = self.body.clone().unwrap_or_else(|| message.to_string().into_bytes());
        let mut sent = TestRequest::new("POST", "/mcp").bearer(token).bytes(body);
        for (name, value) in headers.iter().filter(|(_, value)| http::HeaderValue::from_str(value).is_ok()) {
            sent = sent.header(name, value);
        }
        sent
    }
}

/// A success, a refusal in one of our two forms, or nothing at all to a notification.
fn check(answer: &Answer, bent: &Bent) -> &'static str {
    assert!(answer.status < 500, "{} to {bent:?}: {answer:?}", answer.status);
    assert!(!answer.header("x-request-id").is_empty(), "{bent:?}");
    if answer.status == 202 {
        assert!(answer.body.is_empty(), "{bent:?}");
        return "accepted";
    }
    assert_eq!(answer.header("content-type"), "application/json", "{bent:?}");
    let body = answer.json();
    match (body.get("result"), &body["error"]) {
        (Some(_), _) => "answered",
        (None, Value::Object(error)) => {
            assert!(error["code"].is_i64() && error["data"]["code"].is_string(), "{bent:?}: {body}");
            "fault"
        }
        _ => {
            assert!(
                body["code"].is_string() && body["request_id"] == answer.header("x-request-id"),
                "{bent:?}: {body}"
            );
            "problem"
        }
    }
}

#[tokio::test]
async fn whatever_is_sent_is_answered_in_json() {
    let app = TestApp::new(Database::Sqlite).await;
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRunner::deterministic().new_rng());
    let strategy = bent();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..MESSAGES {
        let bent = strategy.new_tree(&mut runner).unwrap().current();
        let answer = app.send(bent.sent(&app.token)).await;
        *seen.entry(check(&answer, &bent)).or_insert(0) += 1;
    }
    assert!(seen.len() == 4 && seen.values().all(|count| *count >= 10), "{seen:?}");
}
