//! Writes through the whole way of a request, by one caller and by 64 at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use portico_engine::clock::Stopwatch;
use portico_store::args;
use portico_testkit::{Database, TestApp, TestRequest};
use serde_json::json;

use crate::report::Report;
use crate::signins::typical_p99;

const CALLERS: u32 = 64;

/// Does `work` for each number below `count`, with that many callers; answers how many a second.
pub(crate) async fn rate<W: Future<Output = ()> + Send>(
    callers: u32,
    count: u32,
    work: impl Fn(u32) -> W + Clone + Send + 'static,
) -> f64 {
    let next = Arc::new(AtomicU32::new(0));
    let watch = Stopwatch::start();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (next, work) = (next.clone(), work.clone());
            tokio::spawn(async move {
                loop {
                    match next.fetch_add(1, Ordering::Relaxed) {
                        number if number < count => work(number).await,
                        _ => return,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    f64::from(count) / watch.elapsed().as_secs_f64()
}

/// Who writes: the path and the token of each account in turn.
type Writers = Arc<Vec<(String, String)>>;

/// The one account that each platform of a test has.
fn one_account(app: &TestApp) -> Writers {
    Arc::new(vec![(app.things(), app.token.clone())])
}

/// An account for each caller.
async fn many_accounts(app: &TestApp) -> Writers {
    let mut writers = Vec::new();
    for number in 0..CALLERS {
        let account = app.new_account(&format!("Account {number}")).await;
        let made = app.new_token(account, app.all_scopes(), 7).await;
        let token = made["token"].as_str().unwrap().to_owned();
        writers.push((format!("/v1/lab/orgs/{account}/things"), token));
    }
    Arc::new(writers)
}

/// The whole way of a request that makes a thing.
async fn call_rate(app: &Arc<TestApp>, writers: &Writers, callers: u32, count: u32, keyed: bool) -> f64 {
    let (app, writers) = (app.clone(), writers.clone());
    rate(callers, count, move |number| {
        let (app, writers) = (app.clone(), writers.clone());
        async move {
            let (path, token) = &writers[number as usize % writers.len()];
            let sent = TestRequest::new("POST", path).bearer(token).json(&json!({ "name": "n" }));
            let key = format!("{callers}-{number}");
            let sent = if keyed { sent.header("idempotency-key", &key) } else { sent };
            app.send(sent).await.ok();
        }
    })
    .await
}

/// The store alone: one insert a transaction.
async fn store_rate(app: &Arc<TestApp>, callers: u32, count: u32) -> f64 {
    let app = app.clone();
    rate(callers, count, move |_| {
        let app = app.clone();
        async move {
            let mut tx = app.app.engine.db.write().await.unwrap();
            tx.execute("insert into bench_rows (name) values ($1)", args!["row".to_owned()]).await.unwrap();
            tx.commit().await.unwrap();
        }
    })
    .await
}

async fn measure_store(report: &mut Report, app: &Arc<TestApp>, database: Database, synced: f64) {
    let mut tx = app.app.engine.db.write().await.unwrap();
    tx.execute("create table bench_rows (name text not null)", args![]).await.unwrap();
    tx.commit().await.unwrap();
    store_rate(app, CALLERS, 2_000).await;
    let (one, many) = (store_rate(app, 1, 4_000).await, store_rate(app, CALLERS, 40_000).await);
    let bar = if database == Database::Sqlite { "bar: 4" } else { "no bar" };
    report.ratio(&format!("{database:?}: one insert a commit, 64 writers against one"), many, one, "/s", bar);
    if database == Database::Sqlite {
        report.ratio(
            &format!("{database:?}: the same, 64 writers against the disk"),
            many,
            synced,
            "/s",
            "no bar",
        );
    }
}

pub(crate) async fn measure(report: &mut Report, database: Database, synced: f64) {
    let app = Arc::new(TestApp::new(database).await);
    measure_store(report, &app, database, synced).await;
    let (own, apart) = (one_account(&app), many_accounts(&app).await);
    call_rate(&app, &own, CALLERS, 500, false).await;
    call_rate(&app, &apart, CALLERS, 500, false).await;
    for keyed in [false, true] {
        let what = if keyed { "keyed calls" } else { "calls that write" };
        let one = call_rate(&app, &own, 1, 1_500, keyed).await;
        report.figure(&format!("{database:?}: {what}, one caller"), one, "/s");
        let many = call_rate(&app, &own, CALLERS, 12_000, keyed).await;
        report.ratio(&format!("{database:?}: {what}, 64 callers against one"), many, one, "/s", "no bar");
        let many = call_rate(&app, &apart, CALLERS, 12_000, keyed).await;
        let what = format!("{database:?}: {what}, 64 callers in accounts apart, against one");
        report.ratio(&what, many, one, "/s", "no bar");
    }
    measure_reads_beside(report, &app, &own, database).await;
}

/// What a caller who reads notices of those who write.
async fn measure_reads_beside(report: &mut Report, app: &Arc<TestApp>, own: &Writers, database: Database) {
    let alone = typical_p99(app).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (app, own, stop) = (app.clone(), own.clone(), stop.clone());
        async move {
            while !stop.load(Ordering::Relaxed) {
                call_rate(&app, &own, CALLERS, 500, false).await;
            }
        }
    });
    let beside = typical_p99(app).await;
    stop.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    let what = format!("{database:?}: p99 of GET /v1/me while 64 callers write, against alone");
    report.ratio(&what, beside, alone, "µs", "bar: below 3");
}
