//! One envelope for everything that leaves the process.

use std::time::Duration;

use portico_kernel::Code;
use portico_store::args;
use portico_testkit::{Database, TestApp, TestAppOptions, TestRequest, on_both_databases};
use serde_json::json;

on_both_databases! {
    unknown_paths_and_wrong_methods,
    a_missing_scope_is_named,
    another_account_is_forbidden_before_anything_is_read,
    a_panic_is_a_refusal_and_the_process_lives_on,
    a_retry_detail_is_a_header_too,
    a_callers_request_id_is_kept_when_it_is_one,
    head_is_get_without_a_body,
    browsers_of_the_console_may_call,
    a_server_that_stops_says_so,
}

async fn unknown_paths_and_wrong_methods(app: TestApp) {
    for path in ["/v1/nothing", "/nope", "/", "/v1/me/", "/v1//me", "/v1/accounts/orgs//audit"] {
        app.get(path).await.refused(Code::NotFound);
        app.send(TestRequest::new("GET", path)).await.refused(Code::NotFound);
    }
    for (path, method, allow) in [
        ("/v1/me", "DELETE", "GET, HEAD"),
        ("/v1/me", "TRACE", "GET, HEAD"),
        ("/v1/me", "WHATEVER", "GET, HEAD"),
        ("/v1/me", "OPTIONS", "GET, HEAD"),
        ("/healthz", "POST", "GET, HEAD"),
    ] {
        let refused = app.send(TestRequest::new(method, path)).await;
        refused.refused(Code::MethodNotAllowed);
        assert_eq!(refused.header("allow"), allow, "{method} {path}");
    }
    let things = app.send(TestRequest::new("PUT", &app.things())).await;
    things.refused(Code::MethodNotAllowed);
    assert_eq!(things.header("allow"), "GET, HEAD, POST");
}

async fn a_missing_scope_is_named(app: TestApp) {
    let token = app.token_without("account:read").await;
    let refused =
        app.send(TestRequest::new("GET", "/v1/accounts/me").bearer(&token)).await.refused(Code::Forbidden);
    assert_eq!(
        refused["details"],
        json!([{
            "type": "info", "reason": "SCOPE_REQUIRED", "domain": "gateway", "metadata": { "scope": "account:read" },
        }])
    );
}

async fn another_account_is_forbidden_before_anything_is_read(app: TestApp) {
    let other = app.new_account("Other").await;
    let path = format!("/v1/lab/orgs/{other}/things");
    app.get(&path).await.refused(Code::Forbidden);
    app.get(&format!("{path}?nope=1")).await.refused(Code::Forbidden);
    app.send(TestRequest::new("POST", &path).bearer(&app.token).bytes(vec![b'x'; 3 << 20]))
        .await
        .refused(Code::Forbidden);
}

async fn a_panic_is_a_refusal_and_the_process_lives_on(app: TestApp) {
    let mut app = app;
    app.expect_errors();
    for _ in 0..3 {
        let refused = app.post(&app.things(), &json!({ "name": "panic" })).await.refused(Code::Internal);
        assert!(!refused["error"].as_str().unwrap().contains("as asked"), "the cause stays inside");
    }
    app.post(&app.things(), &json!({ "name": "fine" })).await.ok();
}

async fn a_retry_detail_is_a_header_too(app: TestApp) {
    let refused = app.post(&app.things(), &json!({ "name": "unavailable" })).await;
    let problem = refused.refused(Code::Unavailable);
    assert_eq!(problem["details"], json!([{ "type": "retry", "after_seconds": "7" }]));
    assert_eq!(refused.header("retry-after"), "7");
}

async fn a_callers_request_id_is_kept_when_it_is_one(app: TestApp) {
    let id = |id: &str| TestRequest::new("GET", "/v1/nothing").header("x-request-id", id);
    let longest = "x".repeat(128);
    for kept in ["a", "my-id-1", longest.as_str()] {
        let answer = app.send(id(kept)).await;
        assert_eq!(answer.header("x-request-id"), kept);
        answer.refused(Code::NotFound);
    }
    for replaced in ["", "two words", &"x".repeat(129), "caf\u{e9}"] {
        let answer = app.send(id(replaced)).await;
        assert!(answer.header("x-request-id").starts_with("req_"), "{replaced}");
    }
    let twice = app.send(id("a").header("x-request-id", "b")).await;
    assert!(twice.header("x-request-id").starts_with("req_"));
}

async fn head_is_get_without_a_body(app: TestApp) {
    let get = app.get("/v1/me").await;
    let head = app.send(TestRequest::new("HEAD", "/v1/me").bearer(&app.token)).await;
    assert_eq!(head.status, 200);
    assert!(head.body.is_empty());
    assert_eq!(head.header("content-length"), get.body.len().to_string());
    assert_eq!(app.send(TestRequest::new("HEAD", "/v1/me")).await.status, 401);
}

async fn browsers_of_the_console_may_call(app: TestApp) {
    let ask = |origin: &str| {
        TestRequest::new("OPTIONS", "/v1/me")
            .header("origin", origin)
            .header("access-control-request-method", "GET")
    };
    let allowed = app.send(ask("http://console.test")).await;
    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), "http://console.test");
    assert_eq!(allowed.header("access-control-allow-methods"), "GET, HEAD");
    assert!(!allowed.header("x-request-id").is_empty());
    let foreign = app.send(ask("http://evil.test")).await;
    foreign.refused(Code::MethodNotAllowed);
    assert_eq!(foreign.header("access-control-allow-origin"), "");
    let call = app
        .send(TestRequest::new("GET", "/v1/me").bearer(&app.token).header("origin", "http://console.test"))
        .await;
    assert_eq!(call.header("access-control-allow-origin"), "http://console.test");
    assert!(call.header("access-control-expose-headers").contains("x-request-id"));
    app.send(
        TestRequest::new("OPTIONS", "/nope")
            .header("origin", "http://console.test")
            .header("access-control-request-method", "GET"),
    )
    .await
    .refused(Code::NotFound);
}

async fn a_server_that_stops_says_so(app: TestApp) {
    app.stopping.begin();
    app.send_auth(TestRequest::new("GET", "/.well-known/jwks.json")).await.refused(Code::Unavailable);
    let refused = app.get("/v1/me").await;
    refused.refused(Code::Unavailable);
    assert_eq!(refused.header("retry-after"), "1");
}

async fn a_call_that_takes_too_long(database: Database) {
    let options =
        TestAppOptions { operation_time_max: Duration::from_millis(50), ..TestAppOptions::default() };
    let app = TestApp::with(database, options).await;
    for name in ["wait", "wait late"] {
        let refused = app.post(&app.things(), &json!({ "name": name })).await;
        refused.refused(Code::Timeout);
        assert_eq!(refused.header("retry-after"), "1");
    }
    let mine = app.get(&app.things()).await.ok();
    assert_eq!(mine["things"], json!([]), "nothing of it remains");
    app.post(&app.things(), &json!({ "name": "fine" })).await.ok();
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended_on_sqlite() {
    a_call_that_takes_too_long(Database::Sqlite).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended_on_postgres() {
    a_call_that_takes_too_long(Database::Postgres).await;
}

/// A statement that the database holds up cannot be rolled back in order; the caller is answered all the same.
#[tokio::test]
async fn a_call_that_waits_for_a_lock_is_ended_on_postgres() {
    let options =
        TestAppOptions { operation_time_max: Duration::from_millis(50), ..TestAppOptions::default() };
    let app = TestApp::with(Database::Postgres, options).await;
    let mut holder = app.app.engine.db.write().await.unwrap();
    holder.execute("lock table lab_things", args![]).await.unwrap();
    app.post(&app.things(), &json!({ "name": "held up" })).await.refused(Code::Timeout);
    app.get(&app.things()).await.refused(Code::Timeout);
    holder.rollback();
    assert_eq!(app.get(&app.things()).await.ok()["things"], json!([]), "nothing of it remains");
    app.post(&app.things(), &json!({ "name": "fine" })).await.ok();
}
