//! How soon an event is at its client.

use std::sync::Arc;

use portico_testkit::Database;

use super::crowd::Crowd;
use super::kind::Kind;
use super::load::{Load, delays};
use super::setup::StreamSetup;
use crate::report::Report;

const ACCOUNTS: usize = 8;
const EVENTS_PER_SECOND: u32 = 2_000;
const SECONDS: u32 = 4;

/// Events made at that pace, so many in each commit.
pub(crate) fn load(together: u32, seconds: u32) -> Load {
    let per_second = Some(f64::from(EVENTS_PER_SECOND) / f64::from(together));
    Load { accounts: ACCOUNTS, together, per_second, most: EVENTS_PER_SECOND * seconds }
}

/// One client of each account, with one transport after the other.
pub(crate) async fn measure(report: &mut Report, database: Database) {
    let setup = StreamSetup::create(database, ACCOUNTS).await;
    let server = setup.serve();
    // PostgreSQL does not take so many commits on a small machine.
    let together = if database == Database::Sqlite { 1 } else { 4 };
    for kind in [Kind::Sse, Kind::Socket, Kind::Mqtt1] {
        let crowd = Arc::new(Crowd::begin(&server, kind, (ACCOUNTS, 1), true).await);
        let delays = delays(&setup.database, &server, load(together, SECONDS), &crowd).await;
        let us = |hundredth| delays.times.percentile_us(hundredth);
        let what = format!(
            "{database:?}: from commit to socket, {}, {EVENTS_PER_SECOND} events a second, {together} a commit",
            kind.name()
        );
        let words = format!(
            "p50 {:.0} µs, p95 {:.0} µs, p99 {:.0} µs; {:.0} events /s",
            us(50),
            us(95),
            us(99),
            delays.made
        );
        report.words(&what, &words);
    }
}
