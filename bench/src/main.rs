//! Figures, each as a ratio taken in one run on one machine. `make bench` prints them and writes `bench/RESULTS.md`.

#![expect(clippy::unwrap_used, reason = "a bench that fails panics")]

mod admission;
mod against;
mod bodies;
mod connections;
mod deliveries;
mod disk;
mod exchanges;
mod http;
mod lookups;
mod pages;
mod publishing;
mod report;
mod reports;
mod signins;
mod streams;
mod writes;

use portico_testkit::Database;
use report::Report;

/// The parts that may be named alone, in the order in which a whole run measures them.
const PARTS: [&str; 16] = [
    "admission",
    "bodies",
    "signins",
    "http",
    "tools",
    "peers",
    "services",
    "lookups",
    "exchanges",
    "writes",
    "reports",
    "pages",
    "deliveries",
    "streams",
    "publishing",
    "connections",
];

#[tokio::main]
async fn main() {
    portico_testkit::run_outside_nextest();
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    match only.as_deref() {
        // Servers that are measured, in processes that the bench starts.
        Some(http::bare::NAME) => return http::bare::serve(arguments.next().unwrap().as_ref()).await,
        Some(http::target::NAME) => return http::target::serve().await,
        Some("against") => return against::measure(arguments),
        Some(part) => {
            assert!(PARTS.contains(&part), "there is no part {part:?}; the parts are {}", PARTS.join(", "));
        }
        None => {}
    }
    let mut report = Report::default();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let synced = disk::synced_writes_per_second();
    report.figure("synced writes of the disk", synced, "/s");
    if wanted("admission") {
        admission::measure(&mut report).await;
    }
    if wanted("bodies") {
        bodies::measure(&mut report).await;
    }
    if wanted("signins") {
        signins::measure(&mut report).await;
    }
    if wanted("http") {
        http::measure(&mut report).await;
    }
    if wanted("tools") {
        http::tools::measure(&mut report).await;
    }
    if wanted("peers") {
        http::peers::measure(&mut report).await;
    }
    if wanted("services") {
        http::services::measure(&mut report).await;
    }
    if wanted("lookups") {
        lookups::measure(&mut report).await;
    }
    for database in [Database::Sqlite, Database::Postgres] {
        if wanted("exchanges") {
            exchanges::measure(&mut report, database).await;
        }
        if wanted("writes") {
            writes::measure(&mut report, database, synced).await;
        }
        if wanted("reports") {
            reports::measure(&mut report, database).await;
        }
        if wanted("pages") {
            pages::measure(&mut report, database).await;
        }
        if wanted("deliveries") {
            deliveries::measure(&mut report, database).await;
        }
        if wanted("streams") {
            streams::measure(&mut report, database).await;
        }
        if wanted("publishing") {
            publishing::measure(&mut report, database).await;
        }
        if wanted("connections") {
            connections::measure(&mut report, database).await;
        }
    }
    // Only a whole run is written down.
    if only.is_none() {
        report.finish();
    }
}
