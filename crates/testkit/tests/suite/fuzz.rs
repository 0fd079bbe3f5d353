//! Malformed requests by the thousand: every answer is a `Problem` or a valid one, none is a fault of ours.

use std::sync::atomic::{AtomicUsize, Ordering};

use portico_gateway::openapi::{Cut, document};
use portico_kernel::Code;
use portico_testkit::{Answer, Database, TestApp, TestRequest, volume};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

/// How many in `check/judges/long-runs`.
const REQUESTS: usize = 100_000;

/// Pieces that parsers trip over, and pieces of good requests, so that some get far.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "",
        "a",
        "name",
        "size",
        "tags",
        "look",
        "color",
        "red",
        "filter",
        "page_size",
        "page_token",
        "limit",
        "org_id",
        "null",
        "true",
        "-1",
        "0",
        "1",
        "9223372036854775808",
        "1e999",
        "1.5",
        "\\u0000",
        "\\ud800",
        "%",
        "%2",
        "%2F",
        "%00",
        "%ff",
        "%zz",
        ".",
        "..",
        "...",
        "/",
        "//",
        "?",
        "&",
        "=",
        "+",
        "\"",
        "'",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "é",
        "\u{202e}",
        "💥",
        "🏳️‍🌈",
        "\u{0}",
        "\n",
        "\r\n",
        "\t",
        " ",
        "{\"name\":\"a\"}",
        "[[[[",
        "]]]]",
        "{\"a\":",
        "$ref",
        "__proto__",
        "' or 1=1 --",
    ];
    prop_oneof![
        8 => prop::sample::select(words.map(str::to_owned).to_vec()),
        1 => "\\PC{0,12}",
        1 => any::<String>(),
    ]
}

pub(crate) fn pieces(most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(piece(), 0..most).prop_map(|pieces| pieces.concat())
}

/// JSON that is well formed and mostly wrong.
pub(crate) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        piece().prop_map(|text| serde_json::json!(text).to_string()),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let names = prop::sample::select(vec![
            "name", "size", "tags", "look", "color", "edges", "width", "note", "id", "x", "",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((names, inner), 0..6).prop_map(|fields| {
                let fields: Vec<_> =
                    fields.into_iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

#[derive(Debug, Clone)]
struct Request {
    method: String,
    path: String,
    query: String,
    body: Vec<u8>,
    content_type: String,
    token: u8,
    headers: Vec<(String, String)>,
}

fn request() -> impl Strategy<Value = Request> {
    let paths = [
        "/v1/me",
        "/v1/accounts/me",
        "/v1/accounts/units/categories",
        "/v1/events/types",
        "/v1/accounts/orgs/ORG/audit",
        "/v1/lab/orgs/ORG/things",
        "/v1/lab/orgs/ORG/things/t",
        "/v1/openapi.json",
        "/openapi.json",
        "/healthz",
    ];
    let path = prop_oneof![
        6 => prop::sample::select(paths.map(str::to_owned).to_vec()),
        2 => (prop::sample::select(paths.map(str::to_owned).to_vec()), pieces(3)).prop_map(|(path, tail)| format!("{path}/{tail}")),
        1 => pieces(6).prop_map(|path| format!("/{path}")),
    ];
    let methods = prop_oneof![
        8 => Just("GET"), 6 => Just("POST"), 2 => Just("PATCH"), 2 => Just("DELETE"),
        1 => prop::sample::select(vec!["PUT", "HEAD", "OPTIONS", "TRACE", "BREW"]),
    ];
    let methods = methods.prop_map(str::to_owned);
    let body = prop_oneof![
        2 => Just(Vec::new()),
        4 => json().prop_map(String::into_bytes),
        2 => pieces(8).prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ];
    let types =
        prop_oneof![6 => Just("application/json".to_owned()), 1 => Just(String::new()), 1 => pieces(2)];
    let names = prop::sample::select(
        [
            "idempotency-key",
            "x-request-id",
            "if-none-match",
            "content-length",
            "accept",
            "origin",
            "authorization",
            "expect",
        ]
        .map(str::to_owned)
        .to_vec(),
    );
    let headers = prop::collection::vec((names, pieces(3)), 0..3);
    (methods, path, pieces(6), body, types, 0u8..8, headers).prop_map(
        |(method, path, query, body, content_type, token, headers)| Request {
            method,
            path,
            query,
            body,
            content_type,
            token,
            headers,
        },
    )
}

impl Request {
    /// The request; `None` when it cannot even be written as HTTP.
    fn sent(self, app: &TestApp) -> Option<TestRequest> {
        let target = format!("{}?{}", self.path.replace("ORG", &app.account.to_string()), self.query);
        let uri: http::Uri = target.parse().ok()?;
        let mut sent = TestRequest::new(&self.method, &uri.to_string()).bytes(self.body);
        sent = match self.token {
            0 => sent,
            1 => sent.bearer("abc"),
            _ => sent.bearer(&app.token),
        };
        let headers = std::iter::once(("content-type".to_owned(), self.content_type)).chain(self.headers);
        for (name, value) in headers.filter(|(_, value)| !value.is_empty()) {
            if http::HeaderValue::from_str(&value).is_ok() {
                sent = sent.header(&name, &value);
            }
        }
        Some(sent)
    }
}

/// The schema of a success on each route of the document.
struct Schemas(std::collections::HashMap<(String, String), jsonschema::Validator>);

impl Schemas {
    fn new(app: &TestApp) -> Self {
        let document = document(&app.app.engine.registry.catalog(), "http://api.test", &Cut::public());
        let mut schemas = std::collections::HashMap::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let mut schema =
                    operation["responses"]["200"]["content"]["application/json"]["schema"].clone();
                schema["components"] = document["components"].clone();
                let validator = jsonschema::validator_for(&schema).unwrap();
                schemas.insert((method.to_uppercase(), path.clone()), validator);
            }
        }
        Self(schemas)
    }

    /// Asserts that a success is what the document says; returns whether the route stands in it.
    fn check(&self, request: &Request, answer: &serde_json::Value) -> bool {
        let path = request.path.replace("ORG", "{org_id}");
        let path = path
            .strip_suffix("/things/t")
            .map_or(path.clone(), |start| format!("{start}/things/{{thing_id}}"));
        let schema = self.0.get(&(request.method.clone(), path));
        assert!(schema.is_none_or(|schema| schema.is_valid(answer)), "{request:?}: {answer}");
        schema.is_some()
    }
}

/// Asserts what must hold of every answer; returns whether it was a success that its schema was asked about.
fn check(answer: &Answer, request: &Request, schemas: &Schemas) -> bool {
    assert!(!answer.header("x-request-id").is_empty(), "{request:?}");
    assert!(answer.status < 500, "{} to {request:?}: {answer:?}", answer.status);
    if request.method == "HEAD" || [204, 304].contains(&answer.status) {
        return false;
    }
    match answer.status {
        200 => schemas.check(request, &answer.ok()),
        status => {
            let codes = Code::ALL.iter().filter(|code| code.status() == status);
            let said = answer.json()["code"].as_str().unwrap().to_owned();
            let code = codes
                .into_iter()
                .find(|code| code.name() == said)
                .unwrap_or_else(|| panic!("{said} with {status}"));
            drop(answer.refused(*code));
            false
        }
    }
}

async fn throw(database: Database, requests: usize) {
    let app = TestApp::new(database).await;
    // The same requests in every run, so that a failure can be met again.
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let strategy = request();
    let (schemas, mut valid) = (Schemas::new(&app), 0);
    let (mut thrown, mut statuses) = (0, std::collections::BTreeMap::<u16, usize>::new());
    let unwritable = AtomicUsize::new(0);
    while thrown < requests {
        let request = strategy.new_tree(&mut runner).unwrap().current();
        let Some(sent) = request.clone().sent(&app) else {
            unwritable.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let answer = app.send(sent).await;
        valid += usize::from(check(&answer, &request, &schemas));
        *statuses.entry(answer.status).or_default() += 1;
        thrown += 1;
    }
    println!("{thrown} requests: {statuses:?}, {valid} answers held to their schema");
    assert!(valid > requests / 1_000);
    for status in [200, 400, 401, 404, 405, 415] {
        assert!(
            statuses.get(&status).is_some_and(|count| *count > requests / 1_000),
            "{status} was hardly met: {statuses:?}"
        );
    }
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    throw(Database::Sqlite, volume(REQUESTS)).await;
}

#[tokio::test]
async fn malformed_requests_are_refused_on_postgres() {
    throw(Database::Postgres, volume(REQUESTS) / 4).await;
}
