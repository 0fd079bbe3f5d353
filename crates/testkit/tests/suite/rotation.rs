//! Signing keys change without anyone noticing.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico::admin::{Admin, SigningKeyCommand};
use portico_kernel::{Code, Role};
use portico_testkit::{Database, TestApp, TestRequest, on_both_databases};
use serde_json::Value;

async fn published(app: &TestApp) -> Vec<String> {
    let jwks = app.send_auth(TestRequest::new("GET", "/.well-known/jwks.json")).await.ok();
    let keys = jwks["keys"].as_array().unwrap();
    assert!(keys.iter().all(|key| key.get("d").is_none()), "no private part");
    keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

fn signed_by(token: &str) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    serde_json::from_slice::<Value>(&header).unwrap()["kid"].as_str().unwrap().to_owned()
}

async fn exchanged(app: &TestApp, key: &Value) -> String {
    let basic = base64::prelude::BASE64_STANDARD.encode(format!(
        "{}:{}",
        key["client_id"].as_str().unwrap(),
        key["client_secret"].as_str().unwrap()
    ));
    let sent = TestRequest::new("POST", "/oauth2/token").header("authorization", &format!("Basic {basic}"));
    let answer = app.send_auth(sent.form("grant_type=client_credentials")).await.ok();
    answer["access_token"].as_str().unwrap().to_owned()
}

async fn rotate(app: &TestApp, now: bool) -> Value {
    app.admin(Admin::SigningKey(SigningKeyCommand::Rotate { now })).await
}

/// What the jobs of the server do by the second.
async fn tick(app: &TestApp) {
    portico_testkit::turn(app, "identity.refresh_signing_keys").await;
    app.catch_up().await;
}

on_both_databases! {
    the_next_key_is_published_a_day_before_it_signs_and_the_last_until_its_tokens_end,
}

async fn the_next_key_is_published_a_day_before_it_signs_and_the_last_until_its_tokens_end(app: TestApp) {
    let key = app.new_key(app.account, app.all_scopes()).await;
    let first = published(&app).await;
    let long = app.new_token(app.account, app.all_scopes(), 30).await["token"].as_str().unwrap().to_owned();
    let made = rotate(&app, false).await;
    let both = published(&app).await;
    assert_eq!(both, [first[0].clone(), made["kid"].as_str().unwrap().to_owned()]);
    assert!(
        portico::admin::run(&app.app, Admin::SigningKey(SigningKeyCommand::Rotate { now: false }))
            .await
            .is_err(),
        "one at a time"
    );
    assert!(
        portico::admin::run(&app.app, Admin::SigningKey(SigningKeyCommand::Remove { kid: both[0].clone() }))
            .await
            .is_err(),
        "it signs"
    );
    app.advance(Duration::from_hours(24) - Duration::from_secs(1)).await;
    let old = exchanged(&app, &key).await;
    assert_eq!(signed_by(&old), both[0], "the next one does not sign yet");
    app.advance(Duration::from_secs(1)).await;
    let new = exchanged(&app, &key).await;
    assert_eq!(signed_by(&new), both[1]);
    for token in [&old, &new, &long] {
        app.send(TestRequest::new("GET", "/v1/me").bearer(token)).await.ok();
    }
    app.advance(Duration::from_hours(24)).await;
    tick(&app).await;
    assert_eq!(published(&app).await, both, "an API token of the first key still lives");
    app.send(TestRequest::new("GET", "/v1/me").bearer(&long)).await.ok();
    app.advance(Duration::from_hours(30 * 24)).await;
    tick(&app).await;
    assert_eq!(published(&app).await, both[1..], "the last of its tokens has ended");
    app.send(TestRequest::new("GET", "/v1/me").bearer(&exchanged(&app, &key).await)).await.ok();
}

#[tokio::test]
async fn in_a_hurry_the_key_that_waits_is_brought_forward() {
    let app = TestApp::new(Database::Sqlite).await;
    let key = app.new_key(app.account, app.all_scopes()).await;
    let waiting = rotate(&app, false).await;
    assert_eq!(rotate(&app, true).await["kid"], waiting["kid"]);
    app.advance(Duration::from_secs(10)).await;
    assert_eq!(signed_by(&exchanged(&app, &key).await), waiting["kid"].as_str().unwrap());
}

/// Several servers erase the same people: their teams lose them once, and keep their other owners.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_that_erase_do_not_stand_in_each_others_way() {
    let first = TestApp::new(Database::Postgres).await;
    let second = first.beside().await;
    let ada = first.new_person("ada@example.com", None).await;
    let mut teams = Vec::new();
    for number in 0..4 {
        let team = first.new_account("Team").await;
        first.join(team, ada.id, Role::Owner).await;
        let person = first.new_person(&format!("p{number}@example.com"), None).await;
        first.join(team, person.id, Role::Owner).await;
        let path = format!("/v1/accounts/orgs/{}", person.account_id);
        first.send(TestRequest::new("DELETE", &path).bearer(&first.person_token(person.id).await)).await.ok();
        teams.push(team);
    }
    first.clock.advance(Duration::from_hours(30 * 24));
    let erase = |app| async move {
        while portico_testkit::turn(app, "accounts.erase").await == portico_engine::JobOutcome::MoreWork {}
    };
    tokio::join!(erase(&first), erase(&second), erase(&first), erase(&second));
    let owner = first.person_token(ada.id).await;
    first.catch_up().await;
    let listed = first.send(TestRequest::new("GET", "/v1/accounts/orgs").bearer(&owner)).await.ok();
    assert!(listed["orgs"].as_array().unwrap().iter().all(|org| org["status"] == "active"), "{listed}");
    for team in teams {
        let path = format!("/v1/accounts/orgs/{team}/events?type=member.removed");
        let events = first.send(TestRequest::new("GET", &path).bearer(&owner)).await.ok();
        assert_eq!(events["events"].as_array().unwrap().len(), 1, "once");
    }
}

/// Whatever is ended on one server, or by the operator, is refused on the other as soon as it has looked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_ends_the_other_refuses() {
    let first = TestApp::new(Database::Postgres).await;
    let second = first.beside().await;
    let ada = first.new_person("ada@example.com", None).await;
    first.join(first.account, ada.id, Role::Owner).await;
    let owner = first.person_token(ada.id).await;
    let key = first.new_key(first.account, first.all_scopes()).await;
    let of_key = exchanged(&second, &key).await;
    let made = first.new_token(first.account, first.all_scopes(), 7).await;
    let token = made["token"].as_str().unwrap().to_owned();
    for known in [&of_key, &token, &owner] {
        second.send(TestRequest::new("GET", "/v1/me").bearer(known)).await.ok();
    }
    let path = format!("/v1/accounts/orgs/{}/tokens/{}", first.account, made["token_id"].as_str().unwrap());
    first.send(TestRequest::new("DELETE", &path).bearer(&owner)).await.ok();
    first.admin(Admin::Revoke { id: key["key_id"].as_str().unwrap().to_owned() }).await;
    first.admin(Admin::Revoke { id: ada.id.to_string() }).await;
    second.catch_up().await;
    for ended in [&of_key, &token, &owner] {
        second.send(TestRequest::new("GET", "/v1/me").bearer(ended)).await.refused(Code::Unauthenticated);
    }
}

/// Two servers on one database, calls all the while, and not one of them refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_under_load_refuses_nobody() {
    let first = TestApp::new(Database::Postgres).await;
    let second = first.beside().await;
    let key = first.new_key(first.account, first.all_scopes()).await;
    let mut signers = std::collections::BTreeSet::new();
    for round in 0..60 {
        if round == 10 {
            rotate(&first, true).await;
        }
        let (one, two) = tokio::join!(exchanged(&first, &key), exchanged(&second, &key));
        signers.extend([signed_by(&one), signed_by(&two)]);
        for token in [&one, &two] {
            let (here, there) = tokio::join!(
                first.send(TestRequest::new("GET", "/v1/me").bearer(token)),
                second.send(TestRequest::new("GET", "/v1/me").bearer(token))
            );
            assert_eq!((here.status, there.status), (200, 200), "round {round}");
        }
        // Each server looks at its own time; neither waits for the other.
        first.clock.advance(Duration::from_millis(500));
        if round % 2 == 0 { first.catch_up().await } else { second.catch_up().await }
    }
    assert_eq!(signers.len(), 2, "both keys signed");
    let old = first.app.identity.keys.list(&first.app.engine).await.unwrap();
    assert_eq!(old.iter().map(|key| key.state).collect::<Vec<_>>(), ["retiring", "active"]);
    first.send(TestRequest::new("GET", "/v1/me").bearer("x")).await.refused(Code::Unauthenticated);
}
