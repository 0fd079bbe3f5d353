//! Scopes are names that areas bring: here the lab's `heavy:read`, of which no other part of the platform knows.

use std::sync::Arc;

use portico::{Areas, Environment};
use portico_engine::{Area, Ctx, Done, Operation, Spec};
use portico_kernel::{Code, Problem, ScopeSet};
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const HEAVY: &str = "/v1/lab/heavy";

async fn heavy(app: &TestApp, token: &str) -> Answer {
    app.send(TestRequest::new("GET", HEAVY).bearer(token)).await
}

/// The scopes that the document lists for a new key.
fn listed(document: &Value) -> Vec<&str> {
    let create = &document["paths"]["/v1/accounts/orgs/{org_id}/keys"]["post"];
    let schema = &create["requestBody"]["content"]["application/json"]["schema"];
    let names = &schema["properties"]["scopes"]["items"]["enum"];
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

on_both_databases! {
    a_scope_that_an_area_brings_opens_its_operations_and_no_others,
    every_list_of_scopes_shows_what_areas_bring,
    a_set_that_holds_a_name_of_nothing_is_refused,
}

async fn a_scope_that_an_area_brings_opens_its_operations_and_no_others(app: TestApp) {
    let own = app.token_with(app.account, ScopeSet::from("heavy:read")).await;
    heavy(&app, &own).await.ok();
    app.send(TestRequest::new("GET", "/v1/me").bearer(&own)).await.refused(Code::Forbidden);
    let others = app.token_without("heavy:read").await;
    let refusal = heavy(&app, &others).await;
    refusal.refused(Code::Forbidden);
    assert!(refusal.text().contains("`heavy:read`"), "{}", refusal.text());
    let key = app.new_key(app.account, ScopeSet::from("heavy:read usage:read")).await;
    heavy(&app, &app.exchange(&key).await).await.ok();
}

async fn every_list_of_scopes_shows_what_areas_bring(app: TestApp) {
    let public = app.get("/openapi.json").await.ok();
    assert!(listed(&public).contains(&"heavy:read"));
    let heavy = json!({ "name": "heavy:read", "description": "Read what is heavy in the lab." });
    assert!(public["info"]["x-platform-scopes"].as_array().unwrap().contains(&heavy));
    let narrow = app.token_with(app.account, ScopeSet::from("heavy:read")).await;
    let narrow = app.send(TestRequest::new("GET", "/v1/openapi.json").bearer(&narrow)).await.ok();
    assert!(narrow["paths"][HEAVY]["get"].is_object());
    assert_eq!(narrow["info"]["x-platform-cut"]["scopes"], json!(["heavy:read"]));
    let metadata = TestRequest::new("GET", "/.well-known/oauth-authorization-server");
    let metadata = app.send_auth(metadata).await.ok();
    assert!(metadata["scopes_supported"].as_array().unwrap().contains(&json!("heavy:read")));
}

async fn a_set_that_holds_a_name_of_nothing_is_refused(app: TestApp) {
    let owner = app.new_person("owner@test", None).await;
    app.join(app.account, owner.id, portico_kernel::Role::Owner).await;
    let owner = app.person_token(owner.id).await;
    let path = format!("/v1/accounts/orgs/{}/keys", app.account);
    let made = app.count("credentials").await;
    for (scopes, field) in [
        (json!(["heavy:write"]), "scopes[0]"),
        (json!(["heavy:read usage:read"]), "scopes[0]"),
        (json!(["heavy:read", ""]), "scopes[1]"),
        (json!(["usage:read", "account:read", "*", "x"]), "scopes[2]"),
        (json!(["usage:read", 1]), "scopes[1]"),
        (json!([]), "scopes"),
        (json!("heavy:read"), "scopes"),
    ] {
        let sent = TestRequest::new("POST", &path).bearer(&owner).json(&json!({ "scopes": scopes }));
        app.send(sent).await.refused_field(field);
    }
    assert_eq!(app.count("credentials").await, made);
    let sent = TestRequest::new("POST", &path).bearer(&owner).json(&json!({ "scopes": ["heavy:read"] }));
    assert_eq!(app.send(sent).await.ok()["key"]["scopes"], json!(["heavy:read"]));
}

/// Do nothing.
#[derive(Deserialize, JsonSchema)]
struct AskForNothing {}

impl Operation for AskForNothing {
    const SPEC: Spec = Spec::get("test.nothing.get", "/v1/test/nothing").scope("nothing:read");
    type Area = ();
    type Answer = Done;

    async fn run(self, (): &(), _: &mut Ctx) -> Result<Done, Problem> {
        Ok(Done {})
    }
}

fn refused(area: Area) -> String {
    let areas = Areas::new(&Environment::default(), false).unwrap();
    areas.registry("http://api.test", vec![area]).err().unwrap().to_string()
}

#[tokio::test]
async fn the_registry_refuses_a_scope_that_comes_twice_and_one_that_nobody_brings() {
    let area = || Area::builder("test", Arc::new(()));
    let twice = area().scope("usage:read", "Read it again.").build();
    assert_eq!(refused(twice), "two areas bring the scope usage:read");
    let unknown = area().op::<AskForNothing>().build();
    assert_eq!(refused(unknown), "test.nothing.get asks for the scope nothing:read, which no area brings");
}
