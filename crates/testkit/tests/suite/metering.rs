//! Units and limits: what is charged, what is refused, and until when.

use std::time::Duration;

use portico::admin::{Admin, PlanCommand, UnitsCommand};
use portico_kernel::{AccountId, Clock, Code, Month};
use portico_testkit::{
    Answer, Database, TestApp, TestAppOptions, TestDatabase, TestRequest, on_both_databases,
};
use serde_json::{Value, json};

pub(crate) async fn units(app: &TestApp) -> Value {
    app.get(&format!("/v1/accounts/orgs/{}/units", app.account)).await.ok()
}

/// What the account has used, the look itself left out.
pub(crate) async fn used(app: &TestApp) -> i64 {
    number(&units(app).await["used"])
}

pub(crate) fn number(value: &Value) -> i64 {
    value.as_str().unwrap().parse().unwrap()
}

pub(crate) async fn grant(app: &TestApp, account: AccountId, units: i64) {
    app.admin(Admin::Units(UnitsCommand::Grant { account, units })).await;
    app.catch_up().await;
}

pub(crate) async fn set_plan(app: &TestApp, plan: &str) {
    app.admin(Admin::Plan(PlanCommand::Set { account: app.account, plan: plan.to_owned() })).await;
    app.catch_up().await;
}

async fn me(app: &TestApp) -> Answer {
    app.get("/v1/me").await
}

fn left(answer: &Answer) -> (u32, u32, u32) {
    ["limit", "remaining", "reset"]
        .map(|name| answer.header(&format!("x-ratelimit-{name}")).parse().unwrap())
        .into()
}

on_both_databases! {
    each_category_costs_its_units_and_refusals_before_the_run_cost_nothing,
    faults_of_ours_are_given_back,
    keys_are_refused_when_the_units_are_spent_and_persons_are_not,
    the_last_unit_is_used_and_none_beyond_it,
    an_open_plan_goes_on_and_counts,
    thresholds_are_told_once_a_month_each,
    a_threshold_is_told_although_a_grant_follows,
    a_key_has_so_many_calls_a_minute,
    a_call_that_is_refused_for_its_units_keeps_its_place_in_the_minute,
    a_change_of_plan_or_grant_reaches_a_warm_server,
    many_at_once_never_pass_the_allowance_nor_the_limit,
    a_write_whose_caller_went_away_is_counted_and_a_read_is_taken_back,
}

async fn each_category_costs_its_units_and_refusals_before_the_run_cost_nothing(app: TestApp) {
    let org = app.account;
    let other = app.new_account("Other").await;
    let mut expected = 0;
    let mut after = async |what: &str, units: i64| {
        expected += units;
        assert_eq!(used(&app).await, expected, "{what}");
        expected += 1;
    };
    after("nothing yet", 0).await;
    me(&app).await.ok();
    after("a read", 1).await;
    let key = |key| TestRequest::new("POST", &app.things()).bearer(&app.token).header("idempotency-key", key);
    app.send(key("k").json(&json!({ "name": "a" }))).await.ok();
    after("a write", 5).await;
    assert_eq!(app.send(key("k").json(&json!({ "name": "a" }))).await.header("idempotency-replayed"), "true");
    app.send(key("k").json(&json!({ "name": "b" }))).await.refused(Code::Unprocessable);
    after("a replay and a mismatch", 0).await;
    app.send(key("r").json(&json!({ "name": "refuse" }))).await.refused(Code::FailedPrecondition);
    after("a refusal by the operation", 5).await;
    assert_eq!(
        app.send(key("r").json(&json!({ "name": "refuse" }))).await.header("idempotency-replayed"),
        "true"
    );
    after("its replay", 0).await;
    app.get(&format!("/v1/lab/orgs/{org}/things/none")).await.refused(Code::NotFound);
    after("what is not there", 1).await;
    app.get("/v1/nowhere").await.refused(Code::NotFound);
    app.get("/v1/me?x=1").await.refused_field("x");
    app.post(&app.things(), &json!({ "name": 5 })).await.refused(Code::BadRequest);
    app.get(&format!("/v1/lab/orgs/{other}/things")).await.refused(Code::Forbidden);
    app.send(TestRequest::new("DELETE", "/v1/me").bearer(&app.token)).await.refused(Code::MethodNotAllowed);
    app.send(TestRequest::new("POST", &app.things()).bearer(&app.token).bytes(b"x".to_vec()))
        .await
        .refused(Code::UnsupportedMediaType);
    after("refusals before the run", 0).await;
    app.get("/v1/openapi.json").await.ok();
    app.get("/healthz").await.ok();
    after("documents and health", 0).await;
    for (path, units) in [("check", 10), ("narration", 100), ("generation", 400)] {
        app.get(&format!("/v1/lab/costs/{path}")).await.ok();
        after(path, units).await;
    }
    app.send(TestRequest::new("HEAD", "/v1/me").bearer(&app.token)).await;
    after("HEAD is GET", 1).await;
}

async fn faults_of_ours_are_given_back(app: TestApp) {
    let mut app = app;
    app.expect_errors();
    let before = used(&app).await + 1;
    app.post(&app.things(), &json!({ "name": "panic" })).await.refused(Code::Internal);
    assert_eq!(used(&app).await, before);
    let rows = units(&app).await;
    let row = rows["usage"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["rpc"] == "lab.things.create")
        .unwrap()
        .clone();
    assert_eq!(
        (&row["calls"], &row["units"], &row["platform_errors"]),
        (&json!("1"), &json!("0"), &json!("1"))
    );
}

async fn keys_are_refused_when_the_units_are_spent_and_persons_are_not(app: TestApp) {
    set_plan(&app, "tiny").await;
    let shown = units(&app).await;
    assert_eq!(
        (&shown["allowance"], &shown["granted"], &shown["used"], &shown["remaining"]),
        (&json!("100"), &json!("0"), &json!("0"), &json!("100"))
    );
    for _ in 0..99 {
        me(&app).await.ok();
    }
    let refused = me(&app).await;
    let problem = refused.refused(Code::QuotaExceeded);
    // It is the 31st of January, 14 and a half hours before the month ends, less a quarter of a second.
    assert_eq!(refused.header("retry-after"), (14 * 3600 + 1800).to_string());
    assert_eq!(
        problem["details"],
        json!([{ "type": "retry", "after_seconds": (14 * 3600 + 1800).to_string() }])
    );
    assert!(problem["error"].as_str().unwrap().contains("2026-02-01T00:00:00.000Z"), "{problem}");
    assert!(refused.headers.contains_key("x-ratelimit-limit"));
    app.get("/v1/lab/costs/generation").await.refused(Code::QuotaExceeded);
    // Not all of them are what the account has.
    app.get("/v1/openapi.json").await.ok();

    let ada = app.new_person("ada@example.com", None).await;
    app.join(app.account, ada.id, portico_kernel::Role::Owner).await;
    let person = app.person_token(ada.id).await;
    let shown = app
        .send(TestRequest::new("GET", &format!("/v1/accounts/orgs/{}/units", app.account)).bearer(&person))
        .await
        .ok();
    assert_eq!((&shown["used"], &shown["remaining"]), (&json!("100"), &json!("0")));
    let shown = app
        .send(TestRequest::new("GET", &format!("/v1/accounts/orgs/{}/units", app.account)).bearer(&person))
        .await
        .ok();
    assert_eq!((&shown["used"], &shown["remaining"]), (&json!("101"), &json!("-1")));
    me(&app).await.refused(Code::QuotaExceeded);

    grant(&app, app.account, 3).await;
    me(&app).await.ok();
    me(&app).await.refused(Code::QuotaExceeded);
    app.advance(Duration::from_mins(14 * 60 + 30)).await;
    let shown = units(&app).await;
    assert_eq!(
        (&shown["month"], &shown["used"], &shown["granted"]),
        (&json!("2026-02"), &json!("0"), &json!("0"))
    );
    assert_eq!(shown["resets_at"], "2026-03-01T00:00:00.000Z");
    assert_eq!(shown["days"].as_array().unwrap().len(), 0);
}

async fn the_last_unit_is_used_and_none_beyond_it(app: TestApp) {
    set_plan(&app, "tiny").await;
    grant(&app, app.account, 1_000).await;
    let (mut used_up, mut refused) = (0, 0);
    for round in 0..60 {
        for (path, price) in [
            ("/v1/lab/costs/generation", 400),
            ("/v1/lab/costs/narration", 100),
            ("/v1/lab/costs/check", 10),
            ("/v1/me", 1),
        ] {
            let answer = app.get(path).await;
            if answer.status == 200 {
                used_up += price;
            } else {
                answer.refused(Code::QuotaExceeded);
                assert!(used_up + price > 1_100, "{path} refused in round {round} with {used_up} used");
                refused += 1;
            }
        }
        // What was found to be spent is believed for a second.
        app.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(used_up, 1_100);
    assert!(refused > 100);
}

async fn an_open_plan_goes_on_and_counts(app: TestApp) {
    set_plan(&app, "open").await;
    for _ in 0..130 {
        me(&app).await.ok();
    }
    assert_eq!(units(&app).await["remaining"], "-30");
}

async fn thresholds_are_told_once_a_month_each(app: TestApp) {
    set_plan(&app, "tiny").await;
    let events = async |type_: &str| {
        let path = format!("/v1/accounts/orgs/{}/events?type={type_}", app.account);
        app.get(&path).await.ok()["events"].as_array().unwrap().clone()
    };
    for _ in 0..79 {
        me(&app).await.ok();
    }
    app.catch_up().await;
    assert!(events("usage.threshold").await.is_empty());
    app.catch_up().await;
    let told = events("usage.threshold").await;
    assert_eq!(told.len(), 1);
    let data = json!({ "account_id": app.account, "month": "2026-01", "threshold": 80, "actor": "platform" });
    assert_eq!(told[0]["data"], data);
    while me(&app).await.status == 200 {}
    app.catch_up().await;
    grant(&app, app.account, 500).await;
    let told = events("usage.threshold").await;
    assert_eq!(told.iter().map(|event| event["data"]["threshold"].clone()).collect::<Vec<_>>(), [100, 80]);
    while me(&app).await.status == 200 {}
    app.advance(Duration::from_hours(24)).await;
    assert_eq!(events("usage.threshold").await.len(), 2, "not again in the same month");
    while me(&app).await.status == 200 {}
    app.catch_up().await;
    grant(&app, app.account, 10).await;
    assert_eq!(events("usage.threshold").await.len(), 4, "and again in the next");
}

async fn a_threshold_is_told_although_a_grant_follows(app: TestApp) {
    let told = async || {
        let path = format!("/v1/accounts/orgs/{}/events?type=usage.threshold", app.account);
        let events = app.get(&path).await.ok()["events"].clone();
        events.as_array().unwrap().iter().map(|event| event["data"]["threshold"].clone()).collect::<Vec<_>>()
    };
    set_plan(&app, "tiny").await;
    for _ in 0..85 {
        me(&app).await.ok();
    }
    // None of the calls is counted in the database yet.
    app.clock.advance(Duration::from_secs(1));
    app.admin(Admin::Units(UnitsCommand::Grant { account: app.account, units: 100 })).await;
    app.catch_up().await;
    assert_eq!(told().await, [80]);
    let mut last = me(&app).await;
    while last.status == 200 {
        last = me(&app).await;
    }
    last.refused(Code::QuotaExceeded);
    // Another plan is another budget.
    app.clock.advance(Duration::from_secs(1));
    set_plan(&app, "free").await;
    app.catch_up().await;
    assert_eq!(told().await, [100, 80]);
}

async fn a_key_has_so_many_calls_a_minute(app: TestApp) {
    set_plan(&app, "slow").await;
    for remaining in (0..5).rev() {
        assert_eq!(left(&me(&app).await), (5, remaining, 60));
    }
    for _ in 0..3 {
        let refused = me(&app).await;
        let problem = refused.refused(Code::RateLimited);
        assert_eq!(left(&refused), (5, 0, 60));
        assert_eq!((refused.header("retry-after"), &problem["details"][0]["type"]), ("60", &json!("retry")));
    }
    // Another key of the same account has a minute of its own; refusals say how it stands and use up nothing.
    let other = app.token_without("identity:read").await;
    let refused = app.send(TestRequest::new("GET", "/v1/me").bearer(&other)).await;
    refused.refused(Code::Forbidden);
    assert_eq!(left(&refused), (5, 5, 1));
    let invalid = app.send(TestRequest::new("GET", "/v1/me").bearer("x")).await;
    invalid.refused(Code::Unauthenticated);
    assert!(!invalid.headers.contains_key("x-ratelimit-limit"));
    app.advance(Duration::from_secs(59)).await;
    me(&app).await.refused(Code::RateLimited);
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(left(&me(&app).await), (5, 4, 60), "there is room when it was told");
    assert_eq!(units(&app).await["used"], "6", "what was refused cost nothing");
}

async fn a_call_that_is_refused_for_its_units_keeps_its_place_in_the_minute(app: TestApp) {
    set_plan(&app, "slow").await;
    grant(&app, app.account, -99_998).await;
    for _ in 0..2 {
        me(&app).await.ok();
    }
    for _ in 0..10 {
        let refused = me(&app).await;
        refused.refused(Code::QuotaExceeded);
        assert_eq!(left(&refused).1, 3);
    }
}

async fn a_change_of_plan_or_grant_reaches_a_warm_server(app: TestApp) {
    me(&app).await.ok();
    set_plan(&app, "slow").await;
    assert_eq!(left(&me(&app).await).0, 5);
    grant(&app, app.account, -99_995).await;
    for _ in 0..3 {
        me(&app).await.ok();
    }
    app.advance(Duration::from_mins(2)).await;
    me(&app).await.refused(Code::QuotaExceeded);
    let audit = app.get(&format!("/v1/accounts/orgs/{}/audit", app.account)).await;
    audit.refused(Code::QuotaExceeded);
    set_plan(&app, "free").await;
    let audit = app.get(&format!("/v1/accounts/orgs/{}/audit?page_size=200", app.account)).await.ok();
    let actions: Vec<_> =
        audit["entries"].as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    assert!(
        actions.contains(&json!("account.plan_set")) && actions.contains(&json!("units.granted")),
        "{actions:?}"
    );
}

async fn many_at_once_never_pass_the_allowance_nor_the_limit(app: TestApp) {
    set_plan(&app, "tiny").await;
    let app = std::sync::Arc::new(app);
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move {
                let mut ok = 0;
                for _ in 0..5 {
                    ok += i32::from(me(&app).await.status == 200);
                }
                ok
            })
        })
        .collect();
    let mut ok = 0;
    for caller in callers {
        ok += caller.await.unwrap();
    }
    assert_eq!(ok, 100);
}

async fn a_write_whose_caller_went_away_is_counted_and_a_read_is_taken_back(app: TestApp) {
    let app = std::sync::Arc::new(app);
    let before = used(&app).await + 1;
    let (gone, body) = (app.clone(), json!({ "name": "wait" }));
    let call = tokio::spawn(async move { gone.post(&gone.things(), &body).await });
    app.lab.waiting.notified().await;
    call.abort();
    call.await.unwrap_err();
    assert_eq!(used(&app).await, before, "it has not ended");
    app.lab.go_on.notify_one();
    while used(&app).await < before + 5 {
        app.catch_up().await;
    }
    // Its units may be known before its row is.
    app.catch_up().await;
    let rows =
        app.get(&format!("/v1/accounts/orgs/{}/requests?rpc=lab.things.create", app.account)).await.ok();
    assert_eq!((&rows["requests"][0]["status"], &rows["requests"][0]["units"]), (&json!(200), &json!("5")));
}

/// The process dies without a word, and another starts on what it left.
async fn die_and_start(mut app: TestApp) -> TestApp {
    let (token, account, clock) = (app.token.clone(), app.account, app.clock.clone());
    app.app.engine.db.close().await;
    let database = TestDatabase { url: app.database.url.clone(), folder: app.take_folder() };
    drop(app);
    let mut app = TestApp::on(database, clock, TestAppOptions::default()).await;
    (app.token, app.account) = (token, account);
    app
}

/// A restart does not let a key pass its limit, nor forget what the account may spend.
#[tokio::test]
async fn a_minute_outlives_the_server() {
    for kind in [Database::Sqlite, Database::Postgres] {
        let app = TestApp::new(kind).await;
        set_plan(&app, "slow").await;
        for _ in 0..3 {
            me(&app).await.ok();
        }
        app.advance(Duration::from_secs(10)).await;
        let app = die_and_start(app).await;
        for remaining in [1, 0] {
            assert_eq!(left(&me(&app).await).1, remaining);
        }
        me(&app).await.refused(Code::RateLimited);
        app.advance(Duration::from_millis(50_500)).await;
        assert_eq!(left(&me(&app).await).1, 2);
    }
}

/// A folder that was used with another database keeps its journal for that one.
#[tokio::test]
async fn a_journal_of_another_database_is_left_alone() {
    let mut app = TestApp::new(Database::Sqlite).await;
    let (url, account, token, clock) =
        (app.database.url.clone(), app.account, app.token.clone(), app.clock.clone());
    for _ in 0..7 {
        me(&app).await.ok();
    }
    app.app.engine.db.close().await;
    let folder = app.take_folder();
    drop(app);
    let elsewhere = format!("sqlite:{}", folder.path().join("other.db").display());
    let mut other =
        TestApp::on(TestDatabase { url: elsewhere, folder }, clock.clone(), TestAppOptions::default()).await;
    me(&other).await.ok();
    let folder = other.take_folder();
    drop(other);
    let mut app = TestApp::on(TestDatabase { url, folder }, clock, TestAppOptions::default()).await;
    (app.account, app.token) = (account, token);
    assert_eq!(used(&app).await, 7);
}

/// What a process that died left is counted by the next, once.
#[tokio::test]
async fn what_a_dead_server_left_is_counted_once() {
    for kind in [Database::Sqlite, Database::Postgres] {
        let mut app = TestApp::new(kind).await;
        for round in 1..=5 {
            for _ in 0..10 {
                me(&app).await.ok();
            }
            if round == 3 {
                // Some of it is counted already.
                app.catch_up().await;
            }
            app = die_and_start(app).await;

            assert_eq!(used(&app).await, round * 10 + (round - 1), "in round {round}");
        }
        let journals = std::fs::read_dir(app.database.folder.path().join("journal")).unwrap();
        assert_eq!(journals.count(), 2, "the journals that were taken over are gone");
    }
}

#[tokio::test]
async fn accounts_on_a_plan_that_configuration_does_not_know_keep_the_server_from_starting() {
    let app = TestApp::new(Database::Sqlite).await;
    set_plan(&app, "slow").await;
    app.app.accounts.check_plans(&app.app.engine).await.unwrap();
    let mut tx = app.app.engine.db.write().await.unwrap();
    tx.execute("update accounts set plan = 'gone'", portico_store::args![]).await.unwrap();
    tx.commit().await.unwrap();
    let problem = app.app.accounts.check_plans(&app.app.engine).await.unwrap_err();
    assert!(problem.error().contains("the plan gone"), "{problem}");
}

#[tokio::test]
async fn a_call_is_charged_to_the_month_in_which_it_came() {
    let app = std::sync::Arc::new(TestApp::new(Database::Sqlite).await);
    let month = Month::of(app.clock.now());
    let (late, body) = (app.clone(), json!({ "name": "wait" }));
    let last = month.next().start() - Duration::from_millis(1);
    app.advance(last.since(app.clock.now())).await;
    let call = tokio::spawn(async move { late.post(&late.things(), &body).await.status });
    app.lab.waiting.notified().await;
    app.clock.advance(Duration::from_millis(2));
    app.lab.go_on.notify_one();
    assert_eq!(call.await.unwrap(), 200);
    assert_eq!(used(&app).await, 0, "nothing in February");
    let path = format!("/v1/accounts/orgs/{}/usage?month=2026-01", app.account);
    let rows = app.get(&path).await.ok();
    assert_eq!(
        (&rows["rows"][0]["rpc"], &rows["rows"][0]["units"]),
        (&json!("lab.things.create"), &json!("5"))
    );
}

/// Two servers: whoever is refused is told when the first call leaves the minute, whichever server admitted it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_tell_when_there_is_room() {
    let first = TestApp::new(Database::Postgres).await;
    set_plan(&first, "slow").await;
    let second = first.beside().await;
    let began = first.clock.now();
    let turn_to = async |seconds: u64| {
        first.advance((began + Duration::from_secs(seconds)).since(first.clock.now())).await;
        second.catch_up().await;
    };
    me(&first).await.ok();
    turn_to(20).await;
    // The second takes what is left, also what the first has and does not need.
    let mut refused = Box::pin(call_second(&first, &second)).await;
    for _ in 0..4 {
        refused.ok();
        refused = Box::pin(call_second(&first, &second)).await;
    }
    // The clock may have gone on a little since the answer was made.
    let told = |refused: &Answer| {
        refused.refused(Code::RateLimited);
        let (limit, remaining, reset) = left(refused);
        assert_eq!((limit, remaining), (5, 0));
        assert_eq!(refused.header("retry-after"), reset.to_string());
        let true_wait = 60.0 - first.clock.now().since(began).as_secs_f64();
        assert!((true_wait..=true_wait + 2.5).contains(&f64::from(reset)), "{reset} where it is {true_wait}");
    };
    told(&refused);
    turn_to(50).await;
    told(&Box::pin(call_second(&first, &second)).await);
    // The second is given the room once the first has said that it does not need it any more.
    for seconds in 60..=63 {
        turn_to(seconds).await;
        let answer = Box::pin(call_second(&first, &second)).await;
        if answer.status != 429 || seconds == 63 {
            answer.ok();
            return;
        }
        assert_eq!(answer.header("retry-after"), "1");
    }
}

/// Calls the second server with the first one's token, while the first does what it does by itself. Time goes by where a
/// server waits for the other.
async fn call_second(first: &TestApp, second: &TestApp) -> Answer {
    let mut answering = std::pin::pin!(second.send(TestRequest::new("GET", "/v1/me").bearer(&first.token)));
    loop {
        tokio::select! {
            biased;
            answer = &mut answering => return answer,
            () = first.advance(Duration::from_millis(100)) => {}
        }
        // However long the call takes, the second server hears what was revoked.
        second.app.identity.revocations.refresh(&second.app.engine).await.unwrap();
    }
}
