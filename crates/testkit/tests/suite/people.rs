//! Persons: bound by role, not by scopes.

use portico::admin::{AccountCommand, Admin};
use portico_kernel::Code;
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

async fn person(app: &TestApp, email: &str) -> (Value, String) {
    let made = app.new_person(email, None).await;
    let token = app.person_token(made.id).await;
    (json!({ "user_id": made.id, "account_id": made.account_id }), token)
}

async fn get(app: &TestApp, token: &str, path: &str) -> Answer {
    app.send(TestRequest::new("GET", path).bearer(token)).await
}

on_both_databases! {
    a_person_sees_themselves_and_their_teams,
    a_person_reads_accounts_they_belong_to_and_no_others,
    a_persons_document_holds_every_route_and_a_teams_its_plan,
}

async fn a_person_sees_themselves_and_their_teams(app: TestApp) {
    let (ada, token) = person(&app, "Ada@Example.com").await;
    let owner = ada["user_id"].as_str().unwrap().parse().ok();
    let team = AccountCommand::Create { name: "Engines".to_owned(), owner, plan: "team".to_owned() };
    let team = app.admin(Admin::Account(team)).await;
    let me = get(&app, &token, "/v1/me").await.ok();
    assert_eq!((&me["kind"], &me["subject"], &me["key"]), (&json!("person"), &ada["user_id"], &Value::Null));
    assert_eq!((&me["email"], &me["org"]), (&json!("ada@example.com"), &ada["account_id"]));
    let account = get(&app, &token, "/v1/accounts/me").await.ok();
    assert_eq!(account["account"]["id"], ada["account_id"]);
    assert_eq!(account["account"]["role"], "owner");
    assert_eq!(account["teams"][0]["id"], team["account_id"]);
    assert_eq!(account["teams"].as_array().unwrap().len(), 1);
    assert_eq!(account.get("key"), None);
}

async fn a_person_reads_accounts_they_belong_to_and_no_others(app: TestApp) {
    let (ada, token) = person(&app, "ada@example.com").await;
    let own = format!("/v1/accounts/orgs/{}/audit", ada["account_id"].as_str().unwrap());
    assert!(!get(&app, &token, &own).await.ok()["entries"].as_array().unwrap().is_empty());
    let other = format!("/v1/accounts/orgs/{}/audit", app.account);
    get(&app, &token, &other).await.refused(Code::Forbidden);
}

async fn a_persons_document_holds_every_route_and_a_teams_its_plan(app: TestApp) {
    let (ada, token) = person(&app, "ada@example.com").await;
    let owner = ada["user_id"].as_str().unwrap().parse().ok();
    let team = AccountCommand::Create { name: "Engines".to_owned(), owner, plan: "scale".to_owned() };
    let team = app.admin(Admin::Account(team)).await;
    let team = team["account_id"].as_str().unwrap();
    let own = get(&app, &token, "/v1/openapi.json").await.ok();
    assert_eq!(own["info"]["x-platform-cut"]["scopes"], json!([]));
    assert_eq!(own["info"]["x-platform-cut"]["account"], ada["account_id"]);
    assert!(own["paths"].get("/v1/accounts/me").is_some());
    let teams = get(&app, &token, &format!("/v1/openapi.json?account={team}")).await.ok();
    assert_eq!(teams["info"]["x-platform-cut"]["plan"], "scale");
    assert_eq!(teams["info"]["x-platform-cut"]["account"], team);
    get(&app, &token, &format!("/v1/openapi.json?account={}", app.account)).await.refused(Code::Forbidden);
    get(&app, &token, "/v1/openapi.json?account=x").await.refused_field("account");
}
