//! What the platform's own operations answer.

use portico_kernel::{ScopeSet, seconds};
use portico_testkit::{TestApp, TestRequest, on_both_databases};
use serde_json::json;

on_both_databases! {
    me_shows_what_the_token_says,
    account_me_shows_the_account_and_the_key,
    the_last_use_moves_by_the_minute,
    the_price_list_names_the_operations_of_each_category,
    the_catalogue_has_a_schema_and_a_valid_example_for_each_type,
    health_and_readiness_need_no_token,
    readiness_ends_when_the_database_is_gone_and_health_does_not,
}

async fn me_shows_what_the_token_says(app: TestApp) {
    let scopes: ScopeSet = ["usage:read", "identity:read"].into_iter().collect();
    let made = app.new_token(app.account, scopes, 30).await;
    let me = app.send(TestRequest::new("GET", "/v1/me").bearer(made["token"].as_str().unwrap())).await.ok();
    let id = &made["token_id"];
    assert_eq!(
        me,
        json!({
            "subject": id, "kind": "client", "scopes": ["identity:read", "usage:read"], "client_id": id, "email": null,
            "name": "a test", "org": app.account, "role": null, "key": { "id": id, "parent": null },
        })
    );
}

async fn account_me_shows_the_account_and_the_key(app: TestApp) {
    let made = app.new_token(app.account, app.all_scopes(), 7).await;
    let me = app
        .send(TestRequest::new("GET", "/v1/accounts/me").bearer(made["token"].as_str().unwrap()))
        .await
        .ok();
    assert_eq!(me["account"]["id"], json!(app.account));
    assert_eq!(me["account"]["kind"], "team");
    assert_eq!(me["account"]["plan"], "free");
    assert_eq!(me["account"]["erase_after"], "");
    assert_eq!(me["key"]["id"], made["token_id"]);
    assert_eq!(me["key"]["name"], "a test");
    assert_eq!(me["key"]["kind"], "token");
    assert_eq!(me["key"]["expires_at"], "2026-02-07T09:30:00.000Z");
    assert_eq!(me["key"]["last_used_at"], "", "this use is noted and not written yet");
    assert_eq!((&me["user_id"], &me["email"], &me["teams"]), (&json!(""), &json!(""), &json!([])));
}

async fn the_last_use_moves_by_the_minute(app: TestApp) {
    let last_used = async || {
        app.app.identity.uses.flush(&app.app.engine).await.unwrap();
        app.get("/v1/accounts/me").await.ok()["key"]["last_used_at"].as_str().unwrap().to_owned()
    };
    app.get("/v1/me").await.ok();
    assert_eq!(last_used().await, "2026-01-31T09:30:00.250Z");
    app.advance(seconds(59)).await;
    app.get("/v1/me").await.ok();
    assert_eq!(last_used().await, "2026-01-31T09:30:00.250Z");
    app.advance(seconds(1)).await;
    app.get("/v1/me").await.ok();
    assert_eq!(last_used().await, "2026-01-31T09:31:00.250Z");
}

async fn the_price_list_names_the_operations_of_each_category(app: TestApp) {
    let list = app.get("/v1/accounts/units/categories").await.ok();
    let entries = list["categories"].as_array().unwrap();
    let of = |name: &str| entries.iter().find(|entry| entry["category"] == name).unwrap();
    assert_eq!(of("read")["units"], "1");
    assert_eq!(of("generate")["units"], "400");
    assert!(of("read")["operations"].as_array().unwrap().contains(&json!("identity.me.get")));
    assert_eq!(entries.len(), 10);
    assert_eq!(list["next_page_token"], "");
}

async fn the_catalogue_has_a_schema_and_a_valid_example_for_each_type(app: TestApp) {
    let list = app.get("/v1/events/types?page_size=200").await.ok();
    let types = list["types"].as_array().unwrap();
    for promised in [
        "token.created",
        "token.revoked",
        "key.created",
        "key.revoked",
        "member.invited",
        "member.joined",
        "member.removed",
        "usage.threshold",
        "radar.digest.published",
        "audit.event",
        "domain.verified",
        "domain.unverified",
        "domain.transferred",
        "webhook.test",
    ] {
        assert!(types.iter().any(|entry| entry["type"] == promised), "{promised}");
    }
    for entry in types {
        assert!(entry["description"].as_str().is_some_and(|words| !words.is_empty()), "{entry}");
        let schema = jsonschema::validator_for(&entry["schema"]).unwrap();
        assert!(schema.is_valid(&entry["example"]), "{entry}");
        let mut other = entry["example"].clone();
        other["type"] = json!("another.type");
        assert!(!schema.is_valid(&other), "the schema is of one type");
    }
}

async fn health_and_readiness_need_no_token(app: TestApp) {
    let health = app.send(TestRequest::new("GET", "/healthz")).await;
    assert_eq!(health.ok(), json!({ "status": "ok" }));
    assert!(!health.header("x-request-id").is_empty());
    let ready = app.send(TestRequest::new("GET", "/readyz")).await.ok();
    assert_eq!(ready["ready"], true);
    for backend in ["database", "identity", "accounts", "events", "engine"] {
        assert_eq!(ready["services"][backend], "serving", "{backend}");
    }
}

async fn readiness_ends_when_the_database_is_gone_and_health_does_not(app: TestApp) {
    app.app.engine.db.close().await;
    let ready = app.send(TestRequest::new("GET", "/readyz")).await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["ready"], false);
    assert_eq!(ready.json()["services"]["database"], "not_serving");
    assert_eq!(app.send(TestRequest::new("GET", "/healthz")).await.ok(), json!({ "status": "ok" }));
}
