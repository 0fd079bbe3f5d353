//! `kill -9` while services publish events and report usage: each is there once, however often it was sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portico_engine::clock::SystemClock;
use portico_kernel::Clock;
use portico_store::{Db, Select, args};
use portico_testkit::{Database, TestDatabase, kills, while_moving};
use serde_json::{Value, json};

use super::{EVENTS, USAGE};
use crate::program::{Server, admin, call};

const PUBLISHERS: usize = 6;
const ACCOUNTS: usize = 3;
/// Elements of a batch.
const BATCH: usize = 40;
/// Answers before a server is killed.
const ANSWERS: usize = 25;

/// What publishers send, and for whom.
struct Scene {
    token: String,
    accounts: Vec<String>,
    now: String,
}

impl Scene {
    async fn create(database: &TestDatabase) -> Self {
        configure(database);
        let accounts = (0..ACCOUNTS).map(|number| {
            let account = admin(database, &["account", "create", "--name", &format!("Account {number}")]);
            account["account_id"].as_str().unwrap().to_owned()
        });
        let accounts = accounts.collect();
        let server = Server::start(database);
        let credential = admin(database, &["service", "credential", "invoices"]);
        let text = |name: &str| credential[name].as_str().unwrap();
        let basic = BASE64_STANDARD.encode(format!("{}:{}", text("client_id"), text("client_secret")));
        let head = format!(
            "POST /oauth2/token HTTP/1.1\r\nauthorization: Basic {basic}\r\n\
             content-type: application/x-www-form-urlencoded"
        );
        let form = "grant_type=client_credentials&audience=platform-api";
        let answer = call(&server.auth, &head, form).await.unwrap().ok();
        let token = answer["access_token"].as_str().unwrap().to_owned();
        assert_eq!(server.stop().code(), Some(0));
        Self { token, accounts, now: json!(SystemClock.now()).as_str().unwrap().to_owned() }
    }

    /// The batch of that number of one publisher. Of two publishers one publishes events, the other reports usage.
    fn batch(&self, publisher: usize, number: usize) -> (&'static str, Value) {
        let ids = (0..BATCH).map(|at| (format!("{publisher}-{number}-{at}"), &self.accounts[at % ACCOUNTS]));
        if publisher.is_multiple_of(2) {
            let event = |(id, account)| json!({ "id": id, "account_id": account, "type": "invoice.paid", "data": { "invoice_id": id } });
            (EVENTS, json!({ "events": ids.map(event).collect::<Vec<_>>() }))
        } else {
            let record = |(id, account)| json!({ "id": id, "account_id": account, "units": 7, "name": "pages", "at": self.now });
            (USAGE, json!({ "records": ids.map(record).collect::<Vec<_>>() }))
        }
    }

    /// Sends a batch; returns how many of it were accepted and how many repeated, unless the server went away.
    async fn send(&self, api: &str, publisher: usize, number: usize) -> Option<(u64, u64)> {
        let (path, batch) = self.batch(publisher, number);
        let head = format!(
            "POST {path} HTTP/1.1\r\nauthorization: Bearer {}\r\ncontent-type: application/json",
            self.token
        );
        let answer = call(api, &head, &batch.to_string()).await?;
        let (accepted, repeated, refused) = super::result(&answer);
        assert_eq!(refused, Vec::<u64>::new());
        assert_eq!(accepted + repeated, BATCH as u64);
        Some((accepted, repeated))
    }
}

/// A configuration with the service, whose target is never called.
fn configure(database: &TestDatabase) {
    crate::program::limit(database, 1_000_000_000, 100_000_000);
    let folder = database.folder.path();
    let invoice = json!({
        "type": "object", "required": ["invoice_id"], "additionalProperties": false,
        "properties": { "invoice_id": { "type": "string" } },
    });
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "Invoices", "version": "1" },
        "paths": { "/v1/invoices": { "get": {
            "operationId": "listInvoices", "security": [], "responses": { "200": { "description": "All." } },
        } } },
        "webhooks": { "invoice.paid": { "post": {
            "requestBody": { "content": { "application/json": { "schema": invoice } } },
            "responses": { "200": { "description": "Thanks." } },
        } } },
    });
    std::fs::write(folder.join("invoices.json"), document.to_string()).unwrap();
    let file = folder.join("portico.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let service = "[services.invoices]\nopenapi = \"invoices.json\"\ntargets = [\"http://127.0.0.1:9\"]\n\
                   required = false\n";
    std::fs::write(file, text + service).unwrap();
}

/// Publishes from these numbers on until the server was killed; returns the number that each publisher had begun last.
async fn publish_and_kill(database: &TestDatabase, scene: &Arc<Scene>, begin: &[usize]) -> Vec<usize> {
    let server = Server::start(database);
    let answers = Arc::new(AtomicUsize::new(0));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let (api, scene, answers) = (server.api.clone(), scene.clone(), answers.clone());
            let mut number = begin[publisher];
            tokio::spawn(async move {
                while scene.send(&api, publisher, number).await.is_some() {
                    answers.fetch_add(1, Ordering::SeqCst);
                    number += 1;
                }
                number
            })
        })
        .collect();
    // The signal to kill is progress, not time.
    let count = || answers.load(Ordering::SeqCst);
    let enough = async {
        while count() < ANSWERS {
            tokio::task::yield_now().await;
        }
    };
    while_moving("enough answers", count, enough).await;
    server.kill();
    let mut last = Vec::new();
    for publisher in publishers {
        last.push(publisher.await.unwrap());
    }
    last
}

async fn killed_while_services_publish(kind: Database) {
    let database = TestDatabase::create(kind).await;
    let scene = Arc::new(Scene::create(&database).await);
    // What had no answer is sent again first.
    let mut next = vec![0; PUBLISHERS];
    for _ in 0..kills() {
        next = publish_and_kill(&database, &scene, &next).await;
    }
    let server = Server::start(&database);
    let (mut unanswered, mut sent) = (0, [0, 0]);
    for (publisher, last) in next.into_iter().enumerate() {
        for number in 0..=last {
            let (accepted, repeated) = scene.send(&server.api, publisher, number).await.unwrap();
            assert!(accepted == 0 || repeated == 0, "a batch is there whole or not at all");
            assert!(accepted == 0 || number == last, "what was answered is kept");
            unanswered += u64::from(accepted > 0);
        }
        sent[publisher % 2] += (last + 1) * BATCH;
    }
    println!("{sent:?} events and records, {} kills, {unanswered} batches were not there", kills());
    each_is_there_once(&database, &scene, &server, sent).await;
    assert_eq!(server.stop().code(), Some(0));
}

async fn each_is_there_once(
    database: &TestDatabase,
    scene: &Scene,
    server: &Server,
    [events, records]: [usize; 2],
) {
    let mut calls = 0;
    for account in &scene.accounts {
        let token = admin(database, &["token", "create", "--account", account, "--scopes", "usage:read"]);
        let (token, month) = (token["token"].as_str().unwrap(), &scene.now[..7]);
        let head = format!(
            "GET /v1/accounts/orgs/{account}/usage?month={month} HTTP/1.1\r\nauthorization: Bearer {token}"
        );
        let usage = call(&server.api, &head, "").await.unwrap().ok();
        let rows = usage["rows"].as_array().unwrap().iter();
        let pages = rows.filter(|row| row["rpc"] == "invoices.pages");
        calls += pages.map(|row| row["calls"].as_str().unwrap().parse::<usize>().unwrap()).sum::<usize>();
    }
    assert_eq!(calls, records, "each record is counted once");
    let db = Db::open(&database.url).await.unwrap();
    let mut tx = db.read().await.unwrap();
    for published in [
        "select count(*) as value from events where type = 'invoice.paid'",
        "select count(distinct data) as value from events where type = 'invoice.paid'",
    ] {
        let published: i64 = tx.value(published, args![]).await.unwrap();
        assert_eq!(published, i64::try_from(events).unwrap(), "each event is there once");
    }
    tx.rollback();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_services_publish_on_sqlite() {
    killed_while_services_publish(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_services_publish_on_postgres() {
    killed_while_services_publish(Database::Postgres).await;
}
