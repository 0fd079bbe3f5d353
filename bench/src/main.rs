//! Figures, each as a ratio taken in one run on one machine. `make bench` prints them and writes `bench/RESULTS.md`.

#![expect(clippy::unwrap_used, reason = "a bench that fails panics")]

mod disk;
mod pages;
mod report;
mod writes;

use portico_testkit::Database;
use report::Report;

#[tokio::main]
async fn main() {
    let mut report = Report::default();
    let synced = disk::synced_writes_per_second();
    report.figure("synced writes of the disk", synced, "/s");
    for database in [Database::Sqlite, Database::Postgres] {
        writes::measure(&mut report, database, synced).await;
        pages::measure(&mut report, database).await;
    }
    report.finish();
}
