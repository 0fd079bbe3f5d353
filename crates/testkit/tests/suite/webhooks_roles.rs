//! What people may do with a team's webhooks, by their role.

use portico_kernel::{Code, PersonId, Role};
use portico_testkit::{Answer, Receiver, TestApp, TestRequest};
use serde_json::{Value, json};

use crate::webhooks::{ENDPOINTS, endpoint, get, test, text};
use crate::with_a_receiver;

const INBOXES: &str = "/v1/webhooks/inboxes";

with_a_receiver! {
    members_read_and_admins_write,
    a_removed_members_endpoints_are_disabled_and_their_keys_stay,
    the_remover_chooses_what_becomes_of_it,
    who_sets_an_address_answers_for_it,
    an_endpoint_outlives_the_key_that_made_it_but_not_the_member,
    a_kept_answer_is_for_whoever_may_still_act_there,
}

/// A person of the team.
struct Member {
    id: PersonId,
    token: String,
}

async fn member(app: &TestApp, name: &str, role: Role) -> Member {
    let id = app.new_person(&format!("{name}@example.com"), None).await.id;
    app.join(app.account, id, role).await;
    Member { id, token: app.person_token(id).await }
}

impl Member {
    async fn call(&self, app: &TestApp, method: &str, path: &str, body: &Value) -> Answer {
        let sent = TestRequest::new(method, path).bearer(&self.token);
        app.send(if ["POST", "PATCH"].contains(&method) { sent.json(body) } else { sent }).await
    }

    /// An endpoint of the team at that path of the receiver.
    async fn endpoint(&self, app: &TestApp, receiver: &Receiver, path: &str) -> Answer {
        let body = json!({
            "url": receiver.url(path), "event_types": ["key.created"], "account_id": app.account
        });
        self.call(app, "POST", ENDPOINTS, &body).await
    }
}

async fn members_read_and_admins_write(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    let (_, delivery) = test(&app, &id).await;
    let inbox = text(&app.post(INBOXES, &json!({})).await.ok()["inbox"]["id"]);
    let (plain, admin) =
        (member(&app, "plain", Role::Member).await, member(&app, "admin", Role::Admin).await);
    let (one, team) = (format!("{ENDPOINTS}/{id}"), json!({ "account_id": app.account }));
    let writes = [
        ("PATCH", one.clone(), json!({ "url": receiver.url("/elsewhere") })),
        ("POST", format!("{one}/rotate"), json!({})),
        ("POST", format!("{one}/test"), json!({})),
        ("POST", format!("{one}/recover"), json!({ "since": app.clock_text() })),
        ("POST", format!("/v1/webhooks/deliveries/{delivery}/retry"), json!({})),
        ("POST", INBOXES.to_owned(), team.clone()),
        ("DELETE", format!("{INBOXES}/{inbox}"), json!(null)),
        ("DELETE", one.clone(), json!(null)),
    ];
    let refused = plain.endpoint(&app, &receiver, "/mine").await.refused(Code::Forbidden);
    assert_eq!(
        (&refused["details"][0]["reason"], &refused["details"][0]["metadata"]["role"]),
        (&json!("ROLE_REQUIRED"), &json!("admin"))
    );
    for (method, path, body) in &writes {
        let refused = plain.call(&app, method, path, body).await.refused(Code::Forbidden);
        assert_eq!(refused["details"][0]["reason"], "ROLE_REQUIRED", "{method} {path}");
    }
    assert_eq!(get(&app, &id).await["url"], receiver.url("/hook"), "nothing was changed");
    for path in [one.clone(), format!("{one}/deliveries"), format!("{INBOXES}/{inbox}/requests")] {
        plain.call(&app, "GET", &path, &json!(null)).await.ok();
    }
    // What an admin may, and in their own account everybody.
    admin.endpoint(&app, &receiver, "/admin").await.ok();
    for (method, path, body) in &writes {
        admin.call(&app, method, path, body).await.ok();
    }
    let own = json!({ "url": receiver.url("/own"), "event_types": ["key.created"] });
    plain.call(&app, "POST", ENDPOINTS, &own).await.ok();
    // Keys and tokens are bound by their scopes alone.
    let key = app.exchange(&app.new_key(app.account, app.all_scopes()).await).await;
    let made = TestRequest::new("POST", ENDPOINTS).bearer(&key).json(&own);
    app.send(made).await.ok();
}

/// The path of the member in the team.
fn of(app: &TestApp, member: &Member) -> String {
    format!("/v1/accounts/orgs/{}/members/{}", app.account, member.id)
}

/// Ids and states of what a removal answers, sorted.
fn states(answer: &Value) -> Vec<(String, String)> {
    let resources = answer["resources"].as_array().unwrap();
    let mut states: Vec<_> = resources.iter().map(|each| (text(&each["id"]), text(&each["state"]))).collect();
    states.sort();
    states
}

/// What an admin makes: a key, with it an endpoint, and an endpoint by hand.
struct Creations {
    key: String,
    bearer: String,
    by_key: String,
    by_hand: String,
}

impl Creations {
    async fn of(app: &TestApp, receiver: &Receiver, who: &Member) -> Self {
        let path = format!("/v1/accounts/orgs/{}/keys", app.account);
        let scopes = json!({ "name": "deploys", "scopes": ["webhooks:write", "identity:read"] });
        let made = who.call(app, "POST", &path, &scopes).await.ok();
        let key = json!({ "client_id": made["key"]["id"], "client_secret": made["client_secret"] });
        let bearer = app.exchange(&key).await;
        let body = json!({ "url": receiver.url("/by-key"), "event_types": ["key.created"] });
        let by_key = TestRequest::new("POST", ENDPOINTS).bearer(&bearer).json(&body);
        let by_key = text(&app.send(by_key).await.ok()["id"]);
        let by_hand = text(&who.endpoint(app, receiver, "/by-hand").await.ok()["id"]);
        Self { key: text(&made["key"]["id"]), bearer, by_key, by_hand }
    }
}

async fn a_removed_members_endpoints_are_disabled_and_their_keys_stay(app: TestApp, receiver: Receiver) {
    let (owner, leaver, plain) = (
        member(&app, "owner", Role::Owner).await,
        member(&app, "leaver", Role::Admin).await,
        member(&app, "plain", Role::Member).await,
    );
    let (others, _) = endpoint(&app, &receiver, "/others", &["key.created"]).await;
    let made = Creations::of(&app, &receiver, &leaver).await;
    let list = format!("{}/resources", of(&app, &leaver));
    plain.call(&app, "GET", &list, &json!(null)).await.refused(Code::Forbidden);
    let listed = owner.call(&app, "GET", &list, &json!(null)).await.ok();
    let mut listed: Vec<_> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (text(&each["kind"]), text(&each["id"]), text(&each["created_by"])))
        .collect();
    listed.sort();
    let mut expected = vec![
        ("endpoint".to_owned(), made.by_hand.clone(), leaver.id.to_string()),
        ("endpoint".to_owned(), made.by_key.clone(), made.key.clone()),
        ("key".to_owned(), made.key.clone(), leaver.id.to_string()),
    ];
    expected.sort();
    assert_eq!(listed, expected);
    let answer = owner.call(&app, "DELETE", &of(&app, &leaver), &json!(null)).await.ok();
    let mut expected = [
        (made.key.clone(), "kept".to_owned()),
        (made.by_key.clone(), "kept".to_owned()),
        (made.by_hand.clone(), "disabled".to_owned()),
    ];
    expected.sort();
    assert_eq!(states(&answer), expected);
    let disabled = get(&app, &made.by_hand).await;
    assert_eq!(
        (&disabled["enabled"], text(&disabled["disabled_reason"]).contains("removed from the account")),
        (&json!(false), true)
    );
    for id in [&others, &made.by_key] {
        assert_eq!(get(&app, id).await["enabled"], true);
    }
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    assert_eq!((receiver.received("/by-hand").len(), !receiver.received("/others").is_empty()), (0, true));
    app.send(TestRequest::new("GET", "/v1/me").bearer(&made.bearer)).await.ok();
    let path = format!("/v1/accounts/orgs/{}/audit?page_size=200", app.account);
    let entries = owner.call(&app, "GET", &path, &json!(null)).await.ok()["entries"].clone();
    let entry = |action: &str, target: &str| {
        let mut found = entries.as_array().unwrap().iter().filter(|entry| entry["action"] == action);
        found.find(|entry| entry["target"] == target).cloned().unwrap()
    };
    assert_eq!(entry("endpoint.created", &made.by_hand)["actor"], json!(leaver.id));
    assert_eq!(entry("endpoint.disabled", &made.by_hand)["actor"], json!(owner.id));
    let removed = entry("member.removed", &leaver.id.to_string());
    assert_eq!(removed["metadata"]["disabled"], json!([made.by_hand]));
    // What they left behind is still known as theirs; a stranger is nobody's member.
    let left = owner.call(&app, "GET", &list, &json!(null)).await.ok();
    assert_eq!(left["resources"].as_array().unwrap().len(), 2);
    let stranger = app.new_person("stranger@example.com", None).await.id;
    let path = format!("/v1/accounts/orgs/{}/members/{stranger}/resources", app.account);
    owner.call(&app, "GET", &path, &json!(null)).await.refused(Code::NotFound);
}

async fn the_remover_chooses_what_becomes_of_it(app: TestApp, receiver: Receiver) {
    let owner = member(&app, "owner", Role::Owner).await;
    let (one, two, plain) = (
        member(&app, "one", Role::Admin).await,
        member(&app, "two", Role::Admin).await,
        member(&app, "plain", Role::Member).await,
    );
    let kept = Creations::of(&app, &receiver, &one).await;
    let answer =
        owner.call(&app, "DELETE", &format!("{}?endpoints=keep", of(&app, &one)), &json!(null)).await.ok();
    assert!(states(&answer).iter().all(|(_, state)| state == "kept"), "{answer}");
    assert_eq!(get(&app, &kept.by_hand).await["enabled"], true);
    let ended = Creations::of(&app, &receiver, &two).await;
    let path = of(&app, &two);
    owner.call(&app, "DELETE", &format!("{path}?keys=sell"), &json!(null)).await.refused_field("keys");
    // Who leaves by themselves may not choose, unless they could revoke keys too.
    let own = format!("{}?endpoints=keep", of(&app, &plain));
    plain.call(&app, "DELETE", &own, &json!(null)).await.refused(Code::Forbidden);
    let answer = two.call(&app, "DELETE", &format!("{path}?keys=revoke"), &json!(null)).await.ok();
    let mut expected = [
        (ended.key.clone(), "revoked".to_owned()),
        (ended.by_key.clone(), "disabled".to_owned()),
        (ended.by_hand.clone(), "disabled".to_owned()),
    ];
    expected.sort();
    assert_eq!(states(&answer), expected);
    Box::pin(portico_testkit::until("the key is refused", async || {
        app.catch_up().await;
        app.send(TestRequest::new("GET", "/v1/me").bearer(&ended.bearer)).await.status == 401
    }))
    .await;
    for id in [&ended.by_key, &ended.by_hand] {
        assert_eq!(get(&app, id).await["enabled"], false);
    }
}

/// Nobody hides an endpoint by ending the key that they made it with.
async fn an_endpoint_outlives_the_key_that_made_it_but_not_the_member(app: TestApp, receiver: Receiver) {
    let (owner, leaver) =
        (member(&app, "owner", Role::Owner).await, member(&app, "leaver", Role::Admin).await);
    let made = Creations::of(&app, &receiver, &leaver).await;
    let key = format!("/v1/accounts/orgs/{}/keys/{}", app.account, made.key);
    leaver.call(&app, "DELETE", &key, &json!(null)).await.ok();
    let path = of(&app, &leaver);
    let listed = owner.call(&app, "GET", &format!("{path}/resources"), &json!(null)).await.ok();
    let mut listed: Vec<_> =
        listed["resources"].as_array().unwrap().iter().map(|each| text(&each["id"])).collect();
    let mut expected = vec![made.by_key.clone(), made.by_hand.clone()];
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    let answer = owner.call(&app, "DELETE", &path, &json!(null)).await.ok();
    assert!(states(&answer).iter().all(|(_, state)| state == "disabled"), "{answer}");
    assert_eq!(get(&app, &made.by_key).await["enabled"], false);
}

async fn who_sets_an_address_answers_for_it(app: TestApp, receiver: Receiver) {
    let (owner, leaver) =
        (member(&app, "owner", Role::Owner).await, member(&app, "leaver", Role::Admin).await);
    let id = text(&owner.endpoint(&app, &receiver, "/hook").await.ok()["id"]);
    let untouched = text(&owner.endpoint(&app, &receiver, "/untouched").await.ok()["id"]);
    for (id, body) in [
        (&id, json!({ "url": receiver.url("/elsewhere") })),
        (&untouched, json!({ "description": "words", "url": receiver.url("/untouched") })),
    ] {
        leaver.call(&app, "PATCH", &format!("{ENDPOINTS}/{id}"), &body).await.ok();
    }
    let answer = owner.call(&app, "DELETE", &of(&app, &leaver), &json!(null)).await.ok();
    assert_eq!(states(&answer), [(id.clone(), "disabled".to_owned())]);
    assert_eq!(get(&app, &untouched).await["enabled"], true);
}

async fn a_kept_answer_is_for_whoever_may_still_act_there(app: TestApp, receiver: Receiver) {
    let (owner, admin) = (member(&app, "owner", Role::Owner).await, member(&app, "admin", Role::Admin).await);
    let send = async |(path, body): &(String, Value)| {
        let sent = TestRequest::new("POST", path).bearer(&admin.token).header("idempotency-key", "k");
        app.send(sent.json(body)).await
    };
    let is_kept = |answer: &Answer| answer.header("idempotency-replayed") == "true";
    // One names the account in a field, the other does not name it at all.
    let body = json!({
        "url": receiver.url("/hook"), "event_types": ["key.created"], "account_id": app.account
    });
    let create = (ENDPOINTS.to_owned(), body);
    let created = send(&create).await.ok();
    assert!(text(&created["secret"]).starts_with("whsec_"));
    let test = (format!("{ENDPOINTS}/{}/test", text(&created["id"])), json!({}));
    let tested = send(&test).await.ok();
    for (request, first) in [(&create, &created), (&test, &tested)] {
        let again = send(request).await;
        assert_eq!((is_kept(&again), &again.ok()), (true, first));
    }
    let path = format!("/v1/accounts/orgs/{}/members/{}", app.account, admin.id);
    owner.call(&app, "PATCH", &path, &json!({ "role": "member" })).await.ok();
    for request in [&create, &test] {
        let refused = send(request).await.refused(Code::Forbidden);
        assert_eq!(refused["details"][0]["reason"], "ROLE_REQUIRED");
    }
    owner.call(&app, "DELETE", &path, &json!(null)).await.ok();
    for request in [&create, &test] {
        send(request).await.refused(Code::Forbidden);
    }
    // Back in their role they are given it again.
    app.join(app.account, admin.id, Role::Admin).await;
    let again = send(&create).await;
    assert_eq!((is_kept(&again), again.ok()), (true, created));
}
