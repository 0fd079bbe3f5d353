//! Keys and API tokens over the API.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

/// A team, and the token of a person with that role in it.
async fn person_with(app: &TestApp, role: Role) -> String {
    let person = app.new_person(&format!("{}@example.com", role.name()), None).await;
    app.join(app.account, person.id, role).await;
    app.person_token(person.id).await
}

async fn call(app: &TestApp, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let path = format!("/v1/accounts/orgs/{}/{path}", app.account);
    let sent = TestRequest::new(method, &path).bearer(token);
    app.send(if method == "POST" { sent.json(body) } else { sent }).await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The data of the account's latest event of that type.
async fn event(app: &TestApp, event_type: &str) -> Value {
    let path = format!("/v1/accounts/orgs/{}/events?type={event_type}&page_size=1", app.account);
    app.get(&path).await.ok()["events"][0]["data"].clone()
}

on_both_databases! {
    owners_and_admins_make_them_and_members_do_not,
    what_cannot_be_made_is_told,
    ten_keys_and_twenty_tokens_also_side_by_side,
    a_key_makes_keys_below_itself,
    no_key_slips_in_below_one_that_is_revoked,
    a_key_below_an_api_token_ends_with_it,
    a_revoked_key_is_refused_at_once_whoever_revoked_it,
    lists_are_walked_newest_first,
}

async fn owners_and_admins_make_them_and_members_do_not(app: TestApp) {
    let body = json!({ "name": "ci", "scopes": ["identity:read", "account:read"], "days": 30 });
    for role in [Role::Owner, Role::Admin] {
        let token = person_with(&app, role).await;
        app.clock.advance(Duration::from_millis(1));
        let made = call(&app, &token, "POST", "tokens", &body).await.ok();
        assert_eq!((&made["key"]["kind"], &made["key"]["name"]), (&json!("token"), &json!("ci")));
        let me =
            app.send(TestRequest::new("GET", "/v1/me").bearer(made["token"].as_str().unwrap())).await.ok();
        assert_eq!(
            (&me["subject"], &me["scopes"]),
            (&made["key"]["id"], &json!(["account:read", "identity:read"]))
        );
        assert_eq!(event(&app, "token.created").await["token_id"], made["key"]["id"]);
        let listed = call(&app, &token, "GET", "tokens", &json!(null)).await.ok();
        assert_eq!(listed["tokens"][0], made["key"]);
        assert!(!listed.to_string().contains(made["token"].as_str().unwrap()), "shown once");
        let path = format!("tokens/{}", text(&made["key"]["id"]));
        assert_eq!(call(&app, &token, "DELETE", &path, &json!(null)).await.ok(), json!({}));
        let gone = event(&app, "token.revoked").await;
        assert_eq!((&gone["token_id"], gone.as_object().unwrap().len()), (&made["key"]["id"], 2));
        app.catch_up().await;
        app.send(TestRequest::new("GET", "/v1/me").bearer(made["token"].as_str().unwrap()))
            .await
            .refused(Code::Unauthenticated);
        let listed = call(&app, &token, "GET", "tokens", &json!(null)).await.ok();
        assert_ne!(listed["tokens"][0]["revoked_at"], "", "the record stays");
        let key = call(&app, &token, "POST", "keys", &json!({ "scopes": ["identity:read"] })).await.ok();
        assert!(text(&key["client_secret"]).starts_with("pcs_"));
        assert_eq!(event(&app, "key.created").await["key_id"], key["key"]["id"]);
        call(&app, &token, "DELETE", &format!("keys/{}", text(&key["key"]["id"])), &json!(null)).await.ok();
        assert_eq!(event(&app, "key.revoked").await["key_id"], key["key"]["id"]);
    }
    let member = person_with(&app, Role::Member).await;
    for path in ["tokens", "keys"] {
        call(&app, &member, "POST", path, &body).await.refused(Code::Forbidden);
        call(&app, &member, "GET", path, &json!(null)).await.refused(Code::Forbidden);
    }
    let stranger = app.person_token(app.new_person("eve@example.com", None).await.id).await;
    call(&app, &stranger, "POST", "tokens", &body).await.refused(Code::Forbidden);
}

async fn what_cannot_be_made_is_told(app: TestApp) {
    let owner = person_with(&app, Role::Owner).await;
    for (body, field) in [
        (json!({ "scopes": [] }), "scopes"),
        (json!({}), "scopes"),
        (json!({ "scopes": ["identity:reed"] }), "scopes[0]"),
        (json!({ "scopes": ["rfc:read"] }), "scopes[0]"),
        (json!({ "scopes": ["lab:read"] }), "scopes[0]"),
        (json!({ "scopes": ["identity:read"], "days": 8 }), "days"),
        (json!({ "scopes": ["identity:read"], "days": 366 }), "days"),
        (json!({ "scopes": ["identity:read"], "days": "soon" }), "days"),
        (json!({ "scopes": ["identity:read"], "days": -7 }), "days"),
        (json!({ "scopes": ["identity:read"], "name": "x".repeat(101) }), "name"),
        (json!({ "scopes": ["identity:read"], "name": "a\nb" }), "name"),
    ] {
        let answer = call(&app, &owner, "POST", "tokens", &body).await;
        assert!(
            answer.status == 400
                && answer.text().contains(&format!("\"field\":\"{}", field.split('[').next().unwrap())),
            "{body}: {}",
            answer.text()
        );
    }
    for days in [7, 30, 90, 365] {
        let made =
            call(&app, &owner, "POST", "tokens", &json!({ "scopes": ["identity:read"], "days": days }))
                .await
                .ok();
        let claims = crate::apps::claims(made["token"].as_str().unwrap());
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), days * 24 * 3600);
    }
    call(&app, &owner, "DELETE", "keys/key_01KN2MGCG0B9D5MPJTB9D5MPJT", &json!(null))
        .await
        .refused(Code::NotFound);
    call(&app, &owner, "DELETE", "keys/x", &json!(null)).await.refused_field("key_id");
    let other = app.new_key(app.new_account("Other").await, app.all_scopes()).await;
    call(&app, &owner, "DELETE", &format!("keys/{}", text(&other["key_id"])), &json!(null))
        .await
        .refused(Code::NotFound);
}

async fn ten_keys_and_twenty_tokens_also_side_by_side(app: TestApp) {
    let owner = person_with(&app, Role::Owner).await;
    let body = json!({ "scopes": ["identity:read"] });
    for (path, most) in [("keys", 10), ("tokens", 20)] {
        // The account has one token already, which the test itself calls with.
        let room = if path == "tokens" { most - 1 } else { most };
        let answers =
            futures_util::future::join_all((0..room + 5).map(|_| call(&app, &owner, "POST", path, &body)))
                .await;
        let made: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(made.len(), room, "{path}");
        let refused = call(&app, &owner, "POST", path, &body).await.refused(Code::FailedPrecondition);
        assert_eq!(refused["details"][0]["reason"], "LIMIT_REACHED");
        assert_eq!(refused["details"][0]["metadata"]["limit"], most.to_string());
        let id = text(&made[0].json()["key"]["id"]);
        call(&app, &owner, "DELETE", &format!("{path}/{id}"), &json!(null)).await.ok();
        call(&app, &owner, "POST", path, &body).await.ok();
    }
}

async fn a_key_makes_keys_below_itself(app: TestApp) {
    let owner = person_with(&app, Role::Owner).await;
    let parent = call(
        &app,
        &owner,
        "POST",
        "tokens",
        &json!({ "scopes": ["account:keys", "identity:read", "events:read"] }),
    )
    .await
    .ok();
    let (id, token) = (text(&parent["key"]["id"]), text(&parent["token"]));
    let beside = call(&app, &owner, "POST", "keys", &json!({ "scopes": ["identity:read"] })).await.ok();
    call(&app, &token, "POST", "keys", &json!({ "scopes": ["identity:read", "webhooks:read"] }))
        .await
        .refused_field("scopes[1]");
    call(&app, &token, "POST", "keys", &json!({ "scopes": ["account:keys"] }))
        .await
        .refused_field("scopes[0]");
    call(
        &app,
        &token,
        "POST",
        "keys",
        &json!({ "scopes": ["identity:read"], "parent": beside["key"]["id"] }),
    )
    .await
    .refused_field("parent");
    let child = call(&app, &token, "POST", "keys", &json!({ "scopes": ["identity:read"] })).await.ok();
    let basic = base64::Engine::encode(
        &base64::prelude::BASE64_STANDARD,
        format!("{}:{}", text(&child["key"]["id"]), text(&child["client_secret"])),
    );
    let exchange = || async {
        let sent =
            TestRequest::new("POST", "/oauth2/token").header("authorization", &format!("Basic {basic}"));
        app.send_auth(sent.form("grant_type=client_credentials")).await
    };
    let sub = text(&exchange().await.ok()["access_token"]);
    let me = app.send(TestRequest::new("GET", "/v1/me").bearer(&sub)).await.ok();
    assert_eq!(me["key"], json!({ "id": child["key"]["id"], "parent": id }));
    let listed = call(&app, &token, "GET", "keys", &json!(null)).await.ok();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1, "only those below it");
    assert_eq!(listed["keys"][0]["parent"], id);
    call(&app, &token, "DELETE", &format!("keys/{}", text(&beside["key"]["id"])), &json!(null))
        .await
        .refused(Code::NotFound);
    call(&app, &token, "POST", "tokens", &json!({ "scopes": ["identity:read"] }))
        .await
        .refused(Code::Forbidden);
    // A person may place a key below another, too.
    let placed =
        call(&app, &owner, "POST", "keys", &json!({ "scopes": ["events:read"], "parent": id })).await.ok();
    assert_eq!((&placed["key"]["parent"], &beside["key"]["parent"]), (&json!(id), &json!("")));
    call(&app, &owner, "POST", "keys", &json!({ "scopes": ["webhooks:read"], "parent": id }))
        .await
        .refused_field("scopes[0]");
    call(&app, &owner, "DELETE", &format!("tokens/{id}"), &json!(null)).await.ok();
    app.catch_up().await;
    app.send(TestRequest::new("GET", "/v1/me").bearer(&sub)).await.refused(Code::Unauthenticated);
    assert_eq!(exchange().await.json()["error"], "invalid_client", "what is below goes with it");
    let keys = call(&app, &owner, "GET", "keys", &json!(null)).await.ok();
    for made in [&child, &placed] {
        let record =
            keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == made["key"]["id"]).unwrap();
        assert_ne!(record["revoked_at"], "");
    }
}

async fn no_key_slips_in_below_one_that_is_revoked(app: TestApp) {
    let owner = person_with(&app, Role::Owner).await;
    for _ in 0..5 {
        let parent =
            call(&app, &owner, "POST", "tokens", &json!({ "scopes": ["account:keys", "identity:read"] }))
                .await
                .ok();
        let (id, token) = (text(&parent["key"]["id"]), text(&parent["token"]));
        let (body, path, nothing) =
            (json!({ "scopes": ["identity:read"] }), format!("tokens/{id}"), json!(null));
        let (made, _) = tokio::join!(
            futures_util::future::join_all((0..4).map(|_| call(&app, &token, "POST", "keys", &body))),
            call(&app, &owner, "DELETE", &path, &nothing)
        );
        for answer in made.iter().filter(|answer| answer.status == 200) {
            let key = answer.json();
            let client =
                crate::apps::App { id: text(&key["key"]["id"]), secret: Some(text(&key["client_secret"])) };
            client.refused(&app, &[("grant_type", "client_credentials")], "invalid_client").await;
        }
    }
}

async fn a_key_below_an_api_token_ends_with_it(app: TestApp) {
    let owner = person_with(&app, Role::Owner).await;
    let parent = call(
        &app,
        &owner,
        "POST",
        "tokens",
        &json!({ "scopes": ["account:keys", "identity:read"], "days": 7 }),
    )
    .await
    .ok();
    let child = call(&app, &text(&parent["token"]), "POST", "keys", &json!({ "scopes": ["identity:read"] }))
        .await
        .ok();
    assert_eq!(child["key"]["expires_at"], parent["key"]["expires_at"]);
    let client =
        crate::apps::App { id: text(&child["key"]["id"]), secret: Some(text(&child["client_secret"])) };
    app.advance(Duration::from_hours(7 * 24) - Duration::from_mins(5)).await;
    let last = client.token(&app, &[("grant_type", "client_credentials")]).await.ok();
    assert!(last["expires_in"].as_i64().unwrap() <= 300, "{last}");
    app.advance(Duration::from_mins(5)).await;
    client.refused(&app, &[("grant_type", "client_credentials")], "invalid_client").await;
}

async fn a_revoked_key_is_refused_at_once_whoever_revoked_it(app: TestApp) {
    let key = app.new_key(app.account, app.all_scopes()).await;
    let client = crate::apps::App { id: text(&key["client_id"]), secret: Some(text(&key["client_secret"])) };
    client.token(&app, &[("grant_type", "client_credentials")]).await.ok();
    app.admin(portico::admin::Admin::Revoke { id: client.id.clone() }).await;
    client.refused(&app, &[("grant_type", "client_credentials")], "invalid_client").await;
}

async fn lists_are_walked_newest_first(app: TestApp) {
    let owner = person_with(&app, Role::Owner).await;
    let mut made = Vec::new();
    for _ in 0..5 {
        app.clock.advance(Duration::from_millis(1));
        let scopes = json!({ "scopes": ["identity:read"] });
        let answer = call(&app, &owner, "POST", "keys", &scopes).await.ok();
        made.push(answer["key"]["id"].clone());
    }
    let (mut walked, mut page) = (Vec::new(), String::new());
    loop {
        let answer = call(&app, &owner, "GET", &format!("keys?page_size=2{page}"), &json!(null)).await.ok();
        walked.extend(answer["keys"].as_array().unwrap().iter().map(|key| key["id"].clone()));
        let next = text(&answer["next_page_token"]);
        if next.is_empty() {
            break;
        }
        page = format!("&page_token={next}");
    }
    made.reverse();
    assert_eq!(walked, made);
}
