//! Clients that never read, beside some that do: what they cost the server, and what they cost the others.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock as _;
use portico_testkit::Database;

use super::crowd::{self, Crowd};
use super::delay;
use super::kind::Kind;
use super::load::{Delays, Load, Making, delays};
use super::setup::{Server, StreamSetup};
use crate::report::Report;

const ACCOUNTS: usize = 8;
/// Stalled clients of each account; one more of each reads.
const EACH: usize = 125;
/// Events in a commit.
const TOGETHER: u32 = 50;
/// Events of each account that make the server as large as it gets,
const WARM_EVENTS: u32 = 2_000;
/// and those that the stalled ones do not read: more than 2 MiB.
const EVENTS: u32 = 8_000;
const SECONDS: u32 = 3;
const SETTLE: Duration = Duration::from_secs(1);
const GROWTH_MAX: f64 = 64.0 * 1024.0;

/// So many events of each account, as fast as the readers take them; answers how much memory the server then holds.
async fn fill(server: &Arc<Server>, readers: &Arc<Crowd>, each: u32) -> f64 {
    let most = each * u32::try_from(ACCOUNTS).unwrap();
    let load = Load { accounts: ACCOUNTS, together: TOGETHER, per_second: None, most };
    Making::begin(server, load, Some(readers)).end().await;
    SystemClock.sleep(SETTLE).await;
    server.process.resident_mb()
}

async fn measure_kind(report: &mut Report, setup: &StreamSetup, kind: Kind) {
    let server = setup.serve();
    let load = delay::load(1, SECONDS);
    let readers = Arc::new(Crowd::begin(&server, kind, (ACCOUNTS, 1), true).await);
    let before = fill(&server, &readers, WARM_EVENTS).await;
    let alone = delays(&setup.database, &server, load, &readers).await;
    let stalled = crowd::begin(&server, kind, (ACCOUNTS, EACH), true).await;
    SystemClock.sleep(SETTLE).await;
    let idle = server.process.resident_mb();
    let full = fill(&server, &readers, EVENTS).await;
    let beside = delays(&setup.database, &server, load, &readers).await;
    for connection in &stalled {
        assert!(connection.is_open().await, "the server hung up");
    }
    let number = stalled.len();
    let each = |more: f64| more * 1e6 / f64::from(u32::try_from(number).unwrap());
    let (kind, due) = (kind.name(), EVENTS as usize * number);
    let what = format!("growth of each of {number} stalled clients, {kind}, against the limit");
    report.ratio(&what, each(full - idle), GROWTH_MAX, "bytes", "bar: at most 1");
    let words =
        format!("{:.0} bytes each before; {due} deliveries were due to them later", each(idle - before));
    report.words(&format!("the same, {kind}: while they were idle"), &words);
    for (hundredth, bar) in [(50, "no bar"), (99, "bar: below 2")] {
        let what = format!(
            "p{hundredth} from commit to {ACCOUNTS} clients that read, beside {number} stalled ones, against alone, {kind}"
        );
        let us = |delays: &Delays| delays.times.percentile_us(hundredth);
        report.ratio(&what, us(&beside), us(&alone), "µs", bar);
    }
}

/// Each kind on a server that was just started, on the same database.
pub(crate) async fn measure(report: &mut Report) {
    let setup = StreamSetup::create(Database::Sqlite, ACCOUNTS).await;
    for kind in [Kind::Sse, Kind::Socket, Kind::Mqtt1] {
        measure_kind(report, &setup, kind).await;
    }
}
