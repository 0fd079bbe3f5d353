//! What endpoints missed, what is on record, and when it goes.

use std::time::Duration;

use portico_kernel::{Code, Role};
use portico_testkit::{Receiver, ReceiverReply, TestApp, TestRequest, turn};
use serde_json::json;

use crate::webhooks::{ENDPOINTS, HOUR, deliveries, endpoint, get, patch, test, text};
use crate::with_a_receiver;

with_a_receiver! {
    recover_hurries_what_waits_and_leaves_the_rest,
    types_subscribed_later_are_recovered,
    statistics_add_up,
    deliveries_are_paged_and_filtered,
    what_is_deleted_is_gone_with_its_history,
    history_ends_after_thirty_days,
    an_erased_account_leaves_nothing,
}

async fn recover_hurries_what_waits_and_leaves_the_rest(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    app.advance(HOUR).await;
    app.sent().await;
    let since = app.clock_text();
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    receiver.answer("/hook", ReceiverReply::Status(200));
    receiver.clear();
    let recovered = app.post(&format!("{ENDPOINTS}/{id}/recover"), &json!({ "since": since })).await.ok();
    assert_eq!(recovered["recovered"], 1, "the earlier one is left alone");
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 1);
    let path = format!("{ENDPOINTS}/{id}/recover");
    app.post(&path, &json!({})).await.refused_field("since");
    app.post(&path, &json!({ "since": "2025-12-31T00:00:00Z" })).await.refused_field("since");
    app.post(&path, &json!({ "since": since, "until": since })).await.refused_field("until");
    app.post(&path, &json!({ "since": "yesterday" })).await.refused_field("since");
}

async fn types_subscribed_later_are_recovered(app: TestApp, receiver: Receiver) {
    let since = app.clock_text();
    app.new_key(app.account, app.all_scopes()).await;
    let (id, _) = endpoint(&app, &receiver, "/hook", &["token.created"]).await;
    app.new_key(app.account, app.all_scopes()).await;
    patch(&app, &id, &json!({ "event_types": ["key.created"] })).await.ok();
    let recovered = app.post(&format!("{ENDPOINTS}/{id}/recover"), &json!({ "since": since })).await.ok();
    assert_eq!(recovered["recovered"], 2);
    app.sent().await;
    let requests = receiver.received("/hook");
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
}

async fn statistics_add_up(app: TestApp, receiver: Receiver) {
    let (good, _) = endpoint(&app, &receiver, "/good", &["key.created"]).await;
    let (bad, _) = endpoint(&app, &receiver, "/bad", &["key.created"]).await;
    receiver.answer("/bad", ReceiverReply::Status(500));
    for _ in 0..3 {
        app.new_key(app.account, app.all_scopes()).await;
    }
    app.sent().await;
    for by in ["hour", "day"] {
        let stats = app.get(&format!("/v1/webhooks/stats?by={by}")).await.ok();
        let row = &stats["rows"][0];
        assert_eq!((&row["delivered"], &row["failed"]), (&json!(3), &json!(3)), "{by}: {stats}");
        assert!(row["p95_ms"].as_i64() >= row["p50_ms"].as_i64() && row["p50_ms"].as_i64() > Some(0));
        assert_eq!(stats["rows"].as_array().unwrap().len(), 1);
        assert_eq!(
            stats["outcomes"],
            json!([{ "outcome": "delivered", "count": 3 }, { "outcome": "status", "count": 3 }])
        );
    }
    let of_good = app.get(&format!("/v1/webhooks/stats?endpoint_id={good}")).await.ok();
    assert_eq!(of_good["outcomes"], json!([{ "outcome": "delivered", "count": 3 }]));
    assert_eq!(get(&app, &bad).await["failed_24h"], 3);
    app.advance(Duration::from_secs(8)).await;
    app.sent().await;
    assert_eq!(get(&app, &bad).await["failed_24h"], 6, "every attempt counts");
    app.advance(26 * HOUR).await;
    assert_eq!(get(&app, &good).await["succeeded_24h"], 0);
    app.get("/v1/webhooks/stats?by=week").await.refused_field("by");
    app.get("/v1/webhooks/stats?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z").await.refused_field("to");
    app.get("/v1/webhooks/stats?from=2025-02-01T00:00:00Z").await.refused_field("from");
}

async fn deliveries_are_paged_and_filtered(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    for count in 0..7 {
        receiver.answer("/hook", ReceiverReply::Status(if count % 2 == 0 { 200 } else { 500 }));
        app.clock.advance(Duration::from_millis(10));
        test(&app, &id).await;
        app.sent().await;
    }
    let path = format!("{ENDPOINTS}/{id}/deliveries");
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("{path}?page_size=2&page_token={token}")).await.ok();
        seen.extend(page["deliveries"].as_array().unwrap().iter().map(|each| text(&each["created_at"])));
        token = text(&page["next_page_token"]);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted_by(|a, b| a >= b), "newest first");
    for (query, count) in [
        ("status=delivered", 4),
        ("status=pending", 3),
        ("status=abandoned", 0),
        ("event_type=webhook.test", 7),
        ("event_type=token.created", 0),
        ("status=delivered&page_size=3", 3),
    ] {
        let page = app.get(&format!("{path}?{query}")).await.ok();
        assert_eq!(page["deliveries"].as_array().unwrap().len(), count, "{query}");
    }
    let since = &seen[2];
    let page = app.get(&format!("{path}?since={since}")).await.ok();
    assert_eq!(page["deliveries"].as_array().unwrap().len(), 3);
    app.get(&format!("{path}?status=lost")).await.refused_field("status");
    for none in ["no.such", "", "key"] {
        app.get(&format!("{path}?event_type={none}")).await.refused_field("event_type");
    }
}

async fn what_is_deleted_is_gone_with_its_history(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    receiver.answer("/hook", ReceiverReply::Status(500));
    let (_, delivery) = test(&app, &id).await;
    app.sent().await;
    let sent = TestRequest::new("DELETE", &format!("{ENDPOINTS}/{id}")).bearer(&app.token);
    assert_eq!(app.send(sent).await.ok(), json!({}));
    app.get(&format!("{ENDPOINTS}/{id}")).await.refused(Code::NotFound);
    app.get(&format!("{ENDPOINTS}/{id}/deliveries")).await.refused(Code::NotFound);
    app.post(&format!("/v1/webhooks/deliveries/{delivery}/retry"), &json!({})).await.refused(Code::NotFound);
    app.advance(HOUR).await;
    app.sent().await;
    app.new_key(app.account, app.all_scopes()).await;
    app.sent().await;
    assert_eq!(receiver.received("/hook").len(), 1, "nothing more is sent");
    turn(&app, "webhooks.prune_history").await;
    turn(&app, "webhooks.prune_history").await;
    for table in [
        "webhook_deliveries",
        "webhook_attempts",
        "webhook_endpoints",
        "webhook_stats",
        "webhook_subscriptions",
    ] {
        assert_eq!(app.count(table).await, 0, "{table}");
    }
}

async fn history_ends_after_thirty_days(app: TestApp, receiver: Receiver) {
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created"]).await;
    let (_, delivery) = test(&app, &id).await;
    app.sent().await;
    app.advance(29 * 24 * HOUR).await;
    turn(&app, "webhooks.prune_history").await;
    assert_eq!(deliveries(&app, &id).await.len(), 1);
    app.advance(25 * HOUR).await;
    assert_eq!(deliveries(&app, &id).await.len(), 0, "even before the job has run");
    while turn(&app, "webhooks.prune_history").await == portico_engine::JobOutcome::MoreWork {}
    assert_eq!((app.count("webhook_deliveries").await, app.count("webhook_attempts").await), (0, 0));
    app.post(&format!("/v1/webhooks/deliveries/{delivery}/retry"), &json!({})).await.refused(Code::NotFound);
    app.advance(3 * 24 * HOUR).await;
    while turn(&app, "engine.prune_events").await == portico_engine::JobOutcome::MoreWork {}
    assert_eq!(app.count("events").await, 0);
}

async fn an_erased_account_leaves_nothing(app: TestApp, receiver: Receiver) {
    let person = app.new_person("owner@test", None).await;
    app.join(app.account, person.id, Role::Owner).await;
    let (id, _) = endpoint(&app, &receiver, "/hook", &["key.created", "audit.event"]).await;
    app.post("/v1/webhooks/inboxes", &json!({})).await.ok();
    test(&app, &id).await;
    app.sent().await;
    let token = app.person_token(person.id).await;
    let path = format!("/v1/accounts/orgs/{}", app.account);
    app.send(TestRequest::new("DELETE", &path).bearer(&token)).await.ok();
    app.sent().await;
    app.advance(31 * 24 * HOUR).await;
    while turn(&app, "accounts.erase").await == portico_engine::JobOutcome::MoreWork {}
    for table in [
        "webhook_deliveries",
        "webhook_attempts",
        "webhook_endpoints",
        "webhook_stats",
        "webhook_subscriptions",
        "webhook_inboxes",
        "webhook_requests",
    ] {
        assert_eq!(app.count(table).await, 0, "{table}");
    }
}
