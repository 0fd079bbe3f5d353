//! Credentials of services, and what their tokens open.

use std::sync::Arc;

use portico::admin::{Admin, ServiceCommand};
use portico_kernel::{Code, Problem, Role};
use portico_testkit::{TestApp, TestRequest, on_both_databases, service_table, turn};
use serde_json::json;

use super::{ACCOUNTS, EVENTS, get, paid, post, result};
use crate::apps::App;

on_both_databases! {
    a_credential_is_exchanged_for_a_token_of_the_service,
    a_token_of_a_service_opens_its_own_routes_and_nothing_else,
    what_is_revoked_is_refused,
    nobody_else_holds_a_scope_of_services,
    a_service_that_is_gone_is_refused,
    a_service_looks_into_tokens_that_hold_its_scopes,
    all_credentials_of_a_service_share_one_minute,
}

async fn refused(app: &TestApp, name: &str) -> Problem {
    let command = Admin::Service(ServiceCommand::Credential { name: name.to_owned() });
    portico::admin::run(&app.app, command).await.unwrap_err()
}

async fn a_credential_is_exchanged_for_a_token_of_the_service(app: TestApp) {
    assert_eq!(refused(&app, "invoices").await.code(), Code::BadRequest, "it is not configured");
    app.app.services.replace(service_table());
    let made = app.service_credential("invoices").await;
    let secret = made["client_secret"].as_str().unwrap();
    assert!(made["client_id"].as_str().unwrap().starts_with("svk_") && secret.starts_with("pcs_"));
    let kept = app.count("service_credentials where secret_hint = ''").await;
    assert_eq!(kept, 0);
    let answer = app.exchange_service(&made, "").await.ok();
    assert_eq!(answer["scope"], "service:accounts service:events service:usage service:verify");
    assert_eq!(answer["expires_in"], 899);
    let narrow = app.exchange_service(&made, "service:events").await.ok();
    assert_eq!(narrow["scope"], "service:events");
    let narrow = narrow["access_token"].as_str().unwrap();
    post(&app, narrow, EVENTS, &json!({ "events": [paid("a", app.account)] })).await.ok();
    get(&app, narrow, ACCOUNTS).await.refused(Code::Forbidden);
    for wrong in ["usage:read", "service:events identity:read", "service:everything"] {
        let refused = app.exchange_service(&made, wrong).await;
        assert_eq!(
            (refused.status, refused.json()["error"].clone()),
            (400, json!("invalid_scope")),
            "{wrong}"
        );
    }
    let mut forged = made.clone();
    forged["client_secret"] = json!("pcs_wrong");
    assert_eq!(app.exchange_service(&forged, "").await.status, 401);
    for _ in 0..2 {
        app.service_credential("invoices").await;
    }
    assert!(refused(&app, "invoices").await.has_reason("LIMIT_REACHED"));
    app.service_credential("bills").await;
    let name = Some("invoices".to_owned());
    let listed = app.admin(Admin::Service(ServiceCommand::Credentials { name })).await;
    let own = |listed: &serde_json::Value| {
        let all = listed["credentials"].as_array().unwrap();
        (all.len(), all.iter().find(|each| each["id"] == made["client_id"]).unwrap().clone())
    };
    assert_eq!((own(&listed).0, &own(&listed).1["last_used_at"]), (3, &json!(null)));
    assert!(!listed.to_string().contains(secret));
    turn(&app, "identity.flush_uses").await;
    let listed = app.admin(Admin::Service(ServiceCommand::Credentials { name: None })).await;
    assert!(own(&listed).1["last_used_at"].is_string(), "{listed}");
}

async fn a_token_of_a_service_opens_its_own_routes_and_nothing_else(app: TestApp) {
    let token = app.service_token("invoices").await;
    let me = get(&app, &token, "/v1/me").await.ok();
    assert_eq!((&me["kind"], &me["org"], &me["name"]), (&json!("service"), &json!(null), &json!("invoices")));
    assert_eq!(me["scopes"].as_array().unwrap().len(), 4);
    let cut = get(&app, &token, "/v1/openapi.json").await.ok();
    assert!(cut["paths"].get(EVENTS).is_some() && cut["paths"].get("/v1/accounts/me").is_none());
    let own = app.get("/v1/openapi.json").await.ok();
    assert!(own["paths"].get(EVENTS).is_none(), "it is not for keys");
    assert!(app.get("/openapi.json").await.ok()["paths"].get(EVENTS).is_some());
    let mut seen = 0;
    for entry in app.app.engine.registry.catalog().entries() {
        let spec = entry.spec;
        if matches!(spec.access, portico_engine::Access::Service(_) | portico_engine::Access::Open)
            || spec.services
        {
            continue;
        }
        if spec.name == "platform.document.get" {
            let path = format!("/v1/openapi.json?account={}", app.account);
            get(&app, &token, &path).await.refused(Code::Forbidden);
            continue;
        }
        let path = spec.path.replace("{org_id}", &app.account.to_string());
        let path = path.replace("{key_id}", "key_1").replace("{user_id}", "usr_1");
        let sent = TestRequest::new(spec.method.name(), &path).bearer(&token);
        let sent = if spec.method.takes_body() { sent.json(&entry.example()) } else { sent };
        let answer = app.send(sent).await;
        // An event type is nothing of an account's.
        let open = ["events.types.list"].contains(&spec.name);
        assert!(answer.status == 403 || open, "{}: {}", spec.name, answer.text());
        seen += 1;
    }
    assert!(seen > 40, "they were found");
}

async fn what_is_revoked_is_refused(app: TestApp) {
    app.app.services.replace(service_table());
    let made = app.service_credential("invoices").await;
    let token = app.exchange_service(&made, "").await.ok()["access_token"].as_str().unwrap().to_owned();
    let beside = app.beside().await;
    beside.app.services.replace(service_table());
    get(&beside, &token, ACCOUNTS).await.ok();
    let id = made["client_id"].as_str().unwrap().to_owned();
    let revoked = app.admin(Admin::Revoke { id: id.clone() }).await;
    assert_eq!(revoked["revoked"], json!([id]));
    assert_eq!(app.exchange_service(&made, "").await.status, 401);
    assert_eq!(beside.exchange_service(&made, "").await.status, 401);
    for server in [&app, &beside] {
        server.catch_up().await;
        get(server, &token, ACCOUNTS).await.refused(Code::Unauthenticated);
    }
    let again = portico::admin::run(&app.app, Admin::Revoke { id }).await;
    assert_eq!(again.unwrap_err().code(), Code::NotFound);
    app.service_credential("invoices").await;
}

async fn nobody_else_holds_a_scope_of_services(app: TestApp) {
    let owner = app.new_person("owner@test", None).await;
    app.join(app.account, owner.id, Role::Owner).await;
    let owner = app.person_token(owner.id).await;
    for kind in ["keys", "tokens"] {
        let path = format!("/v1/accounts/orgs/{}/{kind}", app.account);
        let body = json!({ "scopes": ["usage:read", "service:events"], "days": 7 });
        let body = if kind == "keys" { json!({ "scopes": body["scopes"] }) } else { body };
        let told = post(&app, &owner, &path, &body).await.refused_field("scopes[1]");
        assert!(told.contains("is not a scope"), "{told}");
    }
    let public = app.get("/openapi.json").await.ok();
    let keys = &public["paths"]["/v1/accounts/orgs/{org_id}/keys"]["post"].to_string();
    assert!(keys.contains("usage:read") && !keys.contains("service:"));
    let scopes = public["info"]["x-platform-scopes"].to_string();
    assert!(!scopes.contains("service:"), "{scopes}");
    let metadata = TestRequest::new("GET", "/.well-known/oauth-authorization-server");
    assert!(!app.send_auth(metadata).await.ok().to_string().contains("service:"));
    let key = app.new_key(app.account, app.all_scopes()).await;
    let client = App {
        id: key["client_id"].as_str().unwrap().to_owned(),
        secret: key["client_secret"].as_str().map(str::to_owned),
    };
    client
        .refused(&app, &[("grant_type", "client_credentials"), ("scope", "service:events")], "invalid_scope")
        .await;
    let events = json!({ "events": [paid("a", app.account)] });
    post(&app, &app.token, EVENTS, &events).await.refused(Code::Forbidden);
    post(&app, &owner, EVENTS, &events).await.refused(Code::Forbidden);
    app.send(TestRequest::new("POST", EVENTS).json(&events)).await.refused(Code::Unauthenticated);
}

async fn a_service_that_is_gone_is_refused(app: TestApp) {
    let token = app.service_token("invoices").await;
    let credential = app.service_credential("invoices").await;
    let mut table = service_table();
    table.services.remove("invoices");
    app.app.services.replace(table);
    for path in [ACCOUNTS.to_owned(), format!("{ACCOUNTS}/{}", app.account)] {
        get(&app, &token, &path).await.refused(Code::Forbidden);
    }
    post(&app, &token, EVENTS, &json!({ "events": [paid("a", app.account)] })).await.refused(Code::Forbidden);
    assert_eq!(app.exchange_service(&credential, "").await.json()["error"], "unauthorized_client");
    app.app.services.replace(service_table());
    post(&app, &token, EVENTS, &json!({ "events": [paid("a", app.account)] })).await.ok();
}

async fn a_service_looks_into_tokens_that_hold_its_scopes(app: TestApp) {
    app.app.services.replace(service_table());
    let (invoices, bills) = (app.service_credential("invoices").await, app.service_credential("bills").await);
    let client = |made: &serde_json::Value| App {
        id: made["client_id"].as_str().unwrap().to_owned(),
        secret: made["client_secret"].as_str().map(str::to_owned),
    };
    let (invoices, bills) = (client(&invoices), client(&bills));
    let other = app.new_account("Other").await;
    let heavy = app.token_with(other, "heavy:read usage:read".into()).await;
    let light = app.token_with(other, "usage:read".into()).await;
    let look = async |client: &App, token: &str| {
        client.post(&app, "/oauth2/introspect", &[("token", token)]).await.ok()
    };
    let told = look(&invoices, &heavy).await;
    assert_eq!((&told["active"], &told["org"]), (&json!(true), &json!(other)));
    let nothing = json!({ "active": false });
    assert_eq!(look(&invoices, &light).await, nothing);
    assert_eq!(look(&bills, &heavy).await, nothing, "another service's scope");
    let person = app.new_person("ada@test", None).await.id;
    assert_eq!(look(&invoices, &app.person_token(person).await).await, nothing, "the person's own");
    let id = told["sub"].as_str().unwrap().to_owned();
    app.admin(Admin::Revoke { id }).await;
    assert_eq!(look(&invoices, &heavy).await, nothing, "revoked");
}

async fn all_credentials_of_a_service_share_one_minute(app: TestApp) {
    let tokens = [app.service_token("invoices").await, app.service_token("invoices").await];
    let other = app.service_token("bills").await;
    let first = get(&app, &tokens[0], "/v1/me").await;
    assert_eq!((first.header("x-ratelimit-limit"), first.header("x-ratelimit-remaining")), ("6000", "5999"));
    for at in 1..6_000 {
        get(&app, &tokens[at % 2], "/v1/me").await.ok();
    }
    for token in &tokens {
        let body = json!({ "events": [paid("a", app.account)] });
        let refused = post(&app, token, EVENTS, &body).await;
        refused.refused(Code::RateLimited);
        assert!(!refused.header("retry-after").is_empty());
    }
    get(&app, &other, "/v1/me").await.ok();
    let mut table = service_table();
    let bills = table.services.get_mut("bills").and_then(Arc::get_mut).unwrap();
    bills.calls_per_minute = Some(2);
    app.app.services.replace(table);
    let last = get(&app, &other, "/v1/me").await;
    assert_eq!((last.header("x-ratelimit-limit"), last.header("x-ratelimit-remaining")), ("2", "0"));
    get(&app, &other, "/v1/me").await.refused(Code::RateLimited);
    app.advance(std::time::Duration::from_mins(1)).await;
    let body = json!({ "events": [paid("a", app.account)] });
    assert_eq!(result(&post(&app, &tokens[0], EVENTS, &body).await), (1, 0, vec![]));
    assert_eq!(app.count("unit_months").await, 0, "services use no units of an account");
}
