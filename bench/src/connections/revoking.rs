//! How soon a grant that was revoked opens nothing, on every door: the action, the tool, and the tool of assistants. Where the
//! database takes several servers, one revokes and the other is asked.

use std::time::Duration;

use portico_engine::clock::Stopwatch;
use serde_json::json;

use super::setup::{Connected, Setup, body, request};
use crate::http::load::Connection;
use crate::http::tools;
use crate::report::Report;

/// How many grants are made and revoked, the doors in turn.
const GRANTS: usize = 300;
/// By when a revoked one must open nothing.
const TIME_MAX: Duration = Duration::from_secs(2);
/// By when it surely should.
const PATIENCE: Duration = Duration::from_secs(20);

/// The calls that a grant opens.
fn doors(setup: &Setup, connected: &Connected) -> [Vec<u8>; 3] {
    let params = json!({ "params": connected.params });
    let tool = format!("/v1/connections/tools/{}", connected.tool);
    [
        request("POST", &setup.token, &connected.action, &params),
        request("POST", &setup.token, &tool, &params),
        tools::call(&setup.token, &connected.tool, &connected.params),
    ]
}

/// Does the answer hold what the provider said? Assistants get a refusal as an answer.
fn is_open(answer: &[u8]) -> bool {
    let said = String::from_utf8_lossy(answer);
    said.starts_with("HTTP/1.1 200 ") && said.contains("\"use_id\"") && !said.contains("\"isError\":true")
}

/// Makes a grant, uses it, and revokes it; how long it took until the door was closed.
async fn revoked(
    setup: &Setup,
    connected: &Connected,
    [here, there]: [&mut Connection; 2],
    door: &[u8],
) -> Duration {
    let granted = body(here.ask(&setup.granting(&connected.id)).await);
    let watch = Stopwatch::start();
    while !is_open(there.send(door).await) {
        assert!(watch.elapsed() < PATIENCE, "what was granted is not open");
    }
    let revoking = setup.revoking(&connected.id, granted["grant"]["id"].as_str().unwrap());
    let watch = Stopwatch::start();
    here.ask(&revoking).await;
    while is_open(there.send(door).await) {
        assert!(watch.elapsed() < PATIENCE, "what was revoked is open");
    }
    watch.elapsed()
}

pub(crate) async fn measure(report: &mut Report, setup: &Setup, connected: &Connected) {
    let asked = setup.other.as_ref().unwrap_or(&setup.server).address;
    let (mut here, mut there) = (Connection::open(setup.server.address).await, Connection::open(asked).await);
    here.ask(&setup.revoking(&connected.id, &connected.grant)).await;
    let doors = doors(setup, connected);
    let mut times = Vec::new();
    for number in 0..GRANTS {
        let door = &doors[number % doors.len()];
        times.push(revoked(setup, connected, [&mut here, &mut there], door).await);
    }
    times.sort_unstable();
    let p99 = times[times.len() * 99 / 100].as_secs_f64() * 1e6;
    let servers = if setup.other.is_some() { "two servers" } else { "one server" };
    let what = format!(
        "{}: p99 from revoking to the refusal, {GRANTS} grants on three doors, {servers}, against the limit",
        setup.name
    );
    report.ratio(&what, p99, TIME_MAX.as_secs_f64() * 1e6, "µs", "bar: at most 1");
}
