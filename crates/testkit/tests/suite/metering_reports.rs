//! Reports of what was used, and the log of requests.

use std::time::Duration;

use portico_kernel::Code;
use portico_store::args;
use portico_testkit::{TestApp, TestRequest, on_both_databases, turn};
use serde_json::{Value, json};

use crate::metering::{number, units};

fn path(app: &TestApp, rest: &str) -> String {
    format!("/v1/accounts/orgs/{}/{rest}", app.account)
}

async fn all_requests(app: &TestApp, query: &str) -> Vec<Value> {
    let (mut token, mut all) = (String::new(), Vec::new());
    loop {
        let page = app.get(&path(app, &format!("requests?{query}&page_token={token}"))).await.ok();
        all.extend(page["requests"].as_array().unwrap().iter().cloned());
        page["next_page_token"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            return all;
        }
    }
}

on_both_databases! {
    units_show_days_and_who_used_what,
    series_add_up,
    requests_are_listed_newest_first,
    requests_are_kept_thirty_days,
    another_accounts_numbers_are_not_shown,
    reports_stay_within_an_answer,
    a_filter_that_names_no_operation_is_refused,
}

async fn units_show_days_and_who_used_what(app: TestApp) {
    for _ in 0..3 {
        app.get("/v1/me").await.ok();
    }
    app.get("/v1/me?x=1").await.refused_field("x");
    let ada = app.new_person("ada@example.com", None).await;
    app.join(app.account, ada.id, portico_kernel::Role::Owner).await;
    app.advance(Duration::from_hours(12)).await;
    let person = app.person_token(ada.id).await;
    app.send(TestRequest::new("GET", &path(&app, "members")).bearer(&person)).await.ok();
    let shown = units(&app).await;
    assert_eq!(shown["days"], json!([{ "day": "2026-01-31", "units": "4" }]));
    let rows = shown["usage"].as_array().unwrap();
    let row = rows.iter().find(|row| row["rpc"] == "identity.me.get").unwrap();
    assert_eq!(
        (&row["calls"], &row["units"], &row["client_errors"]),
        (&json!("4"), &json!("3"), &json!("1"))
    );
    assert_eq!(
        (&row["category"], &row["key_name"], &row["user_id"]),
        (&json!("read"), &json!("a test"), &json!(""))
    );
    assert!(row["key_id"].as_str().unwrap().starts_with("tok_"));
    let row = rows.iter().find(|row| row["rpc"] == "accounts.members.list").unwrap();
    assert_eq!(
        (&row["user_id"], &row["user_name"], &row["key_id"]),
        (&json!(ada.id), &json!("Ada"), &json!(""))
    );
    let usage = app.get(&path(&app, "usage")).await.ok();
    assert_eq!((&usage["plan"], usage["rows"].as_array().unwrap().len()), (&json!("free"), 3));
    assert_eq!(app.get(&path(&app, "usage?month=2025-12")).await.ok()["rows"], json!([]));
    app.get(&path(&app, "usage?month=2025-13")).await.refused_field("month");
}

async fn series_add_up(app: TestApp) {
    for day in 0..3 {
        for hour in [0, 1] {
            app.get("/v1/me").await.ok();
            app.post(&app.things(), &json!({ "name": format!("{day} {hour}") })).await.ok();
            app.advance(Duration::from_hours(1)).await;
        }
        app.advance(Duration::from_hours(22)).await;
    }
    let series = async |query: &str| app.get(&path(&app, &format!("units/series?{query}"))).await.ok();
    let range = "from=2026-01-31&to=2026-02-02";
    for (by, rows, groups) in
        [("day", 3, 1), ("hour", 6, 1), ("category", 6, 2), ("key", 3, 1), ("rpc", 6, 2)]
    {
        let found = series(&format!("{range}&by={by}")).await;
        let sum = |list: &str, what: &str| {
            found[list].as_array().unwrap().iter().map(|row| number(&row[what])).sum::<i64>()
        };
        assert_eq!((sum("rows", "calls"), sum("rows", "units")), (12, 36), "{by}: {found}");
        assert_eq!((sum("groups", "calls"), sum("groups", "units")), (12, 36), "{by}");
        assert_eq!(found["rows"].as_array().unwrap().len(), rows, "{by}: {found}");
        assert_eq!(found["groups"].as_array().unwrap().len(), groups, "{by}");
        assert_eq!(
            (&found["from"], &found["to"], &found["by"]),
            (&json!("2026-01-31"), &json!("2026-02-02"), &json!(by))
        );
    }
    let days = series(range).await;
    assert_eq!(
        days["rows"][0],
        json!({
            "at": "2026-01-31T00:00:00.000Z", "group": "total", "calls": "4", "units": "12",
            "client_errors": "0", "platform_errors": "0",
        })
    );
    let this_month = series("").await;
    assert_eq!((&this_month["from"], &this_month["to"]), (&json!("2026-02-01"), &json!("2026-02-03")));
    assert_eq!(series("from=2026-01-30&to=2026-01-30").await["rows"], json!([]));
    for bad in [
        "from=2026-02-02&to=2026-02-01",
        "by=hour&from=2026-01-01&to=2026-02-01",
        "by=key&from=2025-11-01&to=2026-02-01",
        "from=0001-01-01",
    ] {
        app.get(&path(&app, &format!("units/series?{bad}"))).await.refused_field("from");
    }
    app.get(&path(&app, "units/series?by=week")).await.refused_field("by");
}

async fn requests_are_listed_newest_first(app: TestApp) {
    let mut ids = Vec::new();
    for number in 0..130 {
        let answer = if number % 10 == 0 {
            app.get(&format!("{}/{number}", app.things())).await
        } else {
            app.send(
                TestRequest::new("GET", "/v1/me")
                    .bearer(&app.token)
                    .header("x-request-id", &format!("mine-{number}")),
            )
            .await
        };
        ids.push(answer.header("x-request-id").to_owned());
        app.clock.advance(Duration::from_millis(700));
        if number % 7 == 0 {
            app.catch_up().await;
        }
    }
    ids.reverse();
    let listed = app.get(&path(&app, "requests?page_size=2")).await.ok();
    assert_eq!(listed["requests"][0]["request_id"], json!(ids[0]));
    let all = all_requests(&app, "page_size=7").await;
    let own: Vec<_> = all
        .iter()
        .filter(|row| row["rpc"] != "metering.requests.list")
        .map(|row| row["request_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(own, ids);
    let row = all.iter().find(|row| row["rpc"] == "lab.things.get").unwrap();
    let expected = json!({
        "request_id": row["request_id"], "at": row["at"], "rpc": "lab.things.get", "method": "GET",
        "path": "/v1/lab/orgs/{org_id}/things/{thing_id}", "status": 404, "code": "not_found",
        "latency_ms": row["latency_ms"], "units": "1", "key_id": row["key_id"], "user_id": "",
    });
    assert_eq!(*row, expected);
    assert_eq!(all_requests(&app, "status=404").await.len(), 13);
    assert_eq!(all_requests(&app, "rpc=lab.things.get&page_size=3").await.len(), 13);
    assert_eq!(
        all_requests(&app, &format!("rpc=lab.things.get&key_id={}", row["key_id"].as_str().unwrap()))
            .await
            .len(),
        13
    );
    assert_eq!(all_requests(&app, &format!("key_id={}", portico_kernel::KeyId::from_u128(1))).await.len(), 0);
    for (query, field) in [
        ("key_id=tok_none", "key_id"),
        ("key_id=", "key_id"),
        ("status=99999", "status"),
        ("status=-1", "status"),
    ] {
        app.get(&path(&app, &format!("requests?{query}"))).await.refused_field(field);
    }
    let since =
        all_requests(&app, &format!("since={}&rpc=identity.me.get", all[100]["at"].as_str().unwrap())).await;
    assert!(since.iter().all(|row| row["at"].as_str() >= all[100]["at"].as_str()) && !since.is_empty());
    app.get(&path(&app, "requests?since=yesterday")).await.refused_field("since");
}

async fn requests_are_kept_thirty_days(app: TestApp) {
    app.get("/v1/me").await.ok();
    app.advance(Duration::from_hours(29 * 24)).await;
    let token = app.token_with(app.account, app.all_scopes()).await;
    let count = async || {
        turn(&app, "metering.prune").await;
        let sent = TestRequest::new("GET", &path(&app, "requests?rpc=identity.me.get")).bearer(&token);
        app.send(sent).await.ok()["requests"].as_array().unwrap().len()
    };
    assert_eq!(count().await, 1);
    app.advance(Duration::from_hours(25)).await;
    assert_eq!(count().await, 0);
}

async fn another_accounts_numbers_are_not_shown(app: TestApp) {
    let other = app.new_account("Other").await;
    for what in ["units", "usage", "units/series", "requests"] {
        app.get(&format!("/v1/accounts/orgs/{other}/{what}")).await.refused(Code::Forbidden);
    }
}

/// The sums of calls and units over the rows.
fn sums(rows: &Value) -> (i64, i64) {
    let sum = |what: &str| rows.as_array().unwrap().iter().map(|row| number(&row[what])).sum();
    (sum("calls"), sum("units"))
}

/// What does not fit is the last row, without names, and the sums are right.
async fn reports_stay_within_an_answer(app: TestApp) {
    let made = app.new_token(app.account, app.all_scopes(), 7).await;
    let mut tx = app.app.engine.db.write().await.unwrap();
    let (token, name) = (made["token_id"].as_str().unwrap().to_owned(), "\u{1f600}".repeat(100));
    tx.run("update credentials set name = $2 where id = $1", args![token.clone(), name]).await.unwrap();
    tx.run(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 7900) \
         insert into usage_months (account_id, month, subject, rpc, calls, units, tokens, client_errors, \
         platform_errors, latency) select $1, '2026-01', $2, 'gone.' || cast(i as text), 1, i, 0, 0, 0, $3 from n",
        args![app.account, token, Vec::<u8>::new()],
    )
    .await
    .unwrap();
    tx.run(
        "with recursive n (i) as (select 0 union all select i + 1 from n where i < 35999) \
         insert into usage_days (account_id, day, subject, rpc, calls, units, client_errors, platform_errors) \
         select $1, 20395 + i / 400, 'key_01ARZ3NDEKTSV4RRFFQ69' || substr(cast(10000 + i % 400 as text), 1, 5), \
         'gone', 1, i % 400, 0, 0 from n",
        args![app.account],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let used = (7_900, 7_900 * 7_901 / 2);
    for (report, list) in [("usage", "rows"), ("units", "usage")] {
        let answer = app.get(&path(&app, report)).await;
        assert!(answer.body.len() <= 4 << 20, "{} bytes", answer.body.len());
        let rows = answer.ok()[list].clone();
        let seen = sums(&rows);
        assert!((used.0..=used.0 + 2).contains(&seen.0) && seen.1 >= used.1, "{report}: {seen:?}");
        let rows = rows.as_array().unwrap();
        let rest = rows.last().unwrap();
        for name in ["rpc", "category", "key_id", "key_name", "user_id", "user_name"] {
            assert_eq!(rest[name], "", "{report}: {rest}");
        }
        assert!(rows.len() > 4_000 && number(&rest["calls"]) > 1, "{report}: {} rows", rows.len());
        assert_eq!(number(&rows[0]["units"]), 7_900, "what cost most is shown by itself");
    }
    let answer = app.get(&path(&app, "units/series?by=key&from=2025-11-03&to=2026-01-31")).await;
    assert!(answer.body.len() <= 4 << 20, "{} bytes", answer.body.len());
    let series = answer.ok();
    let used = (36_000, 90 * 399 * 400 / 2);
    for list in ["rows", "groups"] {
        let seen = sums(&series[list]);
        assert!((used.0..=used.0 + 4).contains(&seen.0) && seen.1 >= used.1, "{list}: {seen:?}");
        let rows = series[list].as_array().unwrap();
        assert_eq!(rows.last().unwrap()["group"], "", "{list}");
        let unnamed = rows.iter().filter(|row| row["group"] == "").count();
        assert_eq!(unnamed, if list == "rows" { 90 } else { 1 }, "one for each day");
    }
    assert!(series["groups"].as_array().unwrap().len() > 150);
    assert!(series["rows"].as_array().unwrap().is_sorted_by_key(|row| row["at"].as_str().unwrap()));
}

async fn a_filter_that_names_no_operation_is_refused(app: TestApp) {
    for rpc in ["no.such", "", "identity.me"] {
        let refused = app.get(&path(&app, &format!("requests?rpc={rpc}"))).await;
        assert!(refused.refused_field("rpc").contains("operation"), "{rpc}");
    }
    app.get(&path(&app, "requests?rpc=identity.me.get")).await.ok();
}
