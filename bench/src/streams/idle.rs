//! What a connection costs on which nothing happens.

use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock as _;
use portico_testkit::Database;

use super::crowd;
use super::kind::Kind;
use super::setup::StreamSetup;
use crate::http::process::files_max;
use crate::report::Report;

const ACCOUNTS: usize = 80;
/// Connections of each account.
const EACH: usize = 125;
/// Files that are open beside the connections.
const FILES: usize = 200;
/// Until what connecting took is given back.
const SETTLE: Duration = Duration::from_secs(2);
/// What each kind may take.
const AIMS: [(Kind, f64); 3] =
    [(Kind::Sse, 24.0 * 1024.0), (Kind::Socket, 8.0 * 1024.0), (Kind::Mqtt1, 8.0 * 1024.0)];

/// Each kind on a server that was just started, on the same database. Whatever the server needs once, for its first
/// connections, counts among all of them; what each of the later ones takes is told beside it.
pub(crate) async fn measure(report: &mut Report) {
    let setup = StreamSetup::create(Database::Sqlite, ACCOUNTS).await;
    let each = EACH.min(files_max().saturating_sub(FILES) / ACCOUNTS);
    let first = each / 5;
    for (kind, aim) in AIMS {
        let server = setup.serve();
        let (mut connections, mut resident) = (Vec::new(), vec![server.process.resident_mb()]);
        for more in [first, each - first] {
            connections.extend(crowd::begin(&server, kind, (ACCOUNTS, more), false).await);
            SystemClock.sleep(SETTLE).await;
            resident.push(server.process.resident_mb());
        }
        for connection in &connections {
            assert!(connection.is_open().await, "the server hung up");
        }
        let bytes = |from: usize, each: usize| {
            (resident[2] - resident[from]) * 1e6 / f64::from(u32::try_from(each * ACCOUNTS).unwrap())
        };
        let (kind, number) = (kind.name(), connections.len());
        let what = format!("memory of an idle connection, {kind} ({number} of them), against the limit");
        report.ratio(&what, bytes(0, each), aim, "bytes", "bar: at most 1");
        let what =
            format!("memory of each further idle connection, {kind}, after the first {}", first * ACCOUNTS);
        report.figure(&what, bytes(1, each - first), "bytes");
    }
}
