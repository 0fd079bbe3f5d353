//! What services publish: events in batches.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use portico_engine::clock::Stopwatch;
use portico_testkit::{Database, TestApp};
use serde_json::{Value, json};

use crate::report::Report;

const BATCH: usize = 500;
const BATCHES: usize = 100;
const ROUNDS: usize = 5;
const BAR: f64 = 5_000.0;

fn request(token: &str, body: &Value) -> Request<Full<Bytes>> {
    let builder = Request::post("/v1/services/events").header("host", "bench");
    let builder = builder.header("authorization", format!("Bearer {token}"));
    let body: Bytes = body.to_string().into();
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
    let requests: Vec<_> = (0..BATCHES).map(|at| request(token, &batch(at))).collect();
    let watch = Stopwatch::start();
    for request in requests {
        assert_eq!(app.gateway.handle(request).await.status(), 200);
    }
    let events = u32::try_from(BATCH * BATCHES).unwrap();
    f64::from(events) / watch.elapsed().as_secs_f64()
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
}
