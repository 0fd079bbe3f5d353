//! Grants: who makes them, what they allow, when they end.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_testkit::TestRequest;
use serde_json::{Value, json};

use super::{Place, beside_each_other, id, issue, options, reason, text};
use crate::with_a_provider;

with_a_provider! {
    a_grant_is_made_by_a_person_and_reads_alone_by_default,
    a_grant_allows_what_it_names,
    what_does_not_fit_is_named,
    a_revoked_grant_stops_the_next_call,
    a_grant_ends_with_its_time_and_with_its_key,
    three_labels_together_are_warned_of,
    members_read_and_do_not_write,
}

async fn a_grant_is_made_by_a_person_and_reads_alone_by_default(place: Place) {
    let con = id(&place.by_key().await);
    let grants = format!("/{con}/grants");
    reason(&place.act(&con, "get_issue", issue()).await, Code::Forbidden, "NOT_GRANTED");
    let by_token = place.to(&grants, json!({ "consumer": place.consumer })).await;
    reason(&by_token, Code::Forbidden, "PERSON_REQUIRED");
    let made = place.grant(&con, json!({})).await;
    assert_eq!(made["warnings"], json!([]));
    let grant = &made["grant"];
    assert!(id(grant).starts_with("grt_"));
    assert_eq!((&grant["max_class"], &grant["actions"]), (&json!("read"), &json!([])));
    assert_eq!(place.read(&con).await["grants"], 1);
    place.act(&con, "get_issue", issue()).await.ok();
    let new = json!({ "owner": "acme", "repo": "app", "title": "PARAM-CANARY" });
    reason(&place.act(&con, "create_issue", new).await, Code::Forbidden, "NOT_GRANTED");
    assert!(place.provider.calls("/gh/").iter().all(|call| call.method == "GET"));
    let listed = place.app.get(&place.path(&grants)).await.ok();
    assert_eq!(listed["grants"][0]["id"], grant["id"]);
    assert_ne!(listed["grants"][0]["last_used_at"], "");
    let used_by = place.read(&con).await["used_by"].clone();
    assert_eq!(used_by, json!([place.consumer]));
    let uses = place.uses(&format!("consumer={}", place.consumer)).await;
    let classes: Vec<_> = uses.iter().map(|used| text(&used["error_class"])).collect();
    assert_eq!(classes, ["no_grant", "", "no_grant", ""], "the test came first");
    assert_eq!(uses[1]["grant_id"], grant["id"]);
    assert!(!place.app.get(&place.path("/history")).await.text().contains("PARAM-CANARY"));
    // A person in the console needs none.
    let sent = json!({ "params": issue() });
    let tried = place.as_owner("POST", &format!("/{con}/actions/get_issue"), sent).await.ok();
    assert_eq!(tried["result"]["title"], "First");
    assert_eq!(place.uses("").await[0]["caller_kind"], "person");
}

async fn a_grant_allows_what_it_names(place: Place) {
    let con = id(&place.by_key().await);
    let made = place.grant(&con, json!({ "actions": ["create_issue", "get_repository"] })).await;
    assert_eq!(made["grant"]["max_class"], "write_reversible", "that of the strictest of them");
    reason(&place.act(&con, "get_issue", issue()).await, Code::Forbidden, "NOT_GRANTED");
    let new = json!({ "owner": "acme", "repo": "app", "title": "New" });
    let answer = place.act(&con, "create_issue", new).await.ok();
    assert_eq!((&answer["result"]["number"], &answer["status_code"]), (&json!(2), &json!(201)));
    let merge = json!({ "owner": "acme", "repo": "app", "number": 1 });
    reason(&place.act(&con, "merge_pull_request", merge).await, Code::Forbidden, "NOT_GRANTED");
    let other =
        place.as_owner("POST", &format!("/{con}/grants"), json!({ "consumer": place.consumer })).await;
    other.refused(Code::AlreadyExists);
}

async fn what_does_not_fit_is_named(place: Place) {
    let con = id(&place.by_key().await);
    let grants = format!("/{con}/grants");
    let with = |more: Value| {
        let mut body = json!({ "consumer": place.consumer });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (body, field) in [
        (json!({}), "consumer"),
        (with(json!({ "consumer": "tok_1" })), "consumer"),
        (with(json!({ "consumer": "person:usr_1" })), "consumer"),
        (with(json!({ "actions": ["nope"] })), "actions[0]"),
        (with(json!({ "actions": ["get_issue", "create_issue"], "max_class": "read" })), "actions[1]"),
        (with(json!({ "max_class": "all" })), "max_class"),
        (with(json!({ "expires_at": place.clock_text() })), "expires_at"),
        (with(json!({ "expires_at": "tomorrow" })), "expires_at"),
        (with(json!({ "approval": "never" })), "approval"),
    ] {
        place.as_owner("POST", &grants, body).await.refused_field(field);
    }
    for consumer in ["key:tok_00000000000000000000000000", "key:nope", "agent:app_00000000000000000000000000"]
    {
        place.as_owner("POST", &grants, json!({ "consumer": consumer })).await.refused(Code::NotFound);
    }
    // A key of another account is nobody here.
    let other = place.new_account("Other").await;
    let foreign = place.new_token(other, place.all_scopes(), 7).await;
    let consumer = format!("key:{}", text(&foreign["token_id"]));
    place.as_owner("POST", &grants, json!({ "consumer": consumer })).await.refused(Code::NotFound);
    assert_eq!(place.count("connection_grants").await, 0);
}

async fn a_revoked_grant_stops_the_next_call(place: Place) {
    let con = id(&place.by_key().await);
    let grant = id(&place.grant(&con, json!({})).await["grant"]);
    place.act(&con, "get_issue", issue()).await.ok();
    assert_eq!(place.delete(&format!("/{con}/grants/{grant}")).await.ok(), json!({}));
    reason(&place.act(&con, "get_issue", issue()).await, Code::Forbidden, "NOT_GRANTED");
    assert_eq!(place.read(&con).await["grants"], 0);
    // Revoking twice changes nothing more.
    place.delete(&format!("/{con}/grants/{grant}")).await.ok();
    place.delete(&format!("/{con}/grants/grt_00000000000000000000000000")).await.refused(Code::NotFound);
    let listed = place.app.get(&place.path(&format!("/{con}/grants"))).await.ok();
    assert_ne!(listed["grants"][0]["revoked_at"], "");
    assert_eq!(place.audited().await.iter().filter(|action| *action == "grant.revoked").count(), 1);
    let grant = id(&place.grant(&con, json!({})).await["grant"]);
    // Another server knows at once.
    let beside = place.app.beside_with(options(&place.provider)).await;
    let path = place.path(&format!("/{con}/actions/get_issue"));
    let body = json!({ "params": issue() });
    let elsewhere = async || {
        let sent = || TestRequest::new("POST", &path).bearer(&place.token).json(&body);
        beside_each_other(&place.app, &beside, async || beside.send(sent()).await).await
    };
    elsewhere().await.ok();
    let path_of_grant = format!("/{con}/grants/{grant}");
    let revoke = async || place.delete(&path_of_grant).await;
    beside_each_other(&place.app, &beside, revoke).await.ok();
    reason(&elsewhere().await, Code::Forbidden, "NOT_GRANTED");
}

async fn a_grant_ends_with_its_time_and_with_its_key(place: Place) {
    let con = id(&place.by_key().await);
    let soon = (portico_kernel::Clock::now(&place.clock) + Duration::from_mins(1)).to_string();
    place.grant(&con, json!({ "expires_at": soon })).await;
    place.act(&con, "get_issue", issue()).await.ok();
    place.advance(Duration::from_secs(61)).await;
    reason(&place.act(&con, "get_issue", issue()).await, Code::Forbidden, "NOT_GRANTED");
    place.grant(&con, json!({})).await;
    place.act(&con, "get_issue", issue()).await.ok();
    let made = place.new_token(place.account, place.all_scopes(), 7).await;
    let consumer = format!("key:{}", text(&made["token_id"]));
    let grant = place.as_owner("POST", &format!("/{con}/grants"), json!({ "consumer": consumer })).await.ok();
    place.admin(portico::admin::Admin::Revoke { id: text(&made["token_id"]) }).await;
    portico_testkit::turn(&place, "connections.end_grants").await;
    let listed = place.app.get(&place.path(&format!("/{con}/grants"))).await.ok();
    let ended = listed["grants"].as_array().unwrap().iter().find(|known| known["id"] == grant["grant"]["id"]);
    assert_ne!(ended.unwrap()["revoked_at"], "");
    assert_eq!(place.read(&con).await["grants"], 1, "that of the token that is still good");
    let again = place.as_owner("POST", &format!("/{con}/grants"), json!({ "consumer": consumer })).await;
    again.refused(Code::NotFound);
}

async fn three_labels_together_are_warned_of(place: Place) {
    let con = id(&place.by_key().await);
    let made = place.grant(&con, json!({ "max_class": "write_reversible" })).await;
    assert_eq!(made["warnings"], json!(["trifecta"]));
    // Over two connections it is the same.
    place.delete(&format!("/{con}/grants/{}", id(&made["grant"]))).await.ok();
    assert_eq!(place.grant(&con, json!({ "actions": ["create_issue"] })).await["warnings"], json!([]));
    let other = id(&place.by_sign_in().await);
    assert_eq!(place.grant(&other, json!({})).await["warnings"], json!(["trifecta"]));
}

async fn members_read_and_do_not_write(place: Place) {
    let con = id(&place.by_key().await);
    let member = place.new_person("bob@example.com", None).await;
    place.join(place.account, member.id, Role::Member).await;
    let token = place.person_token(member.id).await;
    for path in ["", "/history", &format!("/{con}"), &format!("/{con}/grants")] {
        place.call("GET", &token, &place.path(path), &Value::Null).await.ok();
    }
    for (method, path, body) in [
        ("POST", String::new(), json!({ "kind": "github" })),
        ("PATCH", format!("/{con}"), json!({ "name": "x" })),
        ("POST", format!("/{con}/test"), json!({})),
        ("DELETE", format!("/{con}"), json!({})),
        ("POST", format!("/{con}/actions/get_issue"), json!({ "params": issue() })),
        ("POST", format!("/{con}/grants"), json!({ "consumer": place.consumer })),
        ("POST", "/connect".to_owned(), json!({ "connector": "gitlab" })),
        ("PUT", "/connectors/gitlab/client".to_owned(), json!({ "client_id": "a", "client_secret": "b" })),
    ] {
        let refused = place.call(method, &token, &place.path(&path), &body).await;
        reason(&refused, Code::Forbidden, "ROLE_REQUIRED");
    }
    let stranger = place.new_person("eve@example.com", None).await;
    let stranger = place.person_token(stranger.id).await;
    place
        .call("GET", &stranger, &place.path(&format!("/{con}")), &Value::Null)
        .await
        .refused(Code::Forbidden);
}
