//! `kill -9` in the middle of keyed writes: every key ran once or not at all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use portico_store::{Db, Select, args};
use portico_testkit::{Database, TestDatabase};
use serde_json::json;

use crate::program::{Server, admin, call};

const KEYS: usize = 1_000;
const CALLERS: usize = 16;
const KILLS: usize = 5;

/// Sends the keyed write number `number`; its answer, when one came.
async fn write(api: &str, target: &Target, number: usize) -> Option<(u16, bool, Bytes)> {
    let (things, token) = (&target.things, &target.token);
    let head = format!(
        "POST {things} HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         idempotency-key: key-{number}"
    );
    let body = json!({ "name": "n", "id": format!("t{number}"), "size": number }).to_string();
    let answer = call(api, &head, &body).await?;
    let replayed = answer.header("idempotency-replayed") == "true";
    Some((answer.status, replayed, answer.body))
}

/// Where the writes go, and with which token.
#[derive(Clone)]
struct Target {
    things: Arc<String>,
    token: Arc<String>,
}

/// Writes the keys up to `end` with many callers, and kills the server when the key `at` was begun.
async fn write_and_kill(
    database: &TestDatabase,
    target: &Target,
    next: &Arc<AtomicUsize>,
    at: usize,
    end: usize,
) -> HashMap<usize, Bytes> {
    let server = Server::start(database);
    let api = Arc::new(server.api.clone());
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (api, target, next) = (api.clone(), target.clone(), next.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= end {
                        return answers;
                    }
                    match write(&api, &target, number).await {
                        Some((200, _, body)) => answers.push((number, body)),
                        Some((status, ..)) => panic!("status {status}"),
                        None => return answers,
                    }
                }
            })
        })
        .collect();
    // The signal to kill is progress, not time.
    while next.load(Ordering::SeqCst) < at {
        tokio::task::yield_now().await;
    }
    server.kill();
    let mut answered = HashMap::new();
    for caller in callers {
        answered.extend(caller.await.unwrap());
    }
    answered
}

async fn kill_in_the_middle(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let account = admin(&database, &["account", "create", "--name", "Acme"]);
    let account = account["account_id"].as_str().unwrap().to_owned();
    let token = admin(&database, &["token", "create", "--account", &account, "--scopes", "webhooks:write"]);
    let token = Arc::new(token["token"].as_str().unwrap().to_owned());
    let target = Target { things: Arc::new(format!("/v1/lab/orgs/{account}/things")), token };

    let mut answered: HashMap<usize, Bytes> = HashMap::new();
    for round in 1..=KILLS {
        let (begin, end) = ((round - 1) * KEYS / KILLS, round * KEYS / KILLS);
        let next = Arc::new(AtomicUsize::new(begin));
        answered.extend(write_and_kill(&database, &target, &next, begin + round * 30, end).await);
    }
    assert!(answered.len() >= KILLS * 20, "{} were answered before a kill", answered.len());

    let server = Server::start(&database);
    let mut ran_before = 0;
    for number in 0..KEYS {
        let (status, replayed, body) = loop {
            let answer = write(&server.api, &target, number).await.unwrap();
            // On a shared database a claim of the dead server is a lease, which ends.
            if answer.0 != 409 || !is_running(&answer.2) {
                break answer;
            }
            expire_leases(&database).await;
        };
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        ran_before += usize::from(replayed);
        if let Some(first) = answered.get(&number) {
            assert!(replayed, "what was answered is kept");
            assert_eq!(*first, body);
        }
        let again = write(&server.api, &target, number).await.unwrap();
        assert_eq!((again.0, again.1, &again.2), (200, true, &body), "a repeat gives the same answer");
    }
    println!("{ran_before} of {KEYS} had run before the last start, {} of them answered", answered.len());
    each_ran_once(&database).await;
    assert_eq!(server.stop().code(), Some(0));
}

async fn each_ran_once(database: &TestDatabase) {
    let db = Db::open(&database.url).await.unwrap();
    let mut tx = db.read().await.unwrap();
    let count: i64 = tx.value("select count(*) as value from lab_things", args![]).await.unwrap();
    assert_eq!(count, i64::try_from(KEYS).unwrap(), "each ran once");
    let events = "select count(*) as value from events where type = 'lab.thing.created'";
    let events: i64 = tx.value(events, args![]).await.unwrap();
    assert_eq!(events, count, "each with its event");
    tx.rollback();
}

fn is_running(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("still running")
}

/// Lets the leases end as if a minute had gone by.
async fn expire_leases(database: &TestDatabase) {
    let db = Db::open(&database.url).await.unwrap();
    let mut tx = db.write().await.unwrap();
    tx.execute("update idempotency_records set claimed_until = 0 where state = 'running'", args![])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    db.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    kill_in_the_middle(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    kill_in_the_middle(Database::Postgres).await;
}
