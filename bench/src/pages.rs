//! A page of a list must cost the same however long the list is.

use portico_engine::clock::Stopwatch;
use portico_store::args;
use portico_testkit::{Database, TestApp};

use crate::report::Report;

const PAGES: u32 = 1_000;

async fn fill(app: &TestApp, from: i64, to: i64) {
    let mut tx = app.app.engine.db.write().await.unwrap();
    tx.execute(
        "with recursive numbers (n) as (select $2 union all select n + 1 from numbers where n < $3) \
         insert into lab_things (account_id, number, id, name, size, color, created_at) \
         select $1, n, 'thing-' || n, 'name', n, '', 0 from numbers",
        args![app.account, from, to],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    if !app.database.url.starts_with("sqlite:") {
        // What autovacuum would do a minute later.
        let mut tx = app.app.engine.db.write().await.unwrap();
        tx.execute("analyze lab_things", args![]).await.unwrap();
        tx.commit().await.unwrap();
    }
}

/// Microseconds for a page: the first one, or each of many in a row, from the newest item to ever older ones.
async fn page_us(app: &TestApp, deep: bool) -> f64 {
    let first = format!("{}?page_size=20", app.things());
    let mut path = first.clone();
    let watch = Stopwatch::start();
    for _ in 0..PAGES {
        let page = app.get(&path).await.ok();
        let token = page["next_page_token"].as_str().unwrap();
        path = if deep && !token.is_empty() { format!("{first}&page_token={token}") } else { first.clone() };
    }
    watch.elapsed().as_secs_f64() * 1e6 / f64::from(PAGES)
}

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let app = TestApp::new(database).await;
    fill(&app, 1, 1_000).await;
    page_us(&app, true).await;
    let (first_small, deep_small) = (page_us(&app, false).await, page_us(&app, true).await);
    fill(&app, 1_001, 1_000_000).await;
    page_us(&app, true).await;
    let (first_large, deep_large) = (page_us(&app, false).await, page_us(&app, true).await);
    let what = |which: &str| format!("{database:?}: {which}, 1,000,000 rows against 1,000");
    report.ratio(&what("first page of 20"), first_large, first_small, "µs", "bar: about 1");
    report.ratio(&what("1,000 pages of 20 in a row"), deep_large, deep_small, "µs", "bar: about 1");
}
