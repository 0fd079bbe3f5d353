//! What services do themselves: publishing in batches, and verification beside the call that it stands for.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use portico_engine::clock::Stopwatch;
use portico_testkit::{Database, TestApp};
use serde_json::{Value, json};

use crate::report::Report;

const BATCH: usize = 500;
const BATCHES: usize = 100;
/// Less than a service may make in a minute, and the clock of a test stands still.
const CALLS: usize = 5_000;
const ROUNDS: usize = 5;
const BAR: f64 = 5_000.0;

fn request(method: &str, path: &str, token: &str, body: &Value) -> Request<Full<Bytes>> {
    let builder = Request::builder().method(method).uri(path).header("host", "bench");
    let builder = builder.header("authorization", format!("Bearer {token}"));
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    builder.header("content-type", "application/json").body(Full::new(body)).unwrap()
}

/// Events a second, in batches over so many accounts, one after the other.
async fn published(app: &TestApp, token: &str, accounts: usize, round: usize) -> f64 {
    let mut owners = vec![app.account];
    while owners.len() < accounts {
        owners.push(app.new_account(&format!("A{round}-{}", owners.len())).await);
    }
    let batch = |batch: usize| {
        let event = |at: usize| {
            let (id, account) = (format!("{accounts}-{round}-{batch}-{at}"), owners[at % accounts]);
            json!({ "id": id, "account_id": account, "type": "invoice.paid", "data": { "invoice_id": id } })
        };
        json!({ "events": (0..BATCH).map(event).collect::<Vec<_>>() })
    };
    let requests: Vec<_> =
        (0..BATCHES).map(|at| request("POST", "/v1/services/events", token, &batch(at))).collect();
    let watch = Stopwatch::start();
    for request in requests {
        assert_eq!(app.gateway.handle(request).await.status(), 200);
    }
    let events = u32::try_from(BATCH * BATCHES).unwrap();
    f64::from(events) / watch.elapsed().as_secs_f64()
}

/// How long each call takes, one after the other.
async fn each(app: &TestApp, requests: Vec<Request<Full<Bytes>>>) -> (f64, Duration) {
    let mut times = Vec::with_capacity(requests.len());
    for request in requests {
        let watch = Stopwatch::start();
        assert_eq!(app.gateway.handle(request).await.status(), 200);
        times.push(watch.elapsed());
    }
    times.sort_unstable();
    let sum: Duration = times.iter().sum();
    (sum.as_secs_f64() * 1e9 / f64::from(u32::try_from(CALLS).unwrap()), times[CALLS * 99 / 100])
}

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let app = TestApp::new(database).await;
    let token = app.service_token("invoices").await;
    for accounts in [1, 10, 500] {
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            rates.push(published(&app, &token, accounts, round).await);
        }
        rates.sort_by(f64::total_cmp);
        let what = format!("{database:?}: events published in batches of {BATCH}, of {accounts} accounts");
        report.ratio(&what, rates[ROUNDS / 2], BAR, "/s", "bar: 1 on SQLite");
    }
    let credential = app.service_credential("invoices").await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        app.advance(Duration::from_mins(2)).await;
        let answer = app.exchange_service(&credential, "").await.ok();
        let service = answer["access_token"].as_str().unwrap().to_owned();
        let question = json!({ "token": app.token, "scopes": ["usage:read"], "units": 1, "name": "x" });
        let verify = || request("POST", "/v1/services/verify", &service, &question);
        let (asked, p99) = each(&app, (0..CALLS).map(|_| verify()).collect()).await;
        let me = || request("GET", "/v1/me", &app.token, &Value::Null);
        let (plain, _) = each(&app, (0..CALLS).map(|_| me()).collect()).await;
        app.catch_up().await;
        rounds.push((plain / asked, 1e9 / asked, 1e9 / plain, p99));
    }
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, asked, plain, p99) = rounds[ROUNDS / 2];
    let what = format!("{database:?}: tokens verified, against GET /v1/me");
    report.ratio(&what, asked, plain, "/s", "bar: 0.6");
    let what = format!("{database:?}: verification, p99 of those");
    report.ratio(&what, p99.as_secs_f64() * 1e6, 1_000.0, "µs", "bar: at most 1");
}
