//! Publishing events.

use std::time::Duration;

use portico_kernel::{AccountId, Clock, Code};
use portico_testkit::{Receiver, TestApp, TestRequest, on_both_databases, turn};
use serde_json::{Value, json};

use super::{EVENTS, fault, paid, post, result};
use crate::webhooks::endpoint;
use crate::with_a_receiver;

on_both_databases! {
    events_are_published_once_and_in_their_order,
    each_that_is_wrong_is_refused_by_its_index,
    a_batch_has_its_bounds,
    of_two_at_once_one_makes_it,
    an_id_is_known_for_thirty_two_days,
    what_is_erased_takes_its_ids_along,
}

with_a_receiver! {
    they_are_delivered_with_the_time_at_which_they_happened,
}

/// The account's events of that type, oldest first.
async fn log(app: &TestApp, account: AccountId, event_type: &str) -> Vec<Value> {
    let token = app.token_with(account, "events:read account:read account:audit".into()).await;
    let first = format!("/v1/accounts/orgs/{account}/events?page_size=200");
    let (mut path, mut all) = (first.clone(), Vec::new());
    loop {
        let page = app.send(TestRequest::new("GET", &path).bearer(&token)).await.ok();
        let own = |event: &&Value| event["type"] == event_type;
        all.extend(page["events"].as_array().unwrap().iter().filter(own).cloned());
        let next = page["next_page_token"].as_str().unwrap();
        if next.is_empty() {
            all.reverse();
            return all;
        }
        path = format!("{first}&page_token={next}");
    }
}

async fn events_are_published_once_and_in_their_order(app: TestApp) {
    let token = app.service_token("invoices").await;
    let other = app.new_account("Other").await;
    let accounts = [app.account, other];
    let mut events: Vec<_> = (0..500).map(|at| paid(&format!("e{at}"), accounts[at % 2])).collect();
    events[0]["occurred_at"] = json!("2026-01-01T00:00:00.000Z");
    let batch = json!({ "events": events });
    assert_eq!(result(&post(&app, &token, EVENTS, &batch).await), (500, 0, vec![]));
    assert_eq!(result(&post(&app, &token, EVENTS, &batch).await), (0, 500, vec![]));
    for (at, account) in accounts.into_iter().enumerate() {
        let log = log(&app, account, "invoice.paid").await;
        let ids: Vec<_> = log.iter().map(|event| event["data"]["invoice_id"].as_str().unwrap()).collect();
        let expected: Vec<_> = (0..250).map(|each| format!("e{}", each * 2 + at)).collect();
        assert_eq!(ids, expected);
        assert_eq!(log[1]["occurred_at"], app.clock_text());
    }
    assert_eq!(log(&app, app.account, "invoice.paid").await[0]["occurred_at"], "2026-01-01T00:00:00.000Z");
    // The id is the service's own, and says nothing about another's.
    let bills = app.service_token("bills").await;
    let bill = json!({ "id": "e1", "account_id": other, "type": "bill.sent", "data": { "bill_id": "b" } });
    assert_eq!(result(&post(&app, &bills, EVENTS, &json!({ "events": [bill] })).await), (1, 0, vec![]));
    // Of one id in a batch the first counts that is not refused.
    let mut wrong = paid("twice", other);
    wrong["data"] = json!({});
    let twice =
        json!({ "events": [wrong, paid("twice", other), paid("twice", app.account), paid("e7", other)] });
    assert_eq!(result(&post(&app, &token, EVENTS, &twice).await), (1, 2, vec![0]));
    assert_eq!(log(&app, other, "invoice.paid").await.len(), 251);
}

async fn each_that_is_wrong_is_refused_by_its_index(app: TestApp) {
    let token = app.service_token("invoices").await;
    let nobody = AccountId::from_parts(app.clock.now(), [7; 10]);
    let closed = app.new_account("Closed").await;
    let owner = app.new_person("owner@test", None).await;
    app.join(closed, owner.id, portico_kernel::Role::Owner).await;
    let sent = TestRequest::new("DELETE", &format!("/v1/accounts/orgs/{closed}"));
    app.send(sent.bearer(&app.person_token(owner.id).await)).await.ok();
    let with = |name: &str, value: Value| {
        let mut event = paid("x", app.account);
        event[name] = value;
        event
    };
    let without = |name: &str| {
        let mut event = paid("x", app.account);
        event.as_object_mut().unwrap().remove(name);
        event
    };
    let at = |seconds: i64| {
        let at = portico_kernel::Timestamp::from_micros(app.clock.now().as_micros() + seconds * 1_000_000);
        with("occurred_at", json!(at))
    };
    let cases = [
        (with("id", json!("")), "id"),
        (with("id", json!("x".repeat(129))), "id"),
        (with("id", json!("a\u{7}b")), "id"),
        (with("id", json!(7)), "id"),
        (without("id"), "id"),
        (without("account_id"), "account_id"),
        (with("account_id", json!("acc_1")), "account_id"),
        (with("type", json!("bill.sent")), "type"),
        (with("type", json!("key.created")), "type"),
        (with("type", json!(null)), "type"),
        (with("data", json!({})), "data.invoice_id"),
        (with("data", json!({ "invoice_id": null })), "data.invoice_id"),
        (with("data", json!({ "invoice_id": "a", "x": 1 })), "data.x"),
        (with("data", json!("text")), "data"),
        (without("data"), "data"),
        (with("data", json!({ "invoice_id": "x".repeat(64 << 10) })), "data"),
        (at(301), "occurred_at"),
        (at(-32 * 24 * 3600 - 1), "occurred_at"),
        (with("occurred_at", json!("yesterday")), "occurred_at"),
        (with("nope", json!(1)), "nope"),
        (json!(7), ""),
        (json!(null), ""),
        (json!([]), ""),
        (with("account_id", json!(nobody)), "404"),
        (with("account_id", json!(closed)), "closed"),
    ];
    let mut events: Vec<_> = cases.iter().map(|(event, _)| event.clone()).collect();
    let good = [at(300), at(-32 * 24 * 3600)].map(|mut event| {
        event["id"] = json!(event["occurred_at"]);
        event
    });
    events.extend(good);
    let answer = post(&app, &token, EVENTS, &json!({ "events": events })).await;
    assert_eq!(result(&answer), (2, 0, (0..cases.len() as u64).collect()));
    for (index, (event, told)) in cases.iter().enumerate() {
        let problem = &answer.ok()["refused"][index]["problem"];
        match *told {
            "404" => assert_eq!(problem["code"], Code::NotFound.name()),
            "closed" => assert_eq!(problem["details"][0]["reason"], "ACCOUNT_CLOSED"),
            field => assert_eq!(fault(&answer, index).0, field, "{event}: {problem}"),
        }
    }
    // A refused one may come again.
    let again = json!({ "events": [paid("x", app.account)] });
    assert_eq!(result(&post(&app, &token, EVENTS, &again).await), (1, 0, vec![]));
}

async fn a_batch_has_its_bounds(app: TestApp) {
    let token = app.service_token("invoices").await;
    let many: Vec<_> = (0..501).map(|at| paid(&at.to_string(), app.account)).collect();
    post(&app, &token, EVENTS, &json!({ "events": many })).await.refused_field("events");
    post(&app, &token, EVENTS, &json!({ "events": [] })).await.refused_field("events");
    post(&app, &token, EVENTS, &json!({})).await.refused_field("events");
    post(&app, &token, EVENTS, &json!({ "events": {} })).await.refused_field("events");
    post(&app, &token, EVENTS, &json!({ "events": [], "nope": 1 })).await.refused_field("nope");
    let large = |bytes: usize| {
        let mut event = paid("large", app.account);
        event["data"]["invoice_id"] = json!("x".repeat(bytes));
        json!({ "events": [event] })
    };
    post(&app, &token, EVENTS, &large(2 << 20)).await.refused(Code::PayloadTooLarge);
    assert_eq!(result(&post(&app, &token, EVENTS, &large(1 << 20)).await), (0, 0, vec![0]));
    let deep = "[".repeat(70);
    let sent = TestRequest::new("POST", EVENTS).bearer(&token).text(&format!("{{\"events\":{deep}"));
    app.send(sent).await.refused(Code::BadRequest);
    assert_eq!(app.count("service_ids").await, 0);
}

async fn of_two_at_once_one_makes_it(app: TestApp) {
    let token = app.service_token("invoices").await;
    let other = app.new_account("Other").await;
    let beside = app.beside().await;
    beside.app.services.replace(portico_testkit::service_table());
    let servers = [&app, &beside];
    let batch = |turn: usize| {
        let accounts = [app.account, other];
        let mut events: Vec<_> = (0..100).map(|at| paid(&format!("e{at}"), accounts[at % 2])).collect();
        // Each has its own order.
        events.rotate_left(turn * 13 % 100);
        if turn.is_multiple_of(2) {
            events.reverse();
        }
        json!({ "events": events })
    };
    let batches: Vec<_> = (0..8).map(batch).collect();
    let sent = batches.iter().enumerate().map(|(at, batch)| post(servers[at % 2], &token, EVENTS, batch));
    let answers = futures_util::future::join_all(sent).await;
    let (mut accepted, mut repeated) = (0, 0);
    for answer in &answers {
        let (new, known, refused) = result(answer);
        (accepted, repeated) = (accepted + new, repeated + known);
        assert!(refused.is_empty());
    }
    assert_eq!((accepted, repeated), (100, 700));
    let (own, others) =
        (log(&app, app.account, "invoice.paid").await, log(&app, other, "invoice.paid").await);
    assert_eq!((own.len(), others.len()), (50, 50));
}

async fn an_id_is_known_for_thirty_two_days(app: TestApp) {
    let token = app.service_token("invoices").await;
    let credential = app.service_credential("invoices").await;
    let batch = json!({ "events": [paid("a", app.account), paid("b", app.account)] });
    assert_eq!(result(&post(&app, &token, EVENTS, &batch).await), (2, 0, vec![]));
    let later = async || {
        let answer = app.exchange_service(&credential, "").await.ok();
        let token = answer["access_token"].as_str().unwrap().to_owned();
        result(&post(&app, &token, EVENTS, &batch).await)
    };
    app.advance(Duration::from_hours(32 * 24) - Duration::from_secs(1)).await;
    turn(&app, "services.prune_ids").await;
    assert_eq!(later().await, (0, 2, vec![]));
    app.advance(Duration::from_secs(1)).await;
    // Also where the job has not come by yet.
    assert_eq!(later().await, (2, 0, vec![]));
    assert_eq!(later().await, (0, 2, vec![]));
    app.advance(Duration::from_hours(32 * 24)).await;
    turn(&app, "services.prune_ids").await;
    assert_eq!(app.count("service_ids").await, 0);
}

async fn what_is_erased_takes_its_ids_along(app: TestApp) {
    let token = app.service_token("invoices").await;
    let other = app.new_account("Other").await;
    let batch = json!({ "events": [paid("a", app.account), paid("b", other)] });
    post(&app, &token, EVENTS, &batch).await.ok();
    let mut tx = app.app.engine.db.write().await.unwrap();
    while app.app.engine.registry.erase_some(&mut tx, other, 100).await.unwrap() > 0 {}
    tx.commit().await.unwrap();
    assert_eq!(app.count("service_ids").await, 1);
    assert_eq!(log(&app, app.account, "invoice.paid").await.len(), 1);
}

async fn they_are_delivered_with_the_time_at_which_they_happened(app: TestApp, receiver: Receiver) {
    let token = app.service_token("invoices").await;
    endpoint(&app, &receiver, "/hook", &["lab.thing.created"]).await;
    let event = |id: usize| {
        json!({
            "id": id.to_string(), "account_id": app.account, "type": "lab.thing.created",
            "occurred_at": "2026-01-30T01:02:03.000Z", "data": { "thing_id": id.to_string(), "actor": "us" },
        })
    };
    let events: Vec<_> = (0..70).map(event).collect();
    assert_eq!(result(&post(&app, &token, EVENTS, &json!({ "events": events })).await).0, 70);
    app.sent().await;
    let deliveries = receiver.received("/hook");
    assert_eq!(deliveries.len(), 70);
    for request in deliveries {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(
            (&body["type"], &body["occurred_at"], &body["account_id"]),
            (&json!("lab.thing.created"), &json!("2026-01-30T01:02:03.000Z"), &json!(app.account))
        );
    }
}
