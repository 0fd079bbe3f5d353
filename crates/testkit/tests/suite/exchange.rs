//! The key exchange at `{auth_url}`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico::admin::Admin;
use portico_kernel::{Code, ScopeSet, seconds};
use portico_store::args;
use portico_testkit::{Answer, Database, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

async fn exchange(app: &TestApp, key: &Value, form: &str) -> Answer {
    let authorization = basic(key["client_id"].as_str().unwrap(), key["client_secret"].as_str().unwrap());
    post(app, &authorization, form).await
}

async fn post(app: &TestApp, authorization: &str, form: &str) -> Answer {
    let sent = TestRequest::new("POST", "/oauth2/token")
        .header("authorization", authorization)
        .header("content-type", "application/x-www-form-urlencoded")
        .bytes(form.as_bytes().to_vec());
    app.send_auth(sent).await
}

/// Asserts a refusal in OAuth's own words.
#[track_caller]
fn refused(answer: &Answer, error: &str) {
    let body = answer.json();
    assert_eq!(body["error"], error, "{body}");
    assert!(body["error_description"].is_string());
    assert_eq!(answer.status, if error == "invalid_client" { 401 } else { 400 }, "{body}");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("www-authenticate").starts_with("Basic "), error == "invalid_client");
    assert!(!answer.header("x-request-id").is_empty());
}

const FORM: &str = "grant_type=client_credentials&audience=platform-api&scope=identity%3Aread+account:read";

fn scopes() -> ScopeSet {
    ["identity:read", "account:read", "events:read"].into_iter().collect()
}

on_both_databases! {
    a_key_is_exchanged_for_a_token_of_fifteen_minutes,
    without_scope_or_audience_the_key_gives_what_it_has,
    it_refuses_in_oauths_own_words,
    an_api_token_is_no_client,
    id_and_secret_may_be_percent_encoded,
    a_revoked_key_gives_nothing_and_its_tokens_end,
    everything_else_there_is_an_envelope,
    endpoints_of_oauth_refuse_in_its_own_shape,
    a_stored_name_that_is_no_scope_reads_as_nothing,
}

async fn a_key_is_exchanged_for_a_token_of_fifteen_minutes(app: TestApp) {
    let key = app.new_key(app.account, scopes()).await;
    let answer = exchange(&app, &key, FORM).await;
    let exchanged = answer.ok();
    assert_eq!(exchanged["token_type"], "bearer");
    assert_eq!(exchanged["expires_in"], 899);
    assert_eq!(exchanged["scope"], "account:read identity:read");
    assert_eq!(answer.header("cache-control"), "no-store");
    let token = exchanged["access_token"].as_str().unwrap();
    let get = |path: &str| app.send(TestRequest::new("GET", path).bearer(token));
    let me = get("/v1/me").await.ok();
    assert_eq!((&me["subject"], &me["client_id"]), (&key["key_id"], &key["client_id"]));
    assert_eq!(me["key"], json!({ "id": key["key_id"], "parent": null }));
    get("/v1/events/types").await.refused(Code::Forbidden);
    let account = get("/v1/accounts/me").await.ok();
    assert_eq!(account["key"]["kind"], "key");
    assert!(
        key["client_secret"].as_str().unwrap().ends_with(account["key"]["secret_hint"].as_str().unwrap())
    );
    app.advance(seconds(899)).await;
    get("/v1/me").await.ok();
    app.advance(seconds(1)).await;
    get("/v1/me").await.refused(Code::Unauthenticated);
}

async fn without_scope_or_audience_the_key_gives_what_it_has(app: TestApp) {
    let key = app.new_key(app.account, scopes()).await;
    let exchanged =
        exchange(&app, &key, "grant_type=client_credentials&audience=&scope=&unknown=1&unknown.x=1")
            .await
            .ok();
    assert_eq!(exchanged["scope"], "account:read events:read identity:read");
}

async fn it_refuses_in_oauths_own_words(app: TestApp) {
    let key = app.new_key(app.account, scopes()).await;
    for (form, error) in [
        ("grant_type=client_credentials&scope=webhooks:write", "invalid_scope"),
        ("grant_type=client_credentials&scope=identity:read+webhooks:write", "invalid_scope"),
        ("grant_type=client_credentials&scope=public", "invalid_scope"),
        ("grant_type=client_credentials&scope=rfc:read", "invalid_scope"),
        ("grant_type=client_credentials&audience=other", "invalid_target"),
        ("grant_type=password&username=a&password=b", "unsupported_grant_type"),
        ("grant_type=", "invalid_request"),
        ("grant_type=a%0d%0a%22b", "unsupported_grant_type"),
        ("scope=identity:read", "invalid_request"),
        ("", "invalid_request"),
        ("grant_type=client_credentials&grant_type=client_credentials", "invalid_request"),
        ("grant_type=client_credentials&scope=identity:read&scope=account:read", "invalid_request"),
        ("grant_type=client_credentials&client_secret=x", "invalid_request"),
        ("grant_type=client_credentials&scope=%ff", "invalid_request"),
    ] {
        refused(&exchange(&app, &key, form).await, error);
    }
    let id = key["client_id"].as_str().unwrap();
    for authorization in [
        basic(id, "wrong"),
        basic(id, ""),
        basic("key_01ARZ3NDEKTSV4RRFFQ69G5FAV", "x"),
        basic("", ""),
        "Basic !!!".to_owned(),
        "Basic".to_owned(),
        basic("%00", "x"),
        basic("\0", "x"),
        format!("Bearer {}", app.token),
        basic(id, &format!("{}x", key["client_secret"].as_str().unwrap())),
    ] {
        refused(&post(&app, &authorization, FORM).await, "invalid_client");
    }
    let bare =
        TestRequest::new("POST", "/oauth2/token").header("content-type", "application/x-www-form-urlencoded");
    refused(&app.send_auth(bare.bytes(FORM.as_bytes().to_vec())).await, "invalid_client");
    let json = TestRequest::new("POST", "/oauth2/token").json(&json!({ "grant_type": "client_credentials" }));
    refused(&app.send_auth(json).await, "invalid_request");
}

async fn an_api_token_is_no_client(app: TestApp) {
    let made = app.new_token(app.account, scopes(), 7).await;
    let authorization = basic(made["token_id"].as_str().unwrap(), made["token"].as_str().unwrap());
    refused(&post(&app, &authorization, FORM).await, "invalid_client");
}

async fn id_and_secret_may_be_percent_encoded(app: TestApp) {
    let key = app.new_key(app.account, scopes()).await;
    let encode = |text: &Value| {
        let digits = portico_kernel::hex(text.as_str().unwrap().as_bytes());
        digits
            .as_bytes()
            .chunks(2)
            .map(|pair| format!("%{}", str::from_utf8(pair).unwrap()))
            .collect::<Vec<_>>()
            .concat()
    };
    let authorization = basic(&encode(&key["client_id"]), &encode(&key["client_secret"]));
    post(&app, &authorization, FORM).await.ok();
}

async fn a_revoked_key_gives_nothing_and_its_tokens_end(app: TestApp) {
    let (first, second) =
        (app.new_key(app.account, scopes()).await, app.new_key(app.account, scopes()).await);
    let token = |answer: Value| answer["access_token"].as_str().unwrap().to_owned();
    let app = &app;
    let one = token(exchange(app, &first, FORM).await.ok());
    let two = token(exchange(app, &second, FORM).await.ok());
    let me = |token: String| async move { app.send(TestRequest::new("GET", "/v1/me").bearer(&token)).await };
    me(one.clone()).await.ok();
    app.admin(Admin::Revoke { id: first["key_id"].as_str().unwrap().to_owned() }).await;
    refused(&exchange(app, &first, FORM).await, "invalid_client");
    app.advance(seconds(1)).await;
    me(one).await.refused(Code::Unauthenticated);
    me(two).await.ok();
    exchange(app, &second, FORM).await.ok();
}

async fn everything_else_there_is_an_envelope(app: TestApp) {
    app.send_auth(TestRequest::new("GET", "/nope")).await.refused(Code::NotFound);
    app.send_auth(TestRequest::new("DELETE", "/.well-known/jwks.json")).await.refused(Code::MethodNotAllowed);
    app.send_auth(TestRequest::new("GET", "/oauth2/nope")).await.refused(Code::NotFound);
    app.send_auth(TestRequest::new("POST", "/signin").bytes(vec![b'x'; 65_537]))
        .await
        .refused(Code::PayloadTooLarge);
}

async fn a_stored_name_that_is_no_scope_reads_as_nothing(app: TestApp) {
    let key = app.new_key(app.account, "identity:read account:read".into()).await;
    let mut tx = app.app.engine.db.write().await.unwrap();
    let scopes = "account:read gone:read identity:read \u{e9} *";
    tx.execute(
        "update credentials set scopes = $2 where id = $1",
        args![key["key_id"].as_str().unwrap().to_owned(), scopes.to_owned()],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let token = app.exchange(&key).await;
    assert_eq!(crate::apps::claims(&token)["scope"], "account:read identity:read");
    app.send(TestRequest::new("GET", "/v1/me").bearer(&token)).await.ok();
    let asked = exchange(&app, &key, "grant_type=client_credentials&scope=identity:read+gone:read").await;
    refused(&asked, "invalid_scope");
}

/// Clients of OAuth read nothing but its own shape, whoever refuses them.
async fn endpoints_of_oauth_refuse_in_its_own_shape(app: TestApp) {
    let in_shape = |answer: &Answer, status: u16, error: &str| {
        let body = answer.json();
        assert_eq!((answer.status, &body["error"]), (status, &json!(error)), "{body}");
        assert!(body["error_description"].as_str().is_some_and(|text| text.ends_with('.')), "{body}");
        assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert!(answer.header("x-request-id").starts_with("req_"));
    };
    for path in ["/oauth2/token", "/oauth2/register", "/oauth2/revoke", "/oauth2/introspect"] {
        let wrong = app.send_auth(TestRequest::new("GET", path)).await;
        in_shape(&wrong, 405, "invalid_request");
        assert_eq!(wrong.header("allow"), "POST");
        let large = app.send_auth(TestRequest::new("POST", path).bytes(vec![b'x'; 65_537])).await;
        in_shape(&large, 413, "invalid_request");
        assert!(large.json()["error_description"].as_str().unwrap().contains("65536 bytes"), "{large:?}");
    }
    app.stopping.begin();
    let stopping = app.send_auth(TestRequest::new("POST", "/oauth2/token").form(FORM)).await;
    in_shape(&stopping, 503, "temporarily_unavailable");
    assert_eq!(stopping.header("retry-after"), "1");
    app.send_auth(TestRequest::new("GET", "/signin")).await.refused(Code::Unavailable);
}

/// Whatever SQLite is told to keep goes to its log first, so a log that does not grow was told nothing.
#[tokio::test]
async fn an_exchange_writes_nothing() {
    let app = TestApp::new(Database::Sqlite).await;
    let key = app.new_key(app.account, scopes()).await;
    let log = app.database.folder.path().join("portico.db-wal");
    let kept =
        || (std::fs::metadata(&log).unwrap().len(), std::fs::metadata(&log).unwrap().modified().unwrap());
    let before = kept();
    for _ in 0..50 {
        exchange(&app, &key, FORM).await.ok();
        exchange(&app, &key, "grant_type=client_credentials&scope=nonsense").await;
    }
    assert_eq!(kept(), before);
    app.new_key(app.account, scopes()).await;
    assert_ne!(kept(), before, "a write shows");
}
