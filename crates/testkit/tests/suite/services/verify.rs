//! Verifying tokens for a service with a front of its own.

use std::time::Duration;

use futures_util::future::join_all;
use portico::admin::Admin;
use portico_kernel::Code;
use portico_testkit::{Answer, Database, TestApp, on_both_databases, service_table};
use serde_json::{Value, json};

use super::{VERIFY, get, post};

on_both_databases! {
    a_good_token_is_charged_and_counted_as_through_the_gateway,
    what_the_gateway_would_refuse_is_not_valid_and_costs_nothing,
    a_minute_is_shared_with_the_gateway,
    units_end_where_they_would_end_at_the_gateway,
    a_wrong_question_is_refused,
}

async fn ask(app: &TestApp, service: &str, question: Value) -> Value {
    post(app, service, VERIFY, &question).await.ok()
}

fn refused(answer: &Value, code: Code) -> &Value {
    assert_eq!(
        (&answer["valid"], &answer["problem"]["code"]),
        (&json!(false), &json!(code.name())),
        "{answer}"
    );
    for name in ["caller", "account_id", "plan", "units"] {
        assert_eq!(answer[name], json!(null), "{answer}");
    }
    &answer["problem"]
}

async fn units(app: &TestApp) -> Value {
    let owner = app.new_person(&format!("{}@test", app.count("people").await), None).await;
    app.join(app.account, owner.id, portico_kernel::Role::Owner).await;
    let token = app.person_token(owner.id).await;
    get(app, &token, &format!("/v1/accounts/orgs/{}/units", app.account)).await.ok()
}

fn row<'a>(units: &'a Value, rpc: &str) -> Option<&'a Value> {
    units["usage"].as_array().unwrap().iter().find(|row| row["rpc"] == rpc)
}

async fn a_good_token_is_charged_and_counted_as_through_the_gateway(app: TestApp) {
    let service = app.service_token("invoices").await;
    let key = app.new_key(app.account, "heavy:read usage:read".into()).await;
    let token = app.exchange(&key).await;
    let question = json!({
        "token": token, "scopes": ["heavy:read"], "units": 40, "name": "createInvoice",
        "method": "POST", "path": "/v1/invoices",
    });
    let before = app.count("events").await;
    let first = ask(&app, &service, question.clone()).await;
    assert_eq!((&first["valid"], &first["problem"]), (&json!(true), &json!(null)), "{first}");
    assert_eq!((&first["account_id"], &first["plan"]), (&json!(app.account), &json!("free")));
    assert_eq!((&first["caller"]["subject"], &first["caller"]["kind"]), (&key["key_id"], &json!("client")));
    let left = |answer: &Value| answer["units"]["remaining"].as_str().unwrap().parse::<i64>().unwrap();
    let second = ask(&app, &service, question).await;
    assert_eq!(left(&second), left(&first) - 40);
    ask(&app, &service, json!({ "token": token, "category": "narrate", "name": "speak" })).await;
    ask(&app, &service, json!({ "token": token, "method": "GET" })).await;
    ask(&app, &service, json!({ "token": token, "method": "DELETE" })).await;
    assert_eq!(app.count("events").await, before, "nothing is written");
    for counted in [false, true] {
        let units = units(&app).await;
        let shown = |rpc: &str| {
            let row = row(&units, rpc).unwrap();
            ["calls", "units", "key_id"].map(|name| row[name].as_str().unwrap().to_owned())
        };
        let key = key["key_id"].as_str().unwrap();
        assert_eq!(shown("invoices.createInvoice"), ["2", "80", key], "counted: {counted}");
        assert_eq!(shown("invoices.speak"), ["1", "100", key]);
        assert_eq!(shown("invoices.call"), ["2", "6", key]);
        app.catch_up().await;
    }
    let log = app.get(&format!("/v1/accounts/orgs/{}/requests", app.account)).await.ok();
    let names: Vec<_> =
        log["requests"].as_array().unwrap().iter().filter_map(|request| request["rpc"].as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "invoices.createInvoice").count(), 2, "{names:?}");
}

async fn what_the_gateway_would_refuse_is_not_valid_and_costs_nothing(app: TestApp) {
    let service = app.service_token("invoices").await;
    let made = app.new_token(app.account, "usage:read".into(), 7).await;
    let token = made["token"].as_str().unwrap().to_owned();
    let question =
        |token: &str, scope: &str| json!({ "token": token, "scopes": [scope], "units": 7, "name": "x" });
    refused(&ask(&app, &service, question("garbage", "usage:read")).await, Code::Unauthenticated);
    refused(&ask(&app, &service, question("", "usage:read")).await, Code::Unauthenticated);
    refused(&ask(&app, &service, question(&"x".repeat(20_000), "usage:read")).await, Code::Unauthenticated);
    let problem = ask(&app, &service, question(&token, "heavy:read")).await;
    assert_eq!(refused(&problem, Code::Forbidden)["details"][0]["metadata"]["scope"], "heavy:read");
    refused(&ask(&app, &service, question(&service, "service:events")).await, Code::Forbidden);
    assert_eq!(ask(&app, &service, question(&token, "usage:read")).await["valid"], true);
    let id = made["token_id"].as_str().unwrap().to_owned();
    app.admin(Admin::Revoke { id }).await;
    app.catch_up().await;
    refused(&ask(&app, &service, question(&token, "usage:read")).await, Code::Unauthenticated);
    let units = units(&app).await;
    let row = row(&units, "invoices.x").unwrap();
    assert_eq!(
        (&row["units"], &row["calls"], &row["client_errors"]),
        (&json!("7"), &json!("2"), &json!("1"))
    );
}

async fn a_minute_is_shared_with_the_gateway(app: TestApp) {
    let service = app.service_token("invoices").await;
    let token = app.slow_token().await;
    for _ in 0..2 {
        get(&app, &token, "/v1/me").await.ok();
    }
    for left in [2, 1, 0] {
        let answer = ask(&app, &service, json!({ "token": token, "units": 1 })).await;
        assert_eq!(
            (&answer["valid"], &answer["rate"]["remaining"]),
            (&json!(true), &json!(left)),
            "{answer}"
        );
        assert_eq!(answer["rate"]["limit"], 5);
    }
    let answer = ask(&app, &service, json!({ "token": token, "units": 1 })).await;
    refused(&answer, Code::RateLimited);
    assert!(answer["rate"]["reset_s"].as_u64().unwrap() > 0);
    get(&app, &token, "/v1/me").await.refused(Code::RateLimited);
}

async fn units_end_where_they_would_end_at_the_gateway(app: TestApp) {
    let service = app.service_token("invoices").await;
    let account = app.account;
    let set = |plan: &str| portico::admin::PlanCommand::Set { account, plan: plan.to_owned() };
    app.admin(Admin::Plan(set("tiny"))).await;
    let spend = async |units: u32| ask(&app, &service, json!({ "token": app.token, "units": units })).await;
    assert_eq!(spend(60).await["units"]["remaining"], "40");
    let refusal = spend(41).await;
    refused(&refusal, Code::QuotaExceeded);
    for _ in 0..10 {
        app.get("/v1/me").await.ok();
    }
    assert_eq!(spend(30).await["valid"], true);
    refused(&spend(1).await, Code::QuotaExceeded);
    assert_eq!(spend(0).await["valid"], true, "what costs nothing is served");
    app.get("/v1/me").await.refused(Code::QuotaExceeded);
    assert_eq!(units(&app).await["used"], "100");
    app.admin(Admin::Plan(set("open"))).await;
    app.catch_up().await;
    assert_eq!(spend(50).await["valid"], true, "beyond the last unit");
}

async fn a_wrong_question_is_refused(app: TestApp) {
    let service = app.service_token("invoices").await;
    let wrong = async |changes: Value| -> Answer {
        let mut question = json!({ "token": app.token, "units": 1 });
        for (name, value) in changes.as_object().unwrap() {
            question[name] = value.clone();
        }
        post(&app, &service, VERIFY, &question).await
    };
    for (changes, field) in [
        (json!({ "token": null }), "token"),
        (json!({ "units": -1 }), "units"),
        (json!({ "units": 1_000_001 }), "units"),
        (json!({ "category": "read" }), "units"),
        (json!({ "name": "a/b" }), "name"),
        (json!({ "method": "G T" }), "method"),
        (json!({ "path": "x".repeat(9_000) }), "path"),
        (json!({ "scopes": vec!["a"; 101] }), "scopes"),
        (json!({ "scopes": "usage:read" }), "scopes"),
        (json!({ "nope": 1 }), "nope"),
    ] {
        wrong(changes).await.refused_field(field);
    }
}

/// Three servers on one database, half of the calls through the gateway and half by verification.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_are_exact_over_servers_whichever_way_calls_come() {
    const UNITS: usize = 100;
    let app = TestApp::new(Database::Postgres).await;
    let service = app.service_token("invoices").await;
    let beside = [app.beside().await, app.beside().await];
    let servers = [&app, &beside[0], &beside[1]];
    for server in servers {
        server.app.services.replace(service_table());
    }
    let (account, plan) = (app.account, "tiny".to_owned());
    app.admin(Admin::Plan(portico::admin::PlanCommand::Set { account, plan })).await;
    let call = async |at: usize| {
        let server = servers[at % 3];
        if at.is_multiple_of(2) {
            let answer = get(server, &app.token, "/v1/me").await;
            assert!([200, 429].contains(&answer.status), "{}", answer.text());
            return answer.status == 200;
        }
        let question = json!({ "token": app.token, "units": 1, "name": "x" });
        ask(server, &service, question).await["valid"] == true
    };
    // What servers hold and others need is given back as time goes by.
    let going_by = async {
        loop {
            app.clock.advance(Duration::from_millis(20));
            for server in servers {
                server.catch_up().await;
            }
            tokio::task::yield_now().await;
        }
    };
    let calling = async {
        let mut spent = 0;
        for round in 0..20 {
            let spends = (0..12).map(|at| call(round * 12 + at));
            spent += join_all(spends).await.into_iter().filter(|is_good| *is_good).count();
            assert!(spent <= UNITS, "{spent} are spent");
        }
        spent
    };
    let spent = tokio::select! {
        () = going_by => unreachable!("it goes on"),
        spent = calling => spent,
    };
    assert_eq!(spent, UNITS, "the last unit is used");
    for server in servers {
        server.catch_up().await;
    }
    assert_eq!(units(&app).await["used"], UNITS.to_string());
}
