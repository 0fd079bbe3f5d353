//! Signing in at a provider.

use std::collections::HashMap;

use portico_kernel::{Code, Role, seconds};
use portico_testkit::{CONSOLE_URL, ProviderAnswer};
use serde_json::{Value, json};

use super::{Place, id, reason, text};
use crate::with_a_provider;

with_a_provider! {
    a_person_signs_in,
    a_state_works_once_and_for_its_person_alone,
    a_sign_in_that_fails_says_why,
    a_sign_in_ends_with_its_time,
    a_workspace_is_connected_once,
    a_connection_is_signed_in_to_again,
    what_does_not_fit_is_named,
    an_account_brings_its_own_client,
    sign_ins_are_limited_in_number,
}

impl Place {
    async fn begin(&self, more: Value) -> (Value, HashMap<String, String>) {
        let mut body = json!({ "connector": "gitlab" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let begun = self.as_owner("POST", "/connect", body).await.ok();
        let url = begun["authorize_url"].as_str().unwrap();
        let query = url::form_urlencoded::parse(url.split_once('?').unwrap().1.as_bytes());
        let query = query.into_owned().collect();
        (begun, query)
    }

    async fn complete(&self, state: &str, code: &str) -> portico_testkit::Answer {
        self.as_owner("POST", "/connect/complete", json!({ "state": state, "code": code })).await
    }

    async fn status(&self, begun: &Value) -> Value {
        let path = format!("/connect/{}", id(&begun["sign_in"]));
        self.as_owner("GET", &path, Value::Null).await.ok()
    }
}

async fn a_person_signs_in(place: Place) {
    let by_key = place.to("/connect", json!({ "connector": "gitlab" })).await;
    reason(&by_key, Code::Forbidden, "PERSON_REQUIRED");
    let (begun, query) = place.begin(json!({})).await;
    let url = text(&begun["authorize_url"]);
    assert!(url.starts_with(&format!("{}/gl/oauth/authorize?", place.provider.origin())), "{url}");
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "app-1"),
        ("redirect_uri", &format!("{CONSOLE_URL}/connections/callback")),
        ("scope", "api read_api"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(query[name], value, "{name}");
    }
    assert_eq!(query["state"].len(), 43);
    let sign_in = &begun["sign_in"];
    assert_eq!(
        (&sign_in["status"], &sign_in["connector"], &sign_in["reason"]),
        (&json!("pending"), &json!("gitlab"), &json!(""))
    );
    assert!(place.status(&begun).await.get("connection").is_none());
    let (state, code) = place.provider.allow(&url);
    let made = place.complete(&state, &code).await.ok()["connection"].clone();
    for (field, value) in [
        ("label", json!("acme-gl")),
        ("external_id", json!("77")),
        ("auth_mode", json!("oauth2")),
        ("scopes", json!(["read_api"])),
        ("status", json!("active")),
        ("last_test_ok", json!(true)),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_ne!(made["token_expires_at"], "");
    let status = place.status(&begun).await;
    assert_eq!(
        (&status["sign_in"]["status"], &status["connection"]["id"]),
        (&json!("completed"), &made["id"])
    );
    let exchange = place.provider.calls("/gl/oauth/token")[0].body.clone();
    let exchange = String::from_utf8_lossy(&exchange).into_owned();
    assert!(exchange.contains("code_verifier=") && exchange.contains("client_id=app-1"), "{exchange}");
    assert!(!url.contains("code_verifier"));
    let audited = place.audited().await;
    for action in ["sign_in.started", "sign_in.completed", "connection.created"] {
        assert!(audited.contains(&action.to_owned()), "{action}");
    }
}

async fn a_state_works_once_and_for_its_person_alone(place: Place) {
    let bob = place.new_person("bob@example.com", None).await;
    place.join(place.account, bob.id, Role::Admin).await;
    let bob = place.person_token(bob.id).await;
    let (begun, query) = place.begin(json!({})).await;
    let path = place.path(&format!("/connect/{}", id(&begun["sign_in"])));
    place.call("GET", &bob, &path, &Value::Null).await.refused(Code::NotFound);
    place.app.get(&path).await.refused(Code::NotFound);
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    let body = json!({ "state": state, "code": code });
    let theirs = place.call("POST", &bob, &place.path("/connect/complete"), &body).await;
    reason(&theirs, Code::FailedPrecondition, "STATE_INVALID");
    let by_key = place.to("/connect/complete", body.clone()).await;
    reason(&by_key, Code::Forbidden, "PERSON_REQUIRED");
    // Another's try did not use it up.
    place.complete(&query["state"], &code).await.ok();
    for state in [&query["state"], "nope", ""] {
        reason(&place.complete(state, &code).await, Code::FailedPrecondition, "STATE_INVALID");
    }
    assert_eq!(place.provider.calls("/gl/oauth/token").len(), 1);
    assert_eq!(place.count("connections").await, 1);
}

async fn a_sign_in_that_fails_says_why(place: Place) {
    let fail = async |error: &str| {
        let (begun, query) = place.begin(json!({})).await;
        let body = json!({ "state": query["state"], "error": error, "error_description": "SAID-CANARY" });
        let failed = place.as_owner("POST", "/connect/complete", body).await;
        let told = reason(&failed, Code::FailedPrecondition, "SIGN_IN_FAILED")["reason"].clone();
        assert_eq!(place.status(&begun).await["sign_in"]["reason"], told);
        assert!(!failed.text().contains("SAID-CANARY"));
        text(&told)
    };
    assert_eq!(fail("access_denied").await, "access_denied");
    assert_eq!(fail("<b>Denied</b>").await, "provider_error");
    let bring = async |path: &str, answer: Option<ProviderAnswer>| {
        let (begun, query) = place.begin(json!({})).await;
        let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
        let code = if path.is_empty() { "nope".to_owned() } else { code };
        place.provider.script(path, answer);
        let failed = place.complete(&state, &code).await;
        place.provider.script(path, None);
        let told = reason(&failed, Code::FailedPrecondition, "SIGN_IN_FAILED")["reason"].clone();
        let status = place.status(&begun).await["sign_in"].clone();
        assert_eq!((&status["status"], &status["reason"]), (&json!("failed"), &told));
        reason(&place.complete(&query["state"], &code).await, Code::FailedPrecondition, "STATE_INVALID");
        text(&told)
    };
    assert_eq!(bring("", None).await, "exchange_refused");
    let down = || Some(ProviderAnswer::Json(503, json!({})));
    assert_eq!(bring("/gl/oauth/token", down()).await, "provider_failed");
    assert_eq!(bring("/gl/api/v4/user", down()).await, "provider_failed");
    assert_eq!(bring("/gl/api/v4/user", Some(ProviderAnswer::Json(403, json!({})))).await, "test_refused");
    let revoked = place.provider.calls("/gl/oauth/revoke");
    assert_eq!(revoked.len(), 2, "tokens that are not kept are revoked");
    assert_eq!(place.count("connections").await, 0);
    assert_eq!(place.count("connection_credentials").await, 0);
    assert!(place.audited().await.contains(&"sign_in.failed".to_owned()));
}

async fn a_sign_in_ends_with_its_time(place: Place) {
    let (begun, _) = place.begin(json!({})).await;
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    place.advance(seconds(601)).await;
    assert_eq!(place.status(&begun).await["sign_in"]["status"], "expired");
    reason(&place.complete(&state, &code).await, Code::FailedPrecondition, "STATE_INVALID");
    assert!(place.provider.calls("/gl/oauth/token").is_empty());
    place.advance(seconds(24 * 3_600)).await;
    portico_testkit::turn(&place, "connections.prune_sign_ins").await;
    assert_eq!(place.count("connection_sign_ins").await, 0);
}

async fn a_workspace_is_connected_once(place: Place) {
    let first = place.by_sign_in().await;
    place.grant(&id(&first), json!({})).await;
    place.patch(&id(&first), json!({ "name": "Kept" })).await.ok();
    let again = place.by_sign_in().await;
    assert_eq!((&again["id"], &again["name"], &again["grants"]), (&first["id"], &json!("Kept"), &json!(1)));
    assert_ne!(again["credential"]["reference"], first["credential"]["reference"]);
    assert_eq!(place.count("connections").await, 1);
    place.provider.set_workspace(78);
    assert_ne!(place.by_sign_in().await["id"], first["id"]);
    assert_eq!(place.count("connections").await, 2);
    // Another instance may know somebody else by the same id.
    let complete = async |more: Value| {
        let (begun, _) = place.begin(more).await;
        let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
        place.complete(&state, &code).await.ok()["connection"].clone()
    };
    let host = json!({ "host": "git.acme.test" });
    let elsewhere = complete(json!({ "config": host })).await;
    assert_eq!((&elsewhere["external_id"], &elsewhere["config"]), (&json!("78"), &host));
    assert_eq!(place.count("connections").await, 3);
    // What is not sent again stays.
    let again = complete(json!({ "connection_id": elsewhere["id"] })).await;
    assert_eq!((&again["id"], &again["config"]), (&elsewhere["id"], &host));
    // The same id at another host is another workspace, whoever asks for it.
    let moved = json!({ "connection_id": elsewhere["id"], "config": { "host": "other.acme.test" } });
    let (begun, _) = place.begin(moved).await;
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    let refused = place.complete(&state, &code).await;
    assert_eq!(reason(&refused, Code::FailedPrecondition, "SIGN_IN_FAILED")["reason"], "other_workspace");
    let moved = json!({
        "config": { "host": "other.acme.test" }, "credentials": { "api_key": "gl-key-canary" },
    });
    place.provider.let_in("gl-key-canary");
    let refused = place.patch(&id(&elsewhere), moved).await;
    reason(&refused, Code::FailedPrecondition, "OTHER_WORKSPACE");
}

async fn a_connection_is_signed_in_to_again(place: Place) {
    let made = place.by_sign_in().await;
    let con = id(&made);
    let again = async || place.begin(json!({ "connection_id": con })).await.0;
    place.provider.set_workspace(99);
    let begun = again().await;
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    let other = place.complete(&state, &code).await;
    assert_eq!(reason(&other, Code::FailedPrecondition, "SIGN_IN_FAILED")["reason"], "other_workspace");
    assert_eq!(place.read(&con).await["credential"], made["credential"]);
    place.provider.set_workspace(77);
    let begun = again().await;
    let (state, code) = place.provider.allow(&text(&begun["authorize_url"]));
    assert_eq!(place.complete(&state, &code).await.ok()["connection"]["id"], made["id"]);
    let github = id(&place.by_key().await);
    let body = json!({ "connector": "gitlab", "connection_id": github });
    place.as_owner("POST", "/connect", body).await.refused_field("connector");
    let body = json!({ "connector": "gitlab", "connection_id": "con_00000000000000000000000000" });
    place.as_owner("POST", "/connect", body).await.refused(Code::NotFound);
}

async fn what_does_not_fit_is_named(place: Place) {
    for (body, field) in [
        (json!({}), "connector"),
        (json!({ "connector": "nowhere" }), "connector"),
        (json!({ "connector": "stripe" }), "connector"),
        (json!({ "connector": "endpoint" }), "connector"),
        (json!({ "connector": "gitlab", "scopes": ["api", "sudo"] }), "scopes[1]"),
        (json!({ "connector": "gitlab", "config": { "nope": "x" } }), "config.nope"),
        (json!({ "connector": "gitlab", "name": "" }), "name"),
        (json!({ "connector": "gitlab", "connection_id": "x" }), "connection_id"),
    ] {
        place.as_owner("POST", "/connect", body).await.refused_field(field);
    }
    for (body, field) in [
        (json!({ "state": "x" }), "code"),
        (json!({ "code": "x" }), "state"),
        (json!({ "state": "x", "code": "c".repeat(5_000) }), "code"),
    ] {
        place.as_owner("POST", "/connect/complete", body).await.refused_field(field);
    }
    reason(
        &place.as_owner("POST", "/connect", json!({ "connector": "linear" })).await,
        Code::FailedPrecondition,
        "NO_CLIENT",
    );
    let (_, query) = place.begin(json!({ "scopes": ["read_api"] })).await;
    assert_eq!(query["scope"], "read_api");
}

async fn an_account_brings_its_own_client(place: Place) {
    let client = "/connectors/gitlab/client";
    let read =
        async || place.app.get(&place.path("/connectors/gitlab")).await.ok()["connector"]["client"].clone();
    assert_eq!(read().await, json!({ "client_id": "", "source": "operator", "set_at": "" }));
    let body = json!({ "client_id": "own-1", "client_secret": "own-client-canary" });
    let brought = place.call("PUT", &place.token, &place.path(client), &body).await;
    assert!(!brought.text().contains("own-client-canary"));
    assert_eq!(brought.ok()["connector"]["client"]["client_id"], "own-1");
    assert_eq!(read().await["source"], "account");
    let made = place.by_sign_in().await;
    let sent = String::from_utf8_lossy(&place.provider.calls("/gl/oauth/token")[0].body).into_owned();
    assert!(sent.contains("client_id=own-1") && sent.contains("client_secret=own-client-canary"), "{sent}");
    assert_eq!(made["status"], "active");
    let removed = place.delete(client).await.ok();
    assert_eq!(removed["connector"]["client"]["source"], "operator");
    // What was signed in to by one client is not refreshed by another, and is not lost by that either.
    let con = id(&made);
    place.grant(&con, json!({})).await;
    place.advance(seconds(3_601)).await;
    let issues = async || place.act(&con, "list_issues", json!({ "project": "7" })).await;
    reason(&issues().await, Code::FailedPrecondition, "NO_CLIENT");
    assert_eq!(place.provider.calls("/gl/oauth/token").len(), 1, "the provider is not asked");
    place.call("PUT", &place.token, &place.path(client), &body).await.ok();
    issues().await.ok();
    place.delete(client).await.ok();
    for (path, body, field) in [
        (client, json!({ "client_id": "", "client_secret": "s" }), "client_id"),
        (client, json!({ "client_id": "a b", "client_secret": "s" }), "client_id"),
        (client, json!({ "client_id": "a", "client_secret": "" }), "client_secret"),
        ("/connectors/stripe/client", json!({ "client_id": "a", "client_secret": "s" }), "connector"),
    ] {
        place.call("PUT", &place.token, &place.path(path), &body).await.refused_field(field);
    }
    let nowhere = place.path("/connectors/nowhere/client");
    let body = json!({ "client_id": "a", "client_secret": "s" });
    place.call("PUT", &place.token, &nowhere, &body).await.refused(Code::NotFound);
    let audited = place.audited().await;
    for action in ["connector.client_set", "connector.client_removed"] {
        assert!(audited.contains(&action.to_owned()), "{action}");
    }
}

async fn sign_ins_are_limited_in_number(place: Place) {
    for _ in 0..10 {
        place.begin(json!({})).await;
    }
    let one_more = place.as_owner("POST", "/connect", json!({ "connector": "gitlab" })).await;
    assert_eq!(reason(&one_more, Code::FailedPrecondition, "LIMIT_REACHED")["limit"], "10");
    place.advance(seconds(601)).await;
    place.begin(json!({})).await;
}
