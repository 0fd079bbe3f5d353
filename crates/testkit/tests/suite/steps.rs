//! Operations that call the outside between two commits.

use portico_kernel::Code;
use portico_store::{Db, Select, args};
use portico_testkit::lab::ORDER_ID;
use portico_testkit::{
    Answer, Database, Receiver, ReceiverReply, TestApp, TestDatabase, TestRequest, on_both_databases, until,
};
use serde_json::{Value, json};

use crate::program::{Server, admin, call, command};
use crate::with_a_receiver;

fn orders(app: &TestApp) -> String {
    format!("/v1/lab/orgs/{}/orders", app.account)
}

async fn keyed(app: &TestApp, body: &Value) -> Answer {
    let sent = TestRequest::new("POST", &orders(app)).bearer(&app.token).header("idempotency-key", "k");
    app.send(sent.json(body)).await
}

/// How often each action of the lab stands in the audit log: things reserved, and things ordered.
async fn audited(db: &Db) -> (i64, i64) {
    let count = "select count(*) as value from audit_entries where action = $1";
    let mut query = db.query();
    let reserved = query.value(count, args!["lab.thing.reserved".to_owned()]).await.unwrap();
    (reserved, query.value(count, args!["lab.thing.ordered".to_owned()]).await.unwrap())
}

on_both_databases! {
    a_call_out_under_an_open_transaction_is_caught,
    each_step_commits_with_its_audit_entries,
}

async fn a_call_out_under_an_open_transaction_is_caught(mut app: TestApp) {
    app.expect_errors();
    app.post(&orders(&app), &json!({ "careless": true })).await.refused(Code::Internal);
    assert_eq!(app.count("lab_things").await, 0, "what it wrote is rolled back");
}

async fn each_step_commits_with_its_audit_entries(app: TestApp) {
    let order = app.post(&orders(&app), &json!({})).await.ok();
    let thing = format!("{}/{}", app.things(), order["thing_id"].as_str().unwrap());
    assert_eq!(app.get(&thing).await.ok()["name"], "ordered");
    assert_eq!(audited(&app.app.engine.db).await, (1, 1));
    let of_the_order =
        "select count(*) as value from events where type = 'audit.event' and data like '%lab.thing.%'";
    let events: i64 = app.app.engine.db.query().value(of_the_order, args![]).await.unwrap();
    assert_eq!(events, 2, "each with its event");
}

with_a_receiver! {
    a_step_that_was_committed_is_not_repeated,
}

async fn a_step_that_was_committed_is_not_repeated(app: TestApp, shop: Receiver) {
    shop.answer("/shop", ReceiverReply::Never);
    let body = json!({ "shop": shop.url("/shop") });
    // The caller gives up, and the operation runs into its limit or is answered later; here the shop is away.
    let away = json!({ "shop": "http://127.0.0.1:1/" });
    keyed(&app, &away).await.refused(Code::Unavailable);
    assert_eq!((app.lab.runs(), audited(&app.app.engine.db).await), (1, (1, 0)), "the first step stands");
    keyed(&app, &body).await.refused(Code::Unprocessable);
    keyed(&app, &away).await.refused(Code::Unavailable);
    assert_eq!((app.lab.runs(), audited(&app.app.engine.db).await), (1, (1, 0)), "and is not run again");
    assert_eq!(app.count("lab_things").await, 1);
}

/// Kills the server while it waits for the shop, between the two commits of a keyed call, and repeats the call.
async fn killed_between_two_commits(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let account = admin(&database, &["account", "create", "--name", "Acme"]);
    let account = account["account_id"].as_str().unwrap();
    let token = admin(&database, &["token", "create", "--account", account, "--scopes", "webhooks:write"]);
    let head = format!(
        "POST /v1/lab/orgs/{account}/orders HTTP/1.1\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\nidempotency-key: k",
        token["token"].as_str().unwrap()
    );
    let shop = Receiver::start().await;
    shop.answer("/shop", ReceiverReply::Never);
    let body = json!({ "shop": shop.url("/shop") }).to_string();
    let start = || {
        let mut command = command(&database);
        command.env("PORTICO_EGRESS_ALLOW", "127.0.0.0/8");
        Server::start_as(command)
    };
    let server = start();
    let (api, first_head, first_body) = (server.api.clone(), head.clone(), body.clone());
    let first = tokio::spawn(async move { call(&api, &first_head, &first_body).await });
    until("the shop is called", async || shop.received("/shop").len() == 1).await;
    server.kill();
    assert!(first.await.unwrap().is_none(), "nobody was answered");
    let db = Db::open(&database.url).await.unwrap();
    assert_eq!(audited(&db).await, (1, 0));

    shop.answer("/shop", ReceiverReply::Status(200));
    let server = start();
    // On a shared database the claim of the dead server is a lease, which ends.
    let mut tx = db.write().await.unwrap();
    tx.run("update idempotency_records set claimed_until = 0", args![]).await.unwrap();
    tx.commit().await.unwrap();
    let order = call(&server.api, &head, &body).await.unwrap().ok();
    assert_eq!(order["status"], 200);
    assert_eq!(audited(&db).await, (1, 1), "the first step was not repeated");
    let things: i64 = db.query().value("select count(*) as value from lab_things", args![]).await.unwrap();
    assert_eq!(things, 1);
    let ids: Vec<_> =
        shop.received("/shop").iter().map(|request| request.header(ORDER_ID).to_owned()).collect();
    assert_eq!(
        ids,
        vec![order["thing_id"].as_str().unwrap(); 2],
        "the shop can tell that it is the same order"
    );
    let again = call(&server.api, &head, &body).await.unwrap();
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!((again.ok(), shop.received("/shop").len()), (order, 2));
    db.close().await;
    assert_eq!(server.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_two_commits_on_sqlite() {
    killed_between_two_commits(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_two_commits_on_postgres() {
    killed_between_two_commits(Database::Postgres).await;
}
