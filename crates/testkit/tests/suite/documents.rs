//! The OpenAPI documents.

use portico_gateway::openapi::{Cut, document};
use portico_kernel::{Code, ScopeSet};
use portico_testkit::{TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

fn cut(document: &Value) -> &Value {
    &document["info"]["x-platform-cut"]
}

on_both_databases! {
    the_open_document_needs_no_token_and_says_what_it_is,
    it_is_not_sent_twice,
    a_tokens_document_is_narrowed_to_its_scopes,
    parameters_come_from_the_types,
    it_is_said_that_events_tell_who_did_what,
}

async fn the_open_document_needs_no_token_and_says_what_it_is(app: TestApp) {
    let answer = app.send(TestRequest::new("GET", "/openapi.json")).await;
    let document = answer.ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(cut(&document)["plan"], "public");
    assert_eq!(cut(&document)["scopes"], json!([]));
    let hash = cut(&document)["hash"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    for path in ["/healthz", "/readyz", "/v1/me", "/v1/openapi.json"] {
        assert!(document["paths"].get(path).is_some(), "{path}");
    }
    assert_eq!(document["paths"]["/v1/events/types"]["get"]["x-platform-list"], json!({ "items": "types" }));
}

async fn it_is_said_that_events_tell_who_did_what(app: TestApp) {
    let types = app.get("/v1/events/types?page_size=200").await.ok();
    let types = types["types"].as_array().unwrap();
    let audit = types.iter().find(|entry| entry["type"] == "audit.event").unwrap();
    let described = audit["description"].as_str().unwrap();
    assert!(described.contains("the action and who did it"), "{described}");
    let document = app.send(TestRequest::new("GET", "/openapi.json")).await.ok();
    let scopes = document["info"]["x-platform-scopes"].to_string();
    assert!(scopes.contains("each action in the account and who did it"), "{scopes}");
}

async fn it_is_not_sent_twice(app: TestApp) {
    for (path, token) in [("/openapi.json", None), ("/v1/openapi.json", Some(&app.token))] {
        let get = |etag: &str| {
            let sent = TestRequest::new("GET", path).header("if-none-match", etag);
            match token {
                Some(token) => sent.bearer(token),
                None => sent,
            }
        };
        let first = app.send(get("\"other\"")).await;
        first.ok();
        let etag = first.header("etag").to_owned();
        for known in [etag.clone(), format!("W/{etag}"), format!("\"a\", {etag}"), "*".to_owned()] {
            let again = app.send(get(&known)).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{known}");
            assert_eq!(again.header("etag"), etag);
        }
    }
}

async fn a_tokens_document_is_narrowed_to_its_scopes(app: TestApp) {
    let scopes = |names: &[&str]| names.iter().copied().collect::<ScopeSet>();
    let app = &app;
    let read = |token: String| async move {
        app.send(TestRequest::new("GET", "/v1/openapi.json").bearer(&token)).await.ok()
    };
    let narrow = read(app.token_with(app.account, scopes(&["identity:read", "events:read"])).await).await;
    assert_eq!(cut(&narrow)["scopes"], json!(["events:read", "identity:read"]));
    assert_eq!((&cut(&narrow)["account"], &cut(&narrow)["plan"]), (&json!(app.account), &json!("free")));
    assert!(narrow["paths"].get("/v1/me").is_some());
    assert!(narrow["paths"].get("/v1/accounts/me").is_none());
    let text = narrow.to_string();
    for name in narrow["components"]["schemas"].as_object().unwrap().keys() {
        assert!(text.contains(&format!("\"#/components/schemas/{name}\"")), "{name} is not used");
    }
    let same = read(app.token_with(app.account, scopes(&["events:read", "identity:read"])).await).await;
    assert_eq!(cut(&same)["hash"], cut(&narrow)["hash"]);
    let other = read(app.token_with(app.account, scopes(&["events:read"])).await).await;
    assert_ne!(cut(&other)["hash"], cut(&narrow)["hash"]);
    app.send(TestRequest::new("GET", "/v1/openapi.json")).await.refused(Code::Unauthenticated);
    let stranger = app.new_account("Other").await;
    app.get(&format!("/v1/openapi.json?account={stranger}")).await.refused(Code::Forbidden);
    app.get(&format!("/v1/openapi.json?account={}", app.account)).await.ok();
    app.get("/v1/openapi.json?account=x").await.refused_field("account");
}

async fn parameters_come_from_the_types(app: TestApp) {
    let document = document(&app.app.engine.registry.catalog(), "http://api.test", &Cut::public());
    let list = &document["paths"]["/v1/lab/orgs/{org_id}/things"]["get"];
    let names: Vec<_> = list["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|parameter| {
            format!("{}:{}", parameter["in"].as_str().unwrap(), parameter["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        names,
        [
            "path:org_id",
            "query:filter.color",
            "query:filter.large",
            "query:filter.size_min",
            "query:names",
            "query:page_size",
            "query:page_token",
            "query:limit"
        ]
    );
    assert_eq!(list["security"], json!([{ "bearer": ["webhooks:read"] }]));
    let create = &document["paths"]["/v1/lab/orgs/{org_id}/things"]["post"];
    assert_eq!(create["requestBody"]["required"], true);
    let body = &create["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["required"], json!(["name"]), "what the path says need not be said again");
    assert_eq!(body["additionalProperties"], false);
    assert!(body["properties"].get("org_id").is_some());
    let headers: Vec<_> =
        create["parameters"].as_array().unwrap().iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(headers, ["org_id", "Idempotency-Key"]);
    assert_eq!(create["summary"], "Make a thing");
}
