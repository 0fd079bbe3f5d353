//! Erasing an account.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_store::{Select, args};
use portico_testkit::{Browser, TestApp, TestRequest, on_both_databases, turn};
use serde_json::json;

use crate::apps::{App, sign_in_and_authorize};
use crate::signin::PASSWORD;

/// How many rows of every table name the id, in whichever column.
async fn traces(app: &TestApp, id: &str) -> Vec<(&'static str, i64)> {
    let mut found = Vec::new();
    let mut tx = app.app.engine.db.read().await.unwrap();
    macro_rules! count {
        ($($table:literal: $($column:literal)+;)+) => {$(
            let statement = concat!("select count(*) as value from ", $table, " where ", $($column, " = $1 or "),+, "false");
            let count: i64 = tx.value(statement, args![id.to_owned()]).await.unwrap();
            if count > 0 {
                found.push(($table, count));
            }
        )+};
    }
    count! {
        "accounts": "id"; "members": "account_id" "person_id"; "invitations": "account_id"; "events": "account_id";
        "audit_entries": "account_id"; "account_sequences": "account_id"; "idempotency_records": "account_id";
        "credentials": "account_id"; "authorizations": "account_id" "person_id"; "people": "id" "account_id";
        "passwords": "person_id"; "totp_secrets": "person_id"; "recovery_codes": "person_id"; "passkeys": "person_id";
        "sessions": "person_id"; "links": "person_id"; "lab_things": "account_id"; "unit_months": "account_id";
        "leases": "account_id"; "lease_locks": "account_id"; "usage_hours": "account_id"; "usage_days": "account_id";
        "usage_months": "account_id"; "request_blocks": "account_id"; "service_ids": "account_id";
        "account_changes": "account_id"; "account_order": "account_id";
        "domains": "account_id"; "queue_items": "account_id";
    }
    found
}

/// Lets the job run until it finds nothing more.
async fn erase(app: &TestApp) {
    for _ in 0..200 {
        if turn(app, "accounts.erase").await == portico_engine::JobOutcome::Idle {
            return;
        }
    }
    panic!("the job never ends");
}

on_both_databases! {
    a_team_is_closed_for_thirty_days_and_then_gone,
    with_their_own_account_a_person_goes,
    a_person_on_their_way_out_makes_nothing_that_nobody_would_own,
}

async fn a_team_is_closed_for_thirty_days_and_then_gone(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.join(app.account, ada.id, Role::Owner).await;
    let owner = app.person_token(ada.id).await;
    let path = format!("/v1/accounts/orgs/{}", app.account);
    let key = app.new_key(app.account, app.all_scopes()).await;
    app.post(&app.things(), &json!({ "name": "a" })).await.ok();
    let invite = TestRequest::new("POST", &format!("{path}/invitations")).bearer(&owner);
    app.send(invite.json(&json!({ "email": "guest@example.com" }))).await.ok();
    let erasing = app.send(TestRequest::new("DELETE", &path).bearer(&owner)).await.ok();
    assert_eq!(erasing["status"], "erasing");
    assert_ne!(erasing["erase_after"], "");
    app.send(TestRequest::new("GET", "/v1/me").bearer(&app.token)).await.ok();
    app.catch_up().await;
    app.send(TestRequest::new("GET", "/v1/me").bearer(&app.token)).await.refused(Code::Unauthenticated);
    let client = App {
        id: key["client_id"].as_str().unwrap().to_owned(),
        secret: key["client_secret"].as_str().map(str::to_owned),
    };
    client.refused(&app, &[("grant_type", "client_credentials")], "invalid_client").await;
    app.send(TestRequest::new("GET", &format!("{path}/members")).bearer(&owner)).await.ok();

    app.advance(Duration::from_hours(29 * 24)).await;
    erase(&app).await;
    let owner = app.person_token(ada.id).await;
    let kept = app
        .send(TestRequest::new("PATCH", &path).bearer(&owner).json(&json!({ "status": "active" })))
        .await
        .ok();
    assert_eq!((&kept["status"], &kept["erase_after"]), (&json!("active"), &json!("")));
    app.catch_up().await;
    client.token(&app, &[("grant_type", "client_credentials")]).await.ok();
    app.send(TestRequest::new("DELETE", &path).bearer(&owner)).await.ok();
    app.advance(Duration::from_hours(30 * 24)).await;
    let owner = app.person_token(ada.id).await;
    let late =
        app.send(TestRequest::new("PATCH", &path).bearer(&owner).json(&json!({ "status": "active" }))).await;
    late.refused(Code::FailedPrecondition);
    erase(&app).await;
    assert_eq!(traces(&app, &app.account.to_string()).await, []);
    app.send(TestRequest::new("GET", &format!("{path}/members")).bearer(&owner))
        .await
        .refused(Code::Forbidden);
    app.send(TestRequest::new("GET", "/v1/accounts/me").bearer(&owner)).await.ok();
    assert_ne!(traces(&app, &ada.id.to_string()).await, [], "the person stays");
}

async fn with_their_own_account_a_person_goes(app: TestApp) {
    let ada = app.new_person("ada@example.com", Some(PASSWORD)).await;
    app.join(app.account, ada.id, Role::Owner).await;
    let client = App::create(&app, "identity:read", false).await;
    sign_in_and_authorize(&app, &mut Browser::new(&app), &client, "identity:read").await;
    let path = format!("/v1/accounts/orgs/{}", ada.account_id);
    let token = app.person_token(ada.id).await;
    let refused =
        app.send(TestRequest::new("DELETE", &path).bearer(&token)).await.refused(Code::FailedPrecondition);
    assert_eq!(refused["details"][0]["reason"], "LAST_OWNER");
    let eve = app.new_person("eve@example.com", None).await;
    app.join(app.account, eve.id, Role::Owner).await;
    app.send(TestRequest::new("DELETE", &path).bearer(&token)).await.ok();
    app.advance(Duration::from_hours(30 * 24)).await;
    erase(&app).await;
    assert_eq!(traces(&app, &ada.id.to_string()).await, []);
    assert_eq!(traces(&app, &ada.account_id.to_string()).await, []);
    assert_eq!(Browser::new(&app).sign_in("ada@example.com", PASSWORD).await.status, 401);
    let members = format!("/v1/accounts/orgs/{}/members", app.account);
    let owner = app.person_token(eve.id).await;
    let listed = app.send(TestRequest::new("GET", &members).bearer(&owner)).await.ok();
    assert_eq!(listed["members"].as_array().unwrap().len(), 1);
    let events = format!("/v1/accounts/orgs/{}/events?type=member.removed", app.account);
    let events = app.send(TestRequest::new("GET", &events).bearer(&owner)).await.ok();
    assert_eq!(events["events"][0]["data"], json!({ "user_id": ada.id, "actor": "platform" }));
}

async fn a_person_on_their_way_out_makes_nothing_that_nobody_would_own(app: TestApp) {
    let ada = app.new_person("ada@example.com", None).await;
    let token = app.person_token(ada.id).await;
    let team = app
        .send(TestRequest::new("POST", "/v1/accounts/orgs").bearer(&token).json(&json!({ "name": "Hers" })))
        .await
        .ok();
    let (own, team) =
        (format!("/v1/accounts/orgs/{}", ada.account_id), team["id"].as_str().unwrap().to_owned());
    let of_team = format!("/v1/accounts/orgs/{team}");
    app.send(TestRequest::new("DELETE", &of_team).bearer(&token)).await.ok();
    app.send(TestRequest::new("DELETE", &own).bearer(&token)).await.ok();
    for (path, body) in [
        ("/v1/accounts/orgs".to_owned(), json!({ "name": "Late" })),
        (format!("{own}/tokens"), json!({ "scopes": ["identity:read"] })),
    ] {
        let refused = app
            .send(TestRequest::new("POST", &path).bearer(&token).json(&body))
            .await
            .refused(Code::FailedPrecondition);
        assert_eq!(refused["details"][0]["reason"], "ACCOUNT_CLOSED");
    }
    // She takes the team back, and is its only owner when she goes.
    app.send(TestRequest::new("PATCH", &of_team).bearer(&token).json(&json!({ "status": "active" })))
        .await
        .ok();
    app.advance(Duration::from_hours(30 * 24)).await;
    let token = app.person_token(ada.id).await;
    erase(&app).await;
    app.catch_up().await;
    app.send(TestRequest::new("GET", "/v1/me").bearer(&token)).await.refused(Code::Unauthenticated);
    assert_ne!(traces(&app, &team).await, [], "the team has a grace of its own");
    app.advance(Duration::from_hours(30 * 24)).await;
    erase(&app).await;
    assert_eq!(traces(&app, &team).await, []);
}
