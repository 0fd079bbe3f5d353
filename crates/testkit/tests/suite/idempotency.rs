//! Idempotency keys.

use std::sync::Arc;

use portico_kernel::{Code, seconds};
use portico_store::{Select, args};
use portico_testkit::{Answer, TestApp, TestRequest, on_both_databases};
use serde_json::{Value, json};

async fn keyed(app: &TestApp, key: &str, body: &Value) -> Answer {
    app.send(
        TestRequest::new("POST", &app.things()).bearer(&app.token).header("idempotency-key", key).json(body),
    )
    .await
}

fn replayed(answer: &Answer) -> bool {
    answer.header("idempotency-replayed") == "true"
}

on_both_databases! {
    a_repeat_gets_the_kept_answer_and_runs_nothing,
    another_body_is_unprocessable,
    a_refusal_by_the_operation_is_kept_too,
    what_admission_refused_and_faults_are_not_kept,
    a_key_is_one_to_255_visible_characters,
    keys_of_others_are_their_own,
    answers_are_kept_for_a_day,
    a_repeat_while_the_first_runs_is_a_conflict,
    thirty_two_callers_with_one_key_run_once,
    a_caller_that_goes_away_does_not_stop_the_call,
    a_crash_leaves_a_lease_that_ends,
    kept_answers_are_sealed_and_pruned,
}

async fn a_repeat_gets_the_kept_answer_and_runs_nothing(app: TestApp) {
    let body = json!({ "name": "a", "size": 5, "look": { "color": "red" } });
    let first = keyed(&app, "k", &body).await;
    first.ok();
    assert!(!replayed(&first));
    let second = keyed(&app, "k", &body).await;
    assert!(replayed(&second));
    assert_eq!(second.body, first.body, "byte for byte, the secret included");
    assert_ne!(second.header("x-request-id"), first.header("x-request-id"));
    // The same request, written otherwise.
    let spelled = format!(
        "{{ \"look\" : {{\"color\":\"red\"}}, \"size\":\"5\", \"tags\":null, \"org_id\": \"{}\", \"name\":\"\\u0061\"}}",
        app.account
    );
    let third = app
        .send(
            TestRequest::new("POST", &app.things())
                .bearer(&app.token)
                .header("idempotency-key", "k")
                .text(&spelled),
        )
        .await;
    assert!(replayed(&third));
    assert_eq!(app.lab.runs(), 1);
    assert_eq!(app.get(&app.things()).await.ok()["things"].as_array().unwrap().len(), 1);
}

async fn another_body_is_unprocessable(app: TestApp) {
    keyed(&app, "k", &json!({ "name": "a" })).await.ok();
    keyed(&app, "k", &json!({ "name": "b" })).await.refused(Code::Unprocessable);
    keyed(&app, "k", &json!({ "name": "a", "size": 1 })).await.refused(Code::Unprocessable);
    assert_eq!(app.lab.runs(), 1);
}

async fn a_refusal_by_the_operation_is_kept_too(app: TestApp) {
    keyed(&app, "x", &json!({ "name": "a", "id": "same" })).await.ok();
    let refused = keyed(&app, "y", &json!({ "name": "b", "id": "same" })).await;
    refused.refused(Code::AlreadyExists);
    app.send(TestRequest::new("DELETE", &format!("{}/same", app.things())).bearer(&app.token)).await.ok();
    let again = keyed(&app, "y", &json!({ "name": "b", "id": "same" })).await;
    assert_eq!((again.status, replayed(&again)), (409, true));
    assert_eq!(again.body, refused.body, "its request id included");
}

async fn what_admission_refused_and_faults_are_not_kept(app: TestApp) {
    let mut app = app;
    app.expect_errors();
    keyed(&app, "k", &json!({ "nope": 1 })).await.refused_field("nope");
    keyed(&app, "k", &json!({ "name": "unavailable" })).await.refused(Code::Unavailable);
    keyed(&app, "k", &json!({ "name": "fail late" })).await.refused(Code::Internal);
    keyed(&app, "k", &json!({ "name": "panic" })).await.refused(Code::Internal);
    let made = keyed(&app, "k", &json!({ "name": "fine" })).await;
    made.ok();
    assert!(!replayed(&made));
}

async fn a_key_is_one_to_255_visible_characters(app: TestApp) {
    for (number, key) in ["a", "\"quoted\"", &"k".repeat(255)].iter().enumerate() {
        keyed(&app, key, &json!({ "name": "a", "id": format!("t{number}") })).await.ok();
    }
    for bad in ["", "two words", &"k".repeat(256), "tab\there", "caf\u{e9}"] {
        keyed(&app, bad, &json!({ "name": "a" })).await.refused_field("Idempotency-Key");
    }
    let twice = TestRequest::new("POST", &app.things())
        .bearer(&app.token)
        .header("idempotency-key", "a")
        .header("idempotency-key", "b")
        .json(&json!({ "name": "a" }));
    app.send(twice).await.refused_field("Idempotency-Key");
    assert_eq!(app.lab.runs(), 3);
}

async fn keys_of_others_are_their_own(app: TestApp) {
    keyed(&app, "k", &json!({ "name": "a" })).await.ok();
    let colleague = app.token_with(app.account, app.all_scopes()).await;
    let theirs = app
        .send(
            TestRequest::new("POST", &app.things())
                .bearer(&colleague)
                .header("idempotency-key", "k")
                .json(&json!({ "name": "b" })),
        )
        .await;
    theirs.ok();
    assert!(!replayed(&theirs));
    // Where an operation does not list the header, it is ignored.
    let patch = TestRequest::new("PATCH", &format!("{}/none", app.things()))
        .bearer(&app.token)
        .header("idempotency-key", "two words")
        .json(&json!({}));
    app.send(patch).await.refused(Code::NotFound);
}

async fn answers_are_kept_for_a_day(app: TestApp) {
    let body = json!({ "name": "a" });
    keyed(&app, "k", &body).await.ok();
    app.advance(seconds(24 * 3600 - 1)).await;
    assert!(replayed(&keyed(&app, "k", &body).await));
    app.advance(seconds(1)).await;
    assert!(!replayed(&keyed(&app, "k", &body).await));
    assert_eq!(app.lab.runs(), 2);
}

async fn a_repeat_while_the_first_runs_is_a_conflict(app: TestApp) {
    let app = Arc::new(app);
    let first = tokio::spawn({
        let app = app.clone();
        async move { keyed(&app, "k", &json!({ "name": "wait" })).await }
    });
    app.lab.waiting.notified().await;
    let second = keyed(&app, "k", &json!({ "name": "wait" })).await;
    second.refused(Code::Conflict);
    assert_eq!(second.header("retry-after"), "1");
    app.lab.go_on.notify_one();
    first.await.unwrap().ok();
    assert!(replayed(&keyed(&app, "k", &json!({ "name": "wait" })).await));
    assert_eq!(app.lab.runs(), 1);
}

async fn thirty_two_callers_with_one_key_run_once(app: TestApp) {
    let app = Arc::new(app);
    for round in 0..10 {
        let key = format!("k{round}");
        let callers: Vec<_> = (0..32)
            .map(|_| {
                let (app, key) = (app.clone(), key.clone());
                tokio::spawn(async move { keyed(&app, &key, &json!({ "name": "a" })).await })
            })
            .collect();
        let mut bodies = Vec::new();
        for caller in callers {
            let answer = caller.await.unwrap();
            match answer.status {
                200 => bodies.push(answer.body),
                _ => drop(answer.refused(Code::Conflict)),
            }
        }
        assert!(!bodies.is_empty());
        assert!(bodies.iter().all(|body| *body == bodies[0]), "one answer for all");
        assert_eq!(app.lab.runs(), round + 1);
    }
}

async fn a_caller_that_goes_away_does_not_stop_the_call(app: TestApp) {
    let app = Arc::new(app);
    let call = tokio::spawn({
        let app = app.clone();
        async move { keyed(&app, "k", &json!({ "name": "wait" })).await }
    });
    app.lab.waiting.notified().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    app.lab.go_on.notify_one();
    loop {
        let answer = keyed(&app, "k", &json!({ "name": "wait" })).await;
        if answer.status == 200 {
            assert!(replayed(&answer));
            break;
        }
        answer.refused(Code::Conflict);
        tokio::task::yield_now().await;
    }
    assert_eq!(app.lab.runs(), 1);
}

async fn a_crash_leaves_a_lease_that_ends(app: TestApp) {
    // What a process leaves behind that dies between the claim and the commit.
    keyed(&app, "k", &json!({ "name": "a", "id": "one" })).await.ok();
    let mut tx = app.app.engine.db.write().await.unwrap();
    tx.execute(
        "update idempotency_records set state = 'running', answer = null, expires_at = $1",
        args![portico_kernel::Clock::now(&app.clock) + seconds(60)],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let body = json!({ "name": "a", "id": "two" });
    keyed(&app, "k", &body).await.refused(Code::Conflict);
    app.advance(seconds(60)).await;
    let after = keyed(&app, "k", &body).await;
    after.ok();
    assert!(!replayed(&after));
}

async fn kept_answers_are_sealed_and_pruned(app: TestApp) {
    let made = keyed(&app, "k", &json!({ "name": "a" })).await.ok();
    let secret = made["secret"].as_str().unwrap().to_owned();
    let mut tx = app.app.engine.db.read().await.unwrap();
    let kept: Vec<u8> = tx.value("select answer as value from idempotency_records", args![]).await.unwrap();
    tx.rollback();
    assert!(!String::from_utf8_lossy(&kept).contains(&secret[6..]));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut jobs = app.app.engine.registry.start_jobs(&app.app.engine, &stopped).await.unwrap();
    app.advance(seconds(24 * 3600)).await;
    loop {
        // The job waits on this clock, whenever it began to.
        app.advance(seconds(300)).await;
        let mut tx = app.app.engine.db.read().await.unwrap();
        let left: i64 = tx.value("select count(*) as value from idempotency_records", args![]).await.unwrap();
        tx.rollback();
        if left == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    while jobs.join_next().await.is_some() {}
}
