//! The test inbox.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_kernel::{Clock, Code, Role};
use portico_testkit::{Answer, BASE_URL, TestApp, TestRequest, on_both_databases, turn};
use serde_json::{Value, json};

use crate::webhooks::{ENDPOINTS, deliveries, text};

const INBOXES: &str = "/v1/webhooks/inboxes";

async fn inbox(app: &TestApp) -> (String, String) {
    let made = app.post(INBOXES, &json!({})).await.ok();
    (text(&made["inbox"]["id"]), text(&made["inbox"]["address"]))
}

/// An endpoint that points at the inbox; its id and its secret.
async fn endpoint(app: &TestApp, address: &str) -> (String, String) {
    let made = app.post(ENDPOINTS, &json!({ "url": address, "event_types": ["key.created"] })).await.ok();
    (text(&made["id"]), text(&made["secret"]))
}

async fn requests(app: &TestApp, id: &str) -> Vec<Value> {
    let answer = app.get(&format!("{INBOXES}/{id}/requests")).await.ok();
    answer["requests"].as_array().unwrap().clone()
}

fn receive(id: &str) -> String {
    format!("{INBOXES}/{id}/receive")
}

/// Posts without a token, with these headers.
async fn post(app: &TestApp, id: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let sent = headers
        .iter()
        .fold(TestRequest::new("POST", &receive(id)), |sent, (name, value)| sent.header(name, value));
    app.send(sent.bytes(body.to_vec())).await
}

fn sign(secret: &str, id: &str, timestamp: &str, body: &[u8]) -> String {
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let content = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    format!("v1,{}", BASE64_STANDARD.encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &content)))
}

/// Posts, signed with the secret at a time so far off, and answers the verdict.
async fn verdict_off(app: &TestApp, id: &str, secret: &str, off: i64) -> String {
    let timestamp = (app.clock.now().as_seconds() + off).to_string();
    let signature = sign(secret, "msg_1", &timestamp, b"{}");
    let headers = [
        ("webhook-id", "msg_1"),
        ("webhook-timestamp", timestamp.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    post(app, id, &headers, b"{}").await.ok();
    // The clock stands still, and of two at one instant neither is newer.
    app.clock.advance(Duration::from_millis(1));
    text(&requests(app, id).await[0]["verdict"])
}

on_both_databases! {
    a_delivery_to_it_is_valid,
    an_account_has_one,
    it_ends_after_a_day,
    whatever_is_posted_is_kept_as_it_came,
    its_bounds_hold,
    every_verdict_is_given,
    everyone_in_the_account_reads_it,
    another_accounts_inbox_is_no_way_around,
    its_address_has_no_user,
}

async fn a_delivery_to_it_is_valid(app: TestApp) {
    let (id, address) = inbox(&app).await;
    assert_eq!(address, format!("{BASE_URL}{}", receive(&id)));
    let (endpoint, _) = endpoint(&app, &address).await;
    app.post(&format!("{ENDPOINTS}/{endpoint}/test"), &json!({})).await.ok();
    app.sent().await;
    let received = requests(&app, &id).await;
    assert_eq!(received.len(), 1);
    let one = &received[0];
    assert_eq!(
        (&one["verdict"], &one["method"], &one["content_type"]),
        (&json!("valid"), &json!("POST"), &json!("application/json"))
    );
    let body: Value = serde_json::from_str(one["body"].as_str().unwrap()).unwrap();
    assert_eq!((&body["type"], &body["id"]), (&json!("webhook.test"), &one["headers"]["webhook-id"]));
    assert_eq!(one["headers"]["user-agent"], "Portico");
    assert_eq!(one["headers"].as_object().unwrap().len(), 5);
    assert_eq!(deliveries(&app, &endpoint).await[0]["attempts"][0]["status_code"], 200);
    assert_eq!(app.get(INBOXES).await.ok()["inboxes"][0]["requests"], 1);
    // Once it is gone, the delivery says so.
    app.send(TestRequest::new("DELETE", &format!("{INBOXES}/{id}")).bearer(&app.token)).await.ok();
    app.clock.advance(Duration::from_millis(1));
    app.post(&format!("{ENDPOINTS}/{endpoint}/test"), &json!({})).await.ok();
    app.sent().await;
    assert_eq!(deliveries(&app, &endpoint).await[0]["attempts"][0]["status_code"], 404);
}

async fn an_account_has_one(app: TestApp) {
    assert_eq!(app.get(INBOXES).await.ok(), json!({ "inboxes": [], "next_page_token": "" }));
    let both = tokio::join!(inbox(&app), inbox(&app));
    assert_eq!(both.0, both.1, "also when asked for twice at once");
    let listed = app.get(INBOXES).await.ok();
    assert_eq!(listed["inboxes"].as_array().unwrap().len(), 1);
    let one = &listed["inboxes"][0];
    let life = one["expires_at"]
        .as_str()
        .unwrap()
        .parse::<portico_kernel::Timestamp>()
        .unwrap()
        .since(one["created_at"].as_str().unwrap().parse().unwrap());
    assert_eq!(life, Duration::from_hours(24));
    let other = app.new_account("Other").await;
    let stranger = app.token_with(other, app.all_scopes()).await;
    let id = text(&one["id"]);
    for (method, path) in [("GET", format!("{INBOXES}/{id}/requests")), ("DELETE", format!("{INBOXES}/{id}"))]
    {
        app.send(TestRequest::new(method, &path).bearer(&stranger)).await.refused(Code::NotFound);
    }
}

async fn it_ends_after_a_day(app: TestApp) {
    let (id, _) = inbox(&app).await;
    app.advance(Duration::from_secs(24 * 3_600 - 1)).await;
    post(&app, &id, &[], b"x").await.ok();
    app.advance(Duration::from_secs(2)).await;
    post(&app, &id, &[], b"x").await.refused(Code::NotFound);
    app.get(&format!("{INBOXES}/{id}/requests")).await.refused(Code::NotFound);
    assert_eq!(app.get(INBOXES).await.ok()["inboxes"], json!([]));
    let (new, _) = inbox(&app).await;
    assert_ne!(new, id);
    assert_eq!(requests(&app, &new).await.len(), 0);
    app.advance(Duration::from_hours(25)).await;
    turn(&app, "webhooks.prune_inboxes").await;
    assert_eq!((app.count("webhook_inboxes").await, app.count("webhook_requests").await), (0, 0));
}

async fn whatever_is_posted_is_kept_as_it_came(app: TestApp) {
    let (id, _) = inbox(&app).await;
    let odd = [0, 159, 146, 150, b'\n', 255];
    let headers = [
        ("content-type", "application/octet-stream"),
        ("authorization", "Bearer x"),
        ("cookie", "a=b"),
        ("x-foo", "1"),
        ("user-agent", "curl"),
    ];
    assert_eq!(post(&app, &id, &headers, &odd).await.ok(), json!({}));
    let one = requests(&app, &id).await.remove(0);
    assert_eq!(one["body_base64"], BASE64_STANDARD.encode(odd));
    assert_eq!((&one["body"], &one["verdict"]), (&json!(""), &json!("unsigned")));
    assert_eq!(one["headers"], json!({ "content-type": "application/octet-stream", "user-agent": "curl" }));
    app.clock.advance(Duration::from_millis(1));
    post(&app, &id, &[("content-type", "text/plain; charset=latin1")], "a \u{0} \u{1f600}".as_bytes())
        .await
        .ok();
    let one = requests(&app, &id).await.remove(0);
    assert_eq!(
        (&one["body"], &one["content_type"]),
        (&json!("a \u{0} \u{1f600}"), &json!("text/plain; charset=latin1"))
    );
    assert!(one.get("body_base64").is_none());
    app.clock.advance(Duration::from_millis(1));
    app.send(TestRequest::new("POST", &format!("{}?any=thing&any=thing", receive(&id)))).await.ok();
    let one = requests(&app, &id).await.remove(0);
    assert_eq!((&one["body"], &one["content_type"], &one["headers"]), (&json!(""), &json!(""), &json!({})));
    for method in ["GET", "PUT", "PATCH", "DELETE", "HEAD"] {
        assert_eq!(app.send(TestRequest::new(method, &receive(&id))).await.status, 405, "{method}");
    }
    for unknown in ["whi_01KN2MGCG0B9D5MPJTB9D5MPJT", "nonsense", "%2F", "whe_01KN2MGCG0B9D5MPJTB9D5MPJT"] {
        post(&app, unknown, &[], b"x").await.refused(Code::NotFound);
    }
}

async fn its_bounds_hold(app: TestApp) {
    let (id, _) = inbox(&app).await;
    post(&app, &id, &[], &vec![b'x'; 65_537]).await.refused(Code::PayloadTooLarge);
    assert_eq!(requests(&app, &id).await.len(), 0, "it is not kept");
    for count in 0..60u8 {
        app.clock.advance(Duration::from_millis(10));
        post(&app, &id, &[], &[b"\x01", &vec![count; 65_535][..]].concat()).await.ok();
    }
    let refused = post(&app, &id, &[], b"one more").await;
    refused.refused(Code::RateLimited);
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((59..=60).contains(&wait), "{wait}");
    let mut bodies = Vec::new();
    let mut token = String::new();
    loop {
        let answer = app.get(&format!("{INBOXES}/{id}/requests?page_token={token}")).await;
        assert!(answer.body.len() <= 4 << 20, "{}", answer.body.len());
        let page = answer.ok();
        bodies.extend(page["requests"].as_array().unwrap().iter().map(|each| each["received_at"].clone()));
        token = text(&page["next_page_token"]);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(bodies.len(), 50, "the last fifty");
    assert!(bodies.is_sorted_by(|a, b| a.as_str() > b.as_str()), "newest first");
    app.advance(Duration::from_secs(wait)).await;
    post(&app, &id, &[], b"again").await.ok();
}

async fn every_verdict_is_given(app: TestApp) {
    let (id, address) = inbox(&app).await;
    post(&app, &id, &[("webhook-signature", "v1,x")], b"{}").await.ok();
    assert_eq!(requests(&app, &id).await[0]["verdict"], "no_endpoint");
    let (endpoint_id, secret) = endpoint(&app, &address).await;
    let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    app.clock.advance(Duration::from_millis(1));
    for (off, verdict) in [(0, "valid"), (290, "valid"), (-290, "valid"), (310, "invalid"), (-310, "invalid")]
    {
        assert_eq!(verdict_off(&app, &id, &secret, off).await, verdict, "{off}");
    }
    assert_eq!(verdict_off(&app, &id, other, 0).await, "invalid");
    let rotated = app.post(&format!("{ENDPOINTS}/{endpoint_id}/rotate"), &json!({})).await.ok();
    assert_eq!(verdict_off(&app, &id, &secret, 0).await, "valid", "the old one, for a day");
    assert_eq!(verdict_off(&app, &id, &text(&rotated["secret"]), 0).await, "valid");
    // An endpoint that is disabled still points here; one that points elsewhere does not.
    let address = format!("{ENDPOINTS}/{endpoint_id}");
    let patch = |body: Value| TestRequest::new("PATCH", &address).bearer(&app.token).json(&body);
    app.send(patch(json!({ "url": "https://example.com/" }))).await.ok();
    assert_eq!(verdict_off(&app, &id, &secret, 0).await, "no_endpoint");
}

async fn everyone_in_the_account_reads_it(app: TestApp) {
    let (id, _) = inbox(&app).await;
    post(&app, &id, &[], b"x").await.ok();
    let person = app.new_person("ada@test", None).await;
    app.join(app.account, person.id, Role::Member).await;
    let token = app.person_token(person.id).await;
    let path = format!("{INBOXES}/{id}/requests");
    assert_eq!(
        app.send(TestRequest::new("GET", &path).bearer(&token)).await.ok()["requests"][0]["body"],
        "x"
    );
    let listed = app
        .send(TestRequest::new("GET", &format!("{INBOXES}?account_id={}", app.account)).bearer(&token))
        .await
        .ok();
    assert_eq!(listed["inboxes"][0]["id"], id);
}

async fn another_accounts_inbox_is_no_way_around(app: TestApp) {
    let (_, address) = inbox(&app).await;
    let other = app.new_account("Other").await;
    let stranger = app.token_with(other, app.all_scopes()).await;
    let body = json!({ "url": address, "event_types": ["key.created"] });
    app.send(TestRequest::new("POST", ENDPOINTS).bearer(&stranger).json(&body)).await.refused_field("url");
}

async fn its_address_has_no_user(app: TestApp) {
    let (id, address) = inbox(&app).await;
    for user in ["ada@", "ada:secret@", ":secret@"] {
        let url = address.replacen("://", &format!("://{user}"), 1);
        let refused = app.post(ENDPOINTS, &json!({ "url": url, "event_types": ["key.created"] })).await;
        assert!(refused.refused_field("url").contains("without a user"), "{url}");
    }
    endpoint(&app, &address).await;
    assert!(address.contains(&id));
}
