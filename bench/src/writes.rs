//! Writes through the whole way of a request, by one caller and by 64 at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use portico_engine::clock::Stopwatch;
use portico_store::args;
use portico_testkit::{Database, TestApp, TestRequest};
use serde_json::json;

use crate::report::Report;

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

/// The whole way of a request that makes a thing.
async fn call_rate(app: &Arc<TestApp>, callers: u32, count: u32, keyed: bool) -> f64 {
    let app = app.clone();
    rate(callers, count, move |number| {
        let app = app.clone();
        async move {
            let sent =
                TestRequest::new("POST", &app.things()).bearer(&app.token).json(&json!({ "name": "n" }));
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
    call_rate(&app, CALLERS, 500, false).await;
    for keyed in [false, true] {
        let what = if keyed { "keyed calls" } else { "calls that write" };
        let one = call_rate(&app, 1, 1_500, keyed).await;
        let many = call_rate(&app, CALLERS, 12_000, keyed).await;
        report.ratio(&format!("{database:?}: {what}, 64 callers against one"), many, one, "/s", "no bar");
    }
}
