//! Work that waits in a queue, and the servers that claim it.

use std::time::Duration;

use portico_engine::{JobOutcome, MetricValue};
use portico_store::{Db, Select, args};
use portico_testkit::{
    Database, FakeClock, TestApp, TestAppOptions, TestDatabase, on_both_databases, turn, until,
};
use serde_json::json;

use crate::program::{Server, admin, call};

async fn enqueue(app: &TestApp, what: &str) -> String {
    let path = format!("/v1/lab/orgs/{}/work", app.account);
    app.post(&path, &json!({ "what": what })).await.ok()["id"].as_str().unwrap().to_owned()
}

/// The attempts at the item that were begun.
async fn attempts(db: &Db, id: &str) -> Vec<i64> {
    let attempts = "select attempt as value from lab_work where id = $1 order by attempt";
    db.query().values(attempts, args![id.to_owned()]).await.unwrap()
}

/// How many items wait, and how many were given up.
async fn items(db: &Db) -> (i64, i64) {
    let mut query = db.query();
    let waiting = "select count(*) as value from queue_items where queue = 'lab.work' and failed_at is null";
    let failed =
        "select count(*) as value from queue_items where queue = 'lab.work' and failed_at is not null";
    (query.value(waiting, args![]).await.unwrap(), query.value(failed, args![]).await.unwrap())
}

fn metric(app: &TestApp, name: &str) -> MetricValue {
    let metrics = app.app.engine.registry.metrics();
    let of_queue = |metric: &&portico_engine::Metric| {
        metric.name == name && metric.labels[0] == Some(("queue", "lab.work"))
    };
    metrics.iter().find(of_queue).unwrap().value.clone()
}

on_both_databases! {
    an_item_is_done_once_and_goes,
    an_item_that_failed_is_tried_again_or_given_up,
    the_end_of_an_old_claim_is_refused,
    an_item_is_erased_with_its_account,
}

async fn an_item_is_done_once_and_goes(app: TestApp) {
    let id = enqueue(&app, "nothing").await;
    assert_eq!(turn(&app, "lab.work").await, JobOutcome::Idle);
    assert_eq!(turn(&app, "lab.work").await, JobOutcome::Idle);
    assert_eq!(attempts(&app.app.engine.db, &id).await, [1]);
    assert_eq!(items(&app.app.engine.db).await, (0, 0));
    for _ in 0..2 {
        enqueue(&app, "nothing").await;
    }
    assert_eq!(turn(&app, "lab.work").await, JobOutcome::MoreWork, "as many as may run at once");
}

async fn an_item_that_failed_is_tried_again_or_given_up(mut app: TestApp) {
    app.expect_errors();
    let db = &app.app.engine.db;
    let failing = enqueue(&app, "fail").await;
    turn(&app, "lab.work").await;
    turn(&app, "lab.work").await;
    assert_eq!((attempts(db, &failing).await, items(db).await), (vec![1], (1, 0)), "not at once");
    app.clock.advance(Duration::from_secs(1));
    turn(&app, "lab.work").await;
    assert_eq!((attempts(db, &failing).await, items(db).await), (vec![1, 2], (0, 0)));
    enqueue(&app, "give up").await;
    turn(&app, "lab.work").await;
    assert_eq!(items(db).await, (0, 1), "it stays on record");
    assert_eq!(metric(&app, "queue_failed"), MetricValue::Counter(2));
    let panicking = enqueue(&app, "panic").await;
    turn(&app, "lab.work").await;
    assert_eq!(items(db).await, (1, 1));
    app.clock.advance(Duration::from_secs(3));
    turn(&app, "lab.work").await;
    assert_eq!(
        (attempts(db, &panicking).await, items(db).await),
        (vec![1, 2], (0, 1)),
        "once its claim ran out"
    );
    app.clock.advance(Duration::from_hours(31 * 24));
    turn(&app, "engine.prune_queues").await;
    assert_eq!(items(db).await, (0, 0), "and for a month");
}

/// A server that stands still loses its claim to another one, whose clock goes on.
async fn the_end_of_an_old_claim_is_refused(app: TestApp) {
    let id = enqueue(&app, "hold").await;
    let clock = FakeClock::default();
    clock.advance(Duration::from_secs(10));
    let database = TestDatabase { url: app.database.url.clone(), folder: tempfile::tempdir().unwrap() };
    std::fs::copy(app.database.folder.path().join("keyring"), database.folder.path().join("keyring"))
        .unwrap();
    let other = TestApp::on(database, clock, TestAppOptions::default()).await;
    let old = async {
        turn(&app, "lab.work").await;
    };
    let takes_over = async {
        app.lab.waiting.notified().await;
        until("the first attempt is noted", async || attempts(&app.app.engine.db, &id).await == [1]).await;
        turn(&other, "lab.work").await;
        assert_eq!(attempts(&app.app.engine.db, &id).await, [1, 2]);
        assert_eq!(items(&app.app.engine.db).await, (0, 0), "the other one ended it");
        app.lab.go_on.notify_one();
    };
    tokio::join!(old, takes_over);
    assert_eq!(metric(&app, "queue_claims_lost"), MetricValue::Counter(1));
    assert_eq!(metric(&other, "queue_claims_lost"), MetricValue::Counter(0));
}

async fn an_item_is_erased_with_its_account(app: TestApp) {
    enqueue(&app, "nothing").await;
    let engine = &app.app.engine;
    let mut tx = engine.db.write().await.unwrap();
    while engine.registry.erase_some(&mut tx, app.account, 100).await.unwrap() > 0 {}
    tx.commit().await.unwrap();
    assert_eq!(items(&engine.db).await, (0, 0));
}

/// `kill -9` of the server that holds an item: the other one does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_of_a_killed_server_moves_to_another() {
    let database = TestDatabase::create(Database::Postgres).await;
    let account = admin(&database, &["account", "create", "--name", "Acme"]);
    let account = account["account_id"].as_str().unwrap();
    let token = admin(&database, &["token", "create", "--account", account, "--scopes", "webhooks:write"]);
    let head = format!(
        "POST /v1/lab/orgs/{account}/work HTTP/1.1\r\nauthorization: Bearer {}\r\ncontent-type: application/json",
        token["token"].as_str().unwrap()
    );
    let first = Server::start(&database);
    let made = call(&first.api, &head, r#"{"what":"wait"}"#).await.unwrap().ok();
    let id = made["id"].as_str().unwrap();
    let db = Db::open(&database.url).await.unwrap();
    until("the first server works on it", async || attempts(&db, id).await == [1]).await;
    let second = Server::start(&database);
    first.kill();
    until("the second server has done it", async || items(&db).await == (0, 0)).await;
    assert_eq!(attempts(&db, id).await, [1, 2]);
    db.close().await;
    assert_eq!(second.stop().code(), Some(0));
}
