//! Audit and events: in the same commit as the change, in order.

use portico_kernel::Code;
use portico_store::{Select, args, from_row};
use portico_testkit::{TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

struct EventRow {
    sequence: i64,
    r#type: String,
    data: String,
}

impl portico_store::FromRow for EventRow {
    fn from_row(row: &portico_store::Row) -> Result<Self, portico_store::StoreError> {
        Ok(Self { sequence: row.get("sequence")?, r#type: row.get("type")?, data: row.get("data")? })
    }
}

struct Count {
    value: i64,
}

from_row!(Count { value });

async fn events(app: &TestApp) -> Vec<(i64, String, Value)> {
    let mut tx = app.app.engine.db.read().await.unwrap();
    let rows: Vec<EventRow> = tx
        .all(
            "select sequence, type, data from events where account_id = $1 order by sequence",
            args![app.account],
        )
        .await
        .unwrap();
    rows.into_iter().map(|row| (row.sequence, row.r#type, serde_json::from_str(&row.data).unwrap())).collect()
}

async fn audit(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/v1/accounts/orgs/{}/audit{query}", app.account)).await.ok()
}

on_both_databases! {
    every_change_is_audited_oldest_first,
    each_entry_has_its_event_in_the_same_order,
    a_change_that_fails_leaves_neither_entry_nor_event,
    a_reader_that_follows_never_misses_a_late_commit,
    revoking_is_audited_and_sends_its_event,
}

async fn every_change_is_audited_oldest_first(app: TestApp) {
    app.post(&app.things(), &json!({ "name": "one", "id": "a" })).await.ok();
    let second = app
        .send(
            TestRequest::new("POST", &app.things()).bearer(&app.token).header("x-request-id", "call-2").json(
                &json!({
                    "name": "two", "id": "b"
                }),
            ),
        )
        .await;
    second.ok();
    let list = audit(&app, "").await;
    let entries = list["entries"].as_array().unwrap();
    let actions: Vec<_> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["account.created", "token.created", "lab.thing.created", "lab.thing.created"]);
    assert_eq!(entries[0]["actor"], "operator");
    assert_eq!(entries[0]["actor_kind"], "service");
    assert_eq!((&entries[3]["target"], &entries[3]["request_id"]), (&json!("b"), &json!("call-2")));
    assert_eq!(entries[3]["actor_kind"], "client");
    assert_eq!(entries[3]["metadata"], json!({}));
    let after = audit(&app, &format!("?after={}", entries[1]["id"].as_str().unwrap())).await;
    assert_eq!(after["entries"].as_array().unwrap()[..], entries[2..]);
    app.get(&format!("/v1/accounts/orgs/{}/audit?after=aud_01ARZ3NDEKTSV4RRFFQ69G5FAV", app.account))
        .await
        .refused_field("after");
    app.get(&format!("/v1/accounts/orgs/{}/audit?after=x", app.account)).await.refused_field("after");
}

async fn each_entry_has_its_event_in_the_same_order(app: TestApp) {
    app.post(&app.things(), &json!({ "name": "one", "id": "a" })).await.ok();
    let all = events(&app).await;
    let types: Vec<_> = all.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(types, ["audit.event", "audit.event", "token.created", "audit.event", "lab.thing.created"]);
    let sequences: Vec<_> = all.iter().map(|(sequence, ..)| *sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
    let entries = audit(&app, "").await;
    let of_audit = all.iter().filter(|(_, kind, _)| kind == "audit.event").map(|(.., data)| data);
    for (data, entry) in of_audit.zip(entries["entries"].as_array().unwrap()) {
        let expected =
            json!({ "audit_event_id": entry["id"], "action": entry["action"], "actor": entry["actor"] });
        assert_eq!(*data, expected);
    }
}

async fn a_change_that_fails_leaves_neither_entry_nor_event(app: TestApp) {
    let mut app = app;
    app.expect_errors();
    let before = events(&app).await.len();
    app.post(&app.things(), &json!({ "name": "fail late", "id": "x" })).await.refused(Code::Internal);
    app.post(&app.things(), &json!({ "name": "panic" })).await.refused(Code::Internal);
    app.post(&app.things(), &json!({ "name": "refuse" })).await.refused(Code::FailedPrecondition);
    assert_eq!(events(&app).await.len(), before);
    app.get(&format!("{}/x", app.things())).await.refused(Code::NotFound);
    app.post(&app.things(), &json!({ "name": "fine", "id": "x" })).await.ok();
}

async fn a_reader_that_follows_never_misses_a_late_commit(app: TestApp) {
    let app = std::sync::Arc::new(app);
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let app = app.clone();
            tokio::spawn(async move {
                for number in 0..12 {
                    app.post(&app.things(), &json!({ "name": "n", "id": format!("{writer}-{number}") }))
                        .await
                        .ok();
                }
            })
        })
        .collect();
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < 2 + 8 * 12 {
        let query = seen.last().map(|last| format!("?page_size=7&after={last}")).unwrap_or_default();
        let page = audit(&app, &query).await;
        seen.extend(
            page["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()),
        );
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let whole: Vec<_> = audit(&app, "?page_size=200").await["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(seen, whole);
    let count: Count = app
        .app
        .engine
        .db
        .read()
        .await
        .unwrap()
        .one("select last as value from account_sequences where account_id = $1", args![app.account])
        .await
        .unwrap();
    assert_eq!(count.value, i64::try_from(events(&app).await.len()).unwrap(), "no number is skipped");
}

async fn revoking_is_audited_and_sends_its_event(app: TestApp) {
    let made = app.new_token(app.account, app.all_scopes(), 7).await;
    let id = made["token_id"].as_str().unwrap().to_owned();
    app.admin(portico::admin::Admin::Revoke { id: id.clone() }).await;
    let (_, kind, data) = events(&app).await.pop().unwrap();
    assert_eq!((kind.as_str(), data), ("token.revoked", json!({ "token_id": id, "actor": "operator" })));
    let again = app.admin(portico::admin::Admin::Revoke { id }).await;
    assert_eq!(again, json!({ "revoked": [] }), "once more changes nothing");
}
