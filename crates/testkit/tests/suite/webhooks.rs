//! Webhook endpoints, and what is delivered to them.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico::Environment;
use portico_egress::TrustedRoots;
use portico_kernel::{Code, Role};
use portico_testkit::{
    Database, ReceivedRequest, Receiver, ReceiverReply, TestApp, TestAppOptions, TestRequest, capture_log,
    captured_log,
};
use serde_json::{Value, json};

pub(crate) const ENDPOINTS: &str = "/v1/webhooks/endpoints";
pub(crate) const HOUR: Duration = Duration::from_hours(1);

/// A platform that may deliver to this machine, and a receiver there.
pub(crate) async fn place(database: Database) -> (TestApp, Receiver) {
    let environment = Environment { egress_allow: "127.0.0.0/8".parse().unwrap(), ..Environment::default() };
    let options = TestAppOptions { environment, ..TestAppOptions::default() };
    let mut app = TestApp::with(database, options).await;
    // Some stories take weeks.
    app.token = text(&app.new_token(app.account, app.all_scopes(), 365).await["token"]);
    (app, Receiver::start().await)
}

/// Makes of each story a test on SQLite and a test on PostgreSQL, with a receiver.
#[macro_export]
macro_rules! with_a_receiver {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            use portico_testkit::Database;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                let (app, receiver) = $crate::webhooks::place(Database::Sqlite).await;
                super::$story(app, receiver).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                let (app, receiver) = $crate::webhooks::place(Database::Postgres).await;
                super::$story(app, receiver).await;
            }
        }
    )+};
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// An endpoint at that path of the receiver; its id and its secret.
pub(crate) async fn endpoint(
    app: &TestApp,
    receiver: &Receiver,
    path: &str,
    types: &[&str],
) -> (String, String) {
    let body = json!({ "url": receiver.url(path), "event_types": types });
    let made = app.post(ENDPOINTS, &body).await.ok();
    (text(&made["id"]), text(&made["secret"]))
}

pub(crate) async fn get(app: &TestApp, id: &str) -> Value {
    app.get(&format!("{ENDPOINTS}/{id}")).await.ok()
}

pub(crate) async fn patch(app: &TestApp, id: &str, body: &Value) -> portico_testkit::Answer {
    app.send(TestRequest::new("PATCH", &format!("{ENDPOINTS}/{id}")).bearer(&app.token).json(body)).await
}

/// Sends a test event; answers its event and its delivery.
pub(crate) async fn test(app: &TestApp, id: &str) -> (String, String) {
    let tested = app.post(&format!("{ENDPOINTS}/{id}/test"), &json!({})).await.ok();
    let (event, delivery) = (text(&tested["event_id"]), text(&tested["delivery_id"]));
    // A delivery is named after its event, but for the last three characters, which name its endpoint.
    assert_eq!(delivery[4..27], event[4..27], "{tested}");
    (event, delivery)
}

/// The endpoint's deliveries, newest first.
pub(crate) async fn deliveries(app: &TestApp, id: &str) -> Vec<Value> {
    let answer = app.get(&format!("{ENDPOINTS}/{id}/deliveries")).await.ok();
    answer["deliveries"].as_array().unwrap().clone()
}

/// Does an entry of the request's signature verify with the secret?
pub(crate) fn verifies(secret: &str, received: &ReceivedRequest) -> bool {
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let head = format!("{}.{}.", received.header("webhook-id"), received.header("webhook-timestamp"));
    let content = [head.as_bytes(), &received.body].concat();
    received.header("webhook-signature").split(' ').any(|entry| {
        let tag = BASE64_STANDARD.decode(entry.strip_prefix("v1,").unwrap()).unwrap();
        hmac::verify(&key, &content, &tag).is_ok()
    })
}

fn at(value: &Value) -> portico_kernel::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

with_a_receiver! {
    an_event_arrives_signed,
    only_what_is_subscribed_arrives_and_only_where,
    an_attempt_that_fails_is_made_again_until_the_eighth,
    whatever_is_not_2xx_is_a_failure_and_says_why,
    a_receiver_may_ask_for_time,
    gone_disables_at_once_and_nothing_more_is_sent,
    five_days_of_failures_disable,
    both_secrets_sign_for_a_day_after_a_rotation,
    a_change_counts_for_the_next_event,
    audit_events_keep_their_order,
    a_delivery_is_sent_again_by_hand,
    attempts_by_hand_are_beside_the_eight_of_the_schedule,
    attempts_by_hand_at_an_audit_event_are_beside_the_eight,
    strangers_see_and_change_nothing,
    the_log_never_says_what_or_where,
    a_server_that_stops_leaves_nothing_claimed,
}

async fn an_event_arrives_signed(app: TestApp, receiver: Receiver) {
    let (id, secret) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    let key = app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    let requests = receiver.received("/hook");
    assert_eq!(requests.len(), 1);
    let one = &requests[0];
    assert_eq!((one.method.as_str(), one.header("content-type")), ("POST", "application/json"));
    assert_eq!(one.header("user-agent"), "Portico");
    assert!(verifies(&secret, one));
    let body = one.json();
    assert_eq!(body["id"], one.header("webhook-id"));
    assert_eq!(body["type"], "key.created");
    assert_eq!(body["account_id"], app.account.to_string());
    assert_eq!(body["data"]["key_id"], key["key_id"]);
    assert_eq!(body.as_object().unwrap().len(), 5);
    let types = app.get("/v1/events/types").await.ok();
    let entry = types["types"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["type"] == "key.created")
        .unwrap()
        .clone();
    assert!(jsonschema::validator_for(&entry["schema"]).unwrap().is_valid(&body));
    let record = get(&app, &id).await;
    assert_eq!((&record["succeeded_24h"], &record["failed_24h"]), (&json!(1), &json!(0)));
    assert_eq!(record["last_delivery_status"], "delivered");
    let all = deliveries(&app, &id).await;
    assert_eq!(
        (all.len(), &all[0]["status"], &all[0]["next_attempt_at"]),
        (1, &json!("delivered"), &json!(""))
    );
    let attempt = &all[0]["attempts"][0];
    assert_eq!(
        (&attempt["number"], &attempt["status_code"], &attempt["outcome"]),
        (&json!(1), &json!(200), &json!("delivered"))
    );
    assert_eq!(attempt["next_retry_at"], "");
}

async fn only_what_is_subscribed_arrives_and_only_where(app: TestApp, receiver: Receiver) {
    endpoint(&app, &receiver, "/keys", &["key.created"]).await;
    endpoint(&app, &receiver, "/tokens", &["token.created", "token.created"]).await;
    app.new_key(app.account, app.all_scopes()).await;
    let other = app.new_account("Other").await;
    app.new_key(other, app.all_scopes()).await;
    app.sent().await;
    assert_eq!(receiver.received("/keys").len(), 1, "another account's event does not come");
    assert_eq!(receiver.received("/tokens").len(), 0);
}

async fn an_attempt_that_fails_is_made_again_until_the_eighth(app: TestApp, receiver: Receiver) {
    let (id, secret) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    let gaps = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
    for (made, gap) in gaps.iter().enumerate() {
        let delivery = deliveries(&app, &id).await.remove(0);
        let attempts = delivery["attempts"].as_array().unwrap();
        assert_eq!((attempts.len(), &delivery["status"]), (made + 1, &json!("pending")));
        assert_eq!(delivery["next_attempt_at"], attempts[made]["next_retry_at"]);
        let wait = at(&attempts[made]["next_retry_at"]).since(at(&attempts[made]["at"])).as_secs_f64();
        let most = f64::from(*gap) + f64::max(1.0, f64::from(*gap) / 20.0) + 1.0;
        assert!((f64::from(*gap)..=most).contains(&wait), "{wait} after attempt {}", made + 1);
        app.advance(Duration::from_secs(u64::try_from(*gap).unwrap() - 1)).await;
        app.sent().await;
        assert_eq!(receiver.received("/hook").len(), made + 1, "not before its time");
        app.advance(Duration::from_secs_f64(most - f64::from(*gap) + 1.0)).await;
        app.sent().await;
        assert_eq!(receiver.received("/hook").len(), made + 2);
    }
    let delivery = deliveries(&app, &id).await.remove(0);
    assert_eq!((&delivery["status"], &delivery["next_attempt_at"]), (&json!("abandoned"), &json!("")));
    assert_eq!(delivery["attempts"].as_array().unwrap().len(), 8);
    app.advance(24 * HOUR).await;
    app.sent().await;
    let requests = receiver.received("/hook");
    assert_eq!(requests.len(), 8, "there is no ninth");
    for one in &requests {
        assert_eq!(one.header("webhook-id"), requests[0].header("webhook-id"));
        assert_eq!(one.body, requests[0].body);
        assert!(verifies(&secret, one));
    }
    assert_ne!(
        requests[0].header("webhook-timestamp"),
        requests[7].header("webhook-timestamp"),
        "signed anew"
    );
}

async fn whatever_is_not_2xx_is_a_failure_and_says_why(app: TestApp, receiver: Receiver) {
    let inner = Receiver::start().await;
    for (path, answering, code, outcome) in [
        ("/201", ReceiverReply::Status(201), 201, "delivered"),
        ("/204", ReceiverReply::Status(204), 204, "delivered"),
        ("/299", ReceiverReply::Status(299), 299, "delivered"),
        ("/long", ReceiverReply::Body(200, vec![b'x'; 1 << 20].into()), 200, "delivered"),
        ("/400", ReceiverReply::Status(400), 400, "status"),
        ("/404", ReceiverReply::Status(404), 404, "status"),
        ("/429", ReceiverReply::Status(429), 429, "status"),
        ("/302", ReceiverReply::With(302, "location", inner.url("/in")), 302, "redirect"),
    ] {
        receiver.answer(path, answering);
        let (id, _) = endpoint(&app, &receiver, path, &["key.created"]).await;
        test(&app, &id).await;
        app.sent().await;
        let delivery = deliveries(&app, &id).await.remove(0);
        assert_eq!(delivery["attempts"][0]["status_code"], code, "{path}");
        assert_eq!(delivery["attempts"][0]["outcome"], outcome, "{path}");
        let status = if outcome == "delivered" { "delivered" } else { "pending" };
        assert_eq!(delivery["status"], status, "{path}");
    }
    assert_eq!(inner.received("/in").len(), 0, "no redirect is followed");
    let gone = { Receiver::start().await.url("/") }.replace("127.0.0.1", "127.0.0.9");
    let made = app.post(ENDPOINTS, &json!({ "url": gone, "event_types": ["key.created"] })).await.ok();
    test(&app, &text(&made["id"])).await;
    app.sent().await;
    let delivery = deliveries(&app, &text(&made["id"])).await.remove(0);
    assert_eq!(delivery["attempts"][0]["outcome"], "connection");
    assert_eq!(delivery["attempts"][0]["status_code"], 0);
}

async fn a_receiver_may_ask_for_time(app: TestApp, receiver: Receiver) {
    receiver.answer("/hook", ReceiverReply::With(503, "retry-after", "120".to_owned()));
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    test(&app, &id).await;
    app.sent().await;
    let attempt = deliveries(&app, &id).await[0]["attempts"][0].clone();
    let wait = at(&attempt["next_retry_at"]).since(at(&attempt["at"])).as_secs();
    assert!((120..=123).contains(&wait), "{wait}");
}

async fn gone_disables_at_once_and_nothing_more_is_sent(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    receiver.answer("/hook", ReceiverReply::Status(410));
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    let record = get(&app, &id).await;
    assert_eq!(record["enabled"], false);
    assert!(text(&record["disabled_reason"]).contains("410"), "{record}");
    assert_eq!(receiver.received("/hook").len(), 2);
    receiver.answer("/hook", ReceiverReply::Status(200));
    app.new_key(app.account, app.all_scopes()).await;
    app.advance(HOUR).await;
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 2, "retries that waited are not made either");
    let all = deliveries(&app, &id).await;
    assert_eq!(all.len(), 2, "nothing is made for one that is disabled");
    assert!(all.iter().all(|each| each["status"] == "failed" && each["next_attempt_at"] == ""), "{all:?}");
    for path in ["test", "recover"] {
        let body = if path == "test" { json!({}) } else { json!({ "since": "2026-01-31T00:00:00Z" }) };
        let refused =
            app.post(&format!("{ENDPOINTS}/{id}/{path}"), &body).await.refused(Code::FailedPrecondition);
        assert_eq!(refused["details"][0]["reason"], "ENDPOINT_DISABLED");
    }
    let retry = format!("/v1/webhooks/deliveries/{}/retry", text(&all[0]["id"]));
    app.post(&retry, &json!({})).await.refused(Code::FailedPrecondition);
    let audit = app.get(&format!("/v1/accounts/orgs/{}/audit?page_size=200", app.account)).await.ok();
    let disabled = audit["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["action"] == "endpoint.disabled")
        .unwrap();
    assert_eq!((&disabled["actor"], &disabled["target"]), (&json!("platform"), &json!(id)));
    // Enabled again, it gets what is new, and with recover what it missed.
    let record = patch(&app, &id, &json!({ "enabled": true })).await.ok();
    assert_eq!((&record["enabled"], &record["disabled_reason"]), (&json!(true), &json!("")));
    assert_eq!(record["event_types"], json!(["key.created"]));
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 3);
    let recovered = app
        .post(&format!("{ENDPOINTS}/{id}/recover"), &json!({ "since": "2026-01-31T00:00:00Z" }))
        .await
        .ok();
    assert_eq!(recovered["recovered"], 3, "two that failed and one that was never made");
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 6);
    assert!(deliveries(&app, &id).await.iter().all(|each| each["status"] == "delivered"));
    let again = app
        .post(&format!("{ENDPOINTS}/{id}/recover"), &json!({ "since": "2026-01-31T00:00:00Z" }))
        .await
        .ok();
    assert_eq!(again["recovered"], 0);
}

async fn five_days_of_failures_disable(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    test(&app, &id).await;
    app.sent().await;
    app.advance(119 * HOUR).await;
    app.sent().await;
    assert_eq!(get(&app, &id).await["enabled"], true);
    // The next retry is the one too many.
    app.advance(2 * HOUR).await;
    app.sent().await;
    let record = get(&app, &id).await;
    assert_eq!(record["enabled"], false);
    assert!(text(&record["disabled_reason"]).contains("5 days"), "{record}");
    // One success in between begins the five days anew.
    patch(&app, &id, &json!({ "enabled": true })).await.ok();
    test(&app, &id).await;
    app.sent().await;
    app.advance(100 * HOUR).await;
    receiver.answer("/hook", ReceiverReply::Status(200));
    test(&app, &id).await;
    app.sent().await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    app.advance(21 * HOUR).await;
    test(&app, &id).await;
    app.sent().await;
    assert_eq!(get(&app, &id).await["enabled"], true);
}

async fn both_secrets_sign_for_a_day_after_a_rotation(app: TestApp, receiver: Receiver) {
    let (id, old) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    test(&app, &id).await;
    app.sent().await;
    let rotated = app.post(&format!("{ENDPOINTS}/{id}/rotate"), &json!({})).await.ok();
    let new = text(&rotated["secret"]);
    assert_ne!(old, new);
    assert_ne!(rotated["secret_rotated_at"], "");
    assert!(!get(&app, &id).await.to_string().contains("whsec_"));
    for (wait, both) in [(Duration::ZERO, true), (23 * HOUR, true), (2 * HOUR, false)] {
        app.advance(wait).await;
        receiver.clear();
        test(&app, &id).await;
        app.sent().await;
        let one = receiver.received("/hook").remove(0);
        assert!(verifies(&new, &one));
        assert_eq!(verifies(&old, &one), both, "{wait:?}");
        assert_eq!(one.header("webhook-signature").split(' ').count(), if both { 2 } else { 1 });
    }
}

async fn a_change_counts_for_the_next_event(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/0", &["key.created"]).await;
    for change in 1..=20 {
        // With this the worker reads the endpoint, and then rests before it reads it again.
        app.sent().await;
        let path = format!("/{change}");
        patch(&app, &id, &json!({ "url": receiver.url(&path) })).await.ok();
        let rotated = app.post(&format!("{ENDPOINTS}/{id}/rotate"), &json!({})).await.ok();
        test(&app, &id).await;
        app.sent().await;
        let requests = receiver.received(&path);
        assert_eq!(requests.len(), 1, "{change}");
        assert!(verifies(&text(&rotated["secret"]), &requests[0]), "{change}");
    }
}

async fn audit_events_keep_their_order(app: TestApp, receiver: Receiver) {
    endpoint(&app, &receiver, "/hook", &["audit.event", "key.created"]).await;
    app.sent().await;
    receiver.clear();
    receiver.answer("/hook", ReceiverReply::Status(500));
    for _ in 0..5 {
        app.new_key(app.account, app.all_scopes()).await;
    }
    app.sent().await;
    let of = |received: Vec<ReceivedRequest>, kind: &str| -> Vec<Value> {
        received.iter().map(ReceivedRequest::json).filter(|body| body["type"] == kind).collect()
    };
    assert_eq!(of(receiver.received("/hook"), "key.created").len(), 5, "the others are not held up");
    assert_eq!(of(receiver.received("/hook"), "audit.event").len(), 1, "the next waits for the one before");
    receiver.clear();
    receiver.answer("/hook", ReceiverReply::Status(200));
    app.advance(Duration::from_secs(7)).await;
    app.sent().await;
    let requests = of(receiver.received("/hook"), "audit.event");
    let audit = app.get(&format!("/v1/accounts/orgs/{}/audit?page_size=200", app.account)).await.ok();
    let entries = audit["entries"].as_array().unwrap();
    let last: Vec<_> = entries.iter().rev().take(5).rev().map(|entry| entry["id"].clone()).collect();
    let ids: Vec<_> = requests.iter().map(|body| body["data"]["audit_event_id"].clone()).collect();
    assert_eq!(ids, last);
    assert_eq!(requests[0]["data"]["action"], "key.created");
    assert_eq!(requests[0]["data"]["actor"], "operator");
}

async fn a_delivery_is_sent_again_by_hand(app: TestApp, receiver: Receiver) {
    let (id, secret) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    let (event, delivery) = test(&app, &id).await;
    app.sent().await;
    let retry = format!("/v1/webhooks/deliveries/{delivery}/retry");
    let retried = app.post(&retry, &json!({})).await.ok();
    assert_eq!(retried["delivery"]["event_id"], event);
    app.sent().await;
    let requests = receiver.received("/hook");
    assert_eq!(requests.len(), 2, "also one that was delivered");
    assert!(requests.iter().all(|one| one.header("webhook-id") == event && verifies(&secret, one)));
    receiver.answer("/hook", ReceiverReply::Status(500));
    app.post(&retry, &json!({})).await.ok();
    app.sent().await;
    let record = deliveries(&app, &id).await.remove(0);
    assert_eq!(
        (&record["status"], &record["next_attempt_at"]),
        (&json!("delivered"), &json!("")),
        "it stays so"
    );
    assert_eq!(record["attempts"].as_array().unwrap().len(), 3);
    // The schedule of one that waits goes on from there.
    let (_, waiting) = test(&app, &id).await;
    app.sent().await;
    app.post(&format!("/v1/webhooks/deliveries/{waiting}/retry"), &json!({})).await.ok();
    app.sent().await;
    let record = deliveries(&app, &id).await.into_iter().find(|each| each["id"] == waiting).unwrap();
    let attempts = record["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    let wait = at(&attempts[1]["next_retry_at"]).since(at(&attempts[1]["at"])).as_secs();
    assert!((5..=7).contains(&wait), "{wait}");
}

async fn attempts_by_hand_are_beside_the_eight_of_the_schedule(app: TestApp, receiver: Receiver) {
    check_attempts_by_hand(app, receiver, "key.created").await;
}

/// What is sent in order is no exception.
async fn attempts_by_hand_at_an_audit_event_are_beside_the_eight(app: TestApp, receiver: Receiver) {
    check_attempts_by_hand(app, receiver, "audit.event").await;
}

async fn check_attempts_by_hand(app: TestApp, receiver: Receiver, event_type: &str) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &[event_type]).await;
    app.sent().await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    app.advance(Duration::from_secs(1)).await;
    let since = app.clock_text();
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    let made = async || {
        let one = deliveries(&app, &id).await.remove(0);
        (one["attempts"].as_array().unwrap().len(), text(&one["status"]), text(&one["id"]))
    };
    let (_, _, delivery) = made().await;
    for _ in 0..3 {
        app.post(&format!("/v1/webhooks/deliveries/{delivery}/retry"), &json!({})).await.ok();
        app.sent().await;
    }
    let recovered = app.post(&format!("{ENDPOINTS}/{id}/recover"), &json!({ "since": since })).await;
    assert_eq!(recovered.ok()["recovered"], 1);
    app.sent().await;
    assert_eq!(made().await, (5, "pending".to_owned(), delivery.clone()));
    for attempt in 6..=12 {
        app.advance(12 * HOUR).await;
        app.sent().await;
        let status = if attempt == 12 { "abandoned" } else { "pending" };
        assert_eq!(made().await, (attempt, status.to_owned(), delivery.clone()));
    }
}

async fn strangers_see_and_change_nothing(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    let (_, delivery) = test(&app, &id).await;
    let other = app.new_account("Other").await;
    let stranger = app.token_with(other, app.all_scopes()).await;
    let one = format!("{ENDPOINTS}/{id}");
    for (method, path) in [
        ("GET", one.clone()),
        ("PATCH", one.clone()),
        ("DELETE", one.clone()),
        ("POST", format!("{one}/rotate")),
        ("POST", format!("{one}/test")),
        ("GET", format!("{one}/deliveries")),
        ("POST", format!("/v1/webhooks/deliveries/{delivery}/retry")),
        ("GET", format!("/v1/webhooks/stats?endpoint_id={id}")),
    ] {
        let sent = TestRequest::new(method, &path).bearer(&stranger);
        let bodiless = ["GET", "DELETE"].contains(&method);
        app.send(if bodiless { sent } else { sent.json(&json!({})) }).await.refused(Code::NotFound);
    }
    let listed = app.send(TestRequest::new("GET", ENDPOINTS).bearer(&stranger)).await.ok();
    assert_eq!(listed["endpoints"], json!([]));
    let named = TestRequest::new("GET", &format!("{ENDPOINTS}?account_id={}", app.account)).bearer(&stranger);
    app.send(named).await.refused(Code::Forbidden);
    // A member of the team reaches it from their own account.
    let person = app.new_person("ada@test", None).await;
    app.join(app.account, person.id, Role::Member).await;
    let token = app.person_token(person.id).await;
    let named = TestRequest::new("GET", &format!("{ENDPOINTS}?account_id={}", app.account)).bearer(&token);
    assert_eq!(app.send(named).await.ok()["endpoints"][0]["id"], id);
    assert_eq!(app.send(TestRequest::new("GET", &one).bearer(&token)).await.ok()["id"], id);
}

async fn the_log_never_says_what_or_where(app: TestApp, receiver: Receiver) {
    capture_log();
    let (id, _) = endpoint(&app, &receiver, "/secret-path", &["key.created"]).await;
    let key = app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    let event = receiver.received("/secret-path")[0].header("webhook-id").to_owned();
    let log = captured_log();
    assert!(log.contains("Sent a delivery") && log.contains(&id) && log.contains("delivered"), "{log}");
    for hidden in ["secret-path", &receiver.url(""), &event, key["key_id"].as_str().unwrap()] {
        assert!(!log.contains(hidden), "{hidden} in {log}");
    }
}

async fn a_server_that_stops_leaves_nothing_claimed(app: TestApp, receiver: Receiver) {
    let mut app = app;
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    test(&app, &id).await;
    app.sent().await;
    assert_eq!(app.count("webhook_queues").await, 1);
    app.stop().await;
    assert_eq!(app.count("webhook_queues").await, 0);
    assert_eq!(deliveries(&app, &id).await[0]["status"], "delivered");
}

#[tokio::test]
async fn an_address_is_public_and_https() {
    let app = TestApp::new(Database::Sqlite).await;
    let create =
        async |url: &str| app.post(ENDPOINTS, &json!({ "url": url, "event_types": ["key.created"] })).await;
    for bad in [
        "",
        "example.com",
        "http://example.com/h",
        "ftp://example.com/",
        "https://",
        "https://user:pw@example.com/",
        "https://127.0.0.1/h",
        "https://10.1.2.3/h",
        "https://172.16.0.1/h",
        "https://192.168.0.1/h",
        "https://[::1]/h",
        "https://[fc00::1]/h",
        "https://[fe80::1]/h",
        "https://[::ffff:10.0.0.1]/x",
        "https://169.254.169.254/x",
        "https://[fd00:ec2::254]/x",
        "https://2130706433/x",
        "https://localhost/x",
        "https://metadata.google.internal/x",
        &format!("https://example.com/{}", "x".repeat(2_048)),
    ] {
        create(bad).await.refused_field("url");
    }
    let made = create("https://example.com/h").await.ok();
    let path = format!("{ENDPOINTS}/{}", text(&made["id"]));
    let patched = app
        .send(TestRequest::new("PATCH", &path).bearer(&app.token).json(&json!({ "url": "http://10.0.0.1/" })))
        .await;
    patched.refused_field("url");
    assert_eq!(app.get(&path).await.ok()["url"], "https://example.com/h");
}

#[tokio::test]
async fn an_endpoint_is_made_read_changed_and_counted() {
    let app = TestApp::new(Database::Sqlite).await;
    let types = ["key.revoked", "key.created"];
    let body = json!({ "url": "https://example.com/h", "description": "d", "event_types": types });
    let mut made = app.post(ENDPOINTS, &body).await.ok();
    let secret = text(&made["secret"]);
    assert!(BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap().len() >= 24);
    made.as_object_mut().unwrap().remove("secret");
    let id = text(&made["id"]);
    assert_eq!(get(&app, &id).await, made);
    assert_eq!(app.get(ENDPOINTS).await.ok()["endpoints"], json!([made]));
    assert_eq!(made.as_object().unwrap().len(), 12);
    assert_eq!(made["event_types"], json!(["key.created", "key.revoked"]));
    for (field, value) in [
        ("url", json!("https://example.org/x")),
        ("description", json!("e")),
        ("event_types", json!(["token.created"])),
        ("enabled", json!(false)),
    ] {
        let mut patch_body = json!({});
        patch_body[field] = value.clone();
        let patched = patch(&app, &id, &patch_body).await.ok();
        assert_eq!(patched[field], value);
        assert_eq!(get(&app, &id).await, patched);
    }
    assert_eq!(get(&app, &id).await["event_types"], json!(["token.created"]), "left out, they stay");
    for types in [
        json!([]),
        json!(["webhook.test"]),
        json!(["*"]),
        json!(["no.such"]),
        json!(["key.created", "webhook.test"]),
    ] {
        let body = json!({ "url": "https://example.com/h", "event_types": types });
        app.post(ENDPOINTS, &body).await.refused(Code::BadRequest);
        patch(&app, &id, &json!({ "event_types": types })).await.refused(Code::BadRequest);
    }
    app.post(ENDPOINTS, &json!({ "url": "https://example.com/h" })).await.refused_field("event_types");
    for _ in 1..50 {
        app.post(ENDPOINTS, &body).await.ok();
    }
    let refused = app.post(ENDPOINTS, &body).await.refused(Code::FailedPrecondition);
    assert_eq!(
        (&refused["details"][0]["reason"], &refused["details"][0]["metadata"]["limit"]),
        (&json!("LIMIT_REACHED"), &json!("50"))
    );
    app.send(TestRequest::new("DELETE", &format!("{ENDPOINTS}/{id}")).bearer(&app.token)).await.ok();
    app.post(ENDPOINTS, &body).await.ok();
    let only_read = app.token_with(app.account, ["webhooks:read"].into_iter().collect()).await;
    app.send(TestRequest::new("POST", ENDPOINTS).bearer(&only_read).json(&body))
        .await
        .refused(Code::Forbidden);
}

#[tokio::test]
async fn an_idempotency_key_sends_one_test_event() {
    let (app, receiver) = place(Database::Sqlite).await;
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    let sent = || {
        let sent = TestRequest::new("POST", &format!("{ENDPOINTS}/{id}/test")).bearer(&app.token);
        sent.header("idempotency-key", "once").json(&json!({}))
    };
    let first = app.send(sent()).await;
    let again = app.send(sent()).await;
    assert_eq!((first.ok(), again.header("idempotency-replayed")), (again.ok(), "true"));
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 1);
}

/// A receiver whose certificate is of the operator's own root is reached where the operator names that root.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_root_of_the_operators_own_is_trusted() {
    let receiver = Receiver::start_tls().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    std::fs::write(&file, Receiver::root()).unwrap();
    for (egress_roots, outcome) in
        [(TrustedRoots::default(), "tls"), (TrustedRoots::read(&file).unwrap(), "delivered")]
    {
        let egress_allow = "127.0.0.0/8, ::1".parse().unwrap();
        let environment = Environment { egress_allow, egress_roots, ..Environment::default() };
        let options = TestAppOptions { environment, ..TestAppOptions::default() };
        let app = TestApp::with(Database::Sqlite, options).await;
        let (id, secret) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
        let (event, _) = test(&app, &id).await;
        app.sent().await;
        assert_eq!(deliveries(&app, &id).await[0]["attempts"][0]["outcome"], outcome);
        let requests = receiver.received("/hook");
        assert_eq!(requests.len(), usize::from(outcome == "delivered"));
        assert!(requests.iter().all(|one| one.header("webhook-id") == event && verifies(&secret, one)));
    }
}
