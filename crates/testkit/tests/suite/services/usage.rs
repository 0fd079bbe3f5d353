//! Reporting usage.

use portico_kernel::{AccountId, Clock, Code};
use portico_testkit::{TestApp, on_both_databases};
use serde_json::{Value, json};

use super::{USAGE, fault, get, post, result};

on_both_databases! {
    what_is_reported_is_counted_once_on_its_day,
    each_that_is_wrong_is_refused_by_its_index,
    what_is_reported_crosses_thresholds_and_is_never_refused,
    of_two_at_once_one_counts,
}

fn used(id: &str, account: AccountId) -> Value {
    json!({ "id": id, "account_id": account, "units": 11, "name": "pages" })
}

/// The rows of usage of calls that a service serves.
async fn rows(app: &TestApp, account: AccountId, month: &str) -> Vec<Value> {
    let token = app.token_with(account, "usage:read".into()).await;
    let usage = get(app, &token, &format!("/v1/accounts/orgs/{account}/usage?month={month}")).await.ok();
    let own = |row: &&Value| row["rpc"].as_str().unwrap().starts_with("invoices.");
    usage["rows"].as_array().unwrap().iter().filter(own).cloned().collect()
}

async fn what_is_reported_is_counted_once_on_its_day(app: TestApp) {
    let token = app.service_token("invoices").await;
    let key = app.new_key(app.account, app.all_scopes()).await;
    let key = key["key_id"].as_str().unwrap().to_owned();
    let mut records: Vec<_> = (0..5).map(|at| used(&at.to_string(), app.account)).collect();
    records[1]["quantity"] = json!("3");
    records[2]["key_id"] = json!(key);
    records[3] = json!({ "id": "3", "account_id": app.account, "category": "narrate", "name": "speech" });
    // The last moment of a month, and the first of the next.
    records[4]["at"] = json!("2025-12-31T23:59:59.999Z");
    records.push(used("5", app.account));
    records[5]["at"] = json!("2026-01-01T00:00:00.000Z");
    let batch = json!({ "records": records });
    assert_eq!(result(&post(&app, &token, USAGE, &batch).await), (6, 0, vec![]));
    assert_eq!(result(&post(&app, &token, USAGE, &batch).await), (0, 6, vec![]));
    let shown: Vec<_> = rows(&app, app.account, "2026-01")
        .await
        .iter()
        .map(|row| ["rpc", "key_id", "calls", "units"].map(|name| row[name].as_str().unwrap().to_owned()))
        .collect();
    let row = |rpc: &str, key: &str, calls: &str, units: &str| [rpc, key, calls, units].map(str::to_owned);
    assert_eq!(
        shown,
        [
            row("invoices.speech", "", "1", "100"),
            row("invoices.pages", "", "3", "55"),
            row("invoices.pages", &key, "1", "11"),
        ]
    );
    assert_eq!(rows(&app, app.account, "2025-12").await[0]["units"], "11");
    let units = app.get(&format!("/v1/accounts/orgs/{}/units", app.account)).await.ok();
    let day = |name: &str| {
        let days = units["days"].as_array().unwrap();
        days.iter().find(|day| day["day"] == name).map(|day| day["units"].as_str().unwrap().to_owned())
    };
    assert_eq!(day("2026-01-01"), Some("11".to_owned()));
    let service = get(&app, &token, &format!("/v1/services/accounts/{}", app.account)).await.ok();
    assert_eq!(service["units"]["resets_at"], "2026-02-01T00:00:00.000Z");
    let series = format!("/v1/accounts/orgs/{}/units/series?by=rpc&from=2026-01-31", app.account);
    let series = app.get(&series).await.ok();
    let pages =
        series["rows"].as_array().unwrap().iter().find(|row| row["group"] == "invoices.pages").unwrap();
    assert_eq!((&pages["calls"], &pages["units"]), (&json!("3"), &json!("55")));
}

async fn each_that_is_wrong_is_refused_by_its_index(app: TestApp) {
    let token = app.service_token("invoices").await;
    let foreign = app.new_key(app.new_account("Other").await, app.all_scopes()).await;
    let with = |changes: Value| {
        let mut record = used("x", app.account);
        for (name, value) in changes.as_object().unwrap() {
            record[name] = value.clone();
        }
        record
    };
    let cases = [
        (with(json!({ "units": -1 })), "units"),
        (with(json!({ "units": 1_000_001 })), "units"),
        (with(json!({ "units": "12x" })), "units"),
        (with(json!({ "units": 1.5 })), "units"),
        (with(json!({ "units": null })), "units"),
        (with(json!({ "category": "read" })), "units"),
        (with(json!({ "units": null, "category": "nope" })), "category"),
        (with(json!({ "quantity": 0 })), "quantity"),
        (with(json!({ "quantity": -5 })), "quantity"),
        (with(json!({ "quantity": i64::MAX })), "quantity"),
        (with(json!({ "quantity": i64::MIN })), "quantity"),
        (with(json!({ "units": 1_000_000, "quantity": 1_001 })), "quantity"),
        (with(json!({ "quantity": "9223372036854775808" })), "quantity"),
        (with(json!({ "name": "" })), "name"),
        (with(json!({ "name": "a b" })), "name"),
        (with(json!({ "name": "\u{e9}" })), "name"),
        (with(json!({ "name": "x".repeat(65) })), "name"),
        (with(json!({ "key_id": "usr_1" })), "key_id"),
        (with(json!({ "key_id": foreign["key_id"] })), "key_id"),
        (with(json!({ "at": "2025-12-29T00:00:00Z" })), "at"),
        (with(json!({ "at": "2026-02-01T00:00:00Z" })), "at"),
        (with(json!({ "id": "" })), "id"),
        (with(json!({ "account_id": AccountId::from_parts(app.clock.now(), [1; 10]) })), "404"),
    ];
    let mut records: Vec<_> = cases.iter().map(|(record, _)| record.clone()).collect();
    records.push(with(json!({ "id": "big", "units": 1_000_000, "quantity": 1_000 })));
    records.push(with(json!({ "id": "free", "units": 0 })));
    let answer = post(&app, &token, USAGE, &json!({ "records": records })).await;
    assert_eq!(result(&answer), (2, 0, (0..cases.len() as u64).collect()), "{}", answer.text());
    for (index, (record, told)) in cases.iter().enumerate() {
        let problem = &answer.ok()["refused"][index]["problem"];
        match *told {
            "404" => assert_eq!(problem["code"], Code::NotFound.name()),
            field => assert_eq!(fault(&answer, index).0, field, "{record}: {problem}"),
        }
    }
    assert_eq!(rows(&app, app.account, "2026-01").await[0]["units"], "1000000000");
    post(&app, &token, USAGE, &json!({ "records": [] })).await.refused_field("records");
}

async fn what_is_reported_crosses_thresholds_and_is_never_refused(app: TestApp) {
    let token = app.service_token("invoices").await;
    let (account, plan) = (app.account, "tiny".to_owned());
    app.admin(portico::admin::Admin::Plan(portico::admin::PlanCommand::Set { account, plan })).await;
    let batch =
        |id: &str| json!({ "records": [used(id, app.account), used(&format!("{id}b"), app.account)] });
    for at in 0..6 {
        assert_eq!(result(&post(&app, &token, USAGE, &batch(&at.to_string())).await).0, 2);
    }
    let events = format!("/v1/accounts/orgs/{}/events?type=usage.threshold", app.account);
    app.catch_up().await;
    app.get("/v1/me").await.refused(Code::QuotaExceeded);
    let owner = app.new_person("owner@test", None).await;
    app.join(app.account, owner.id, portico_kernel::Role::Owner).await;
    let told = get(&app, &app.person_token(owner.id).await, &events).await.ok();
    let told: Vec<_> =
        told["events"].as_array().unwrap().iter().map(|event| event["data"]["threshold"].clone()).collect();
    assert_eq!(told, [json!(100), json!(80)]);
    let account = get(&app, &token, &format!("/v1/services/accounts/{}", app.account)).await.ok();
    assert_eq!((&account["units"]["remaining"], &account["at_zero"]), (&json!("-33"), &json!("refuse")));
}

async fn of_two_at_once_one_counts(app: TestApp) {
    let token = app.service_token("invoices").await;
    let other = app.new_account("Other").await;
    let beside = app.beside().await;
    beside.app.services.replace(portico_testkit::service_table());
    let servers = [&app, &beside];
    let batch = |turn: usize| {
        let accounts = [app.account, other];
        let mut records: Vec<_> = (0..40).map(|at| used(&at.to_string(), accounts[at % 2])).collect();
        records.rotate_left(turn * 7 % 40);
        json!({ "records": records })
    };
    let batches: Vec<_> = (0..8).map(batch).collect();
    let sent = batches.iter().enumerate().map(|(at, batch)| post(servers[at % 2], &token, USAGE, batch));
    let answers = futures_util::future::join_all(sent).await;
    assert_eq!(answers.iter().map(|answer| result(answer).0).sum::<u64>(), 40);
    for account in [app.account, other] {
        assert_eq!(rows(&app, account, "2026-01").await[0]["units"], "220");
    }
}
