//! Portico over real sockets, in a process of its own: what a warm call costs beside a bare server, and what it costs
//! to start and to hold.
//!
//! Both servers run at once and are asked in turns, on the same processors and by the same callers.

pub(crate) mod bare;
pub(crate) mod load;
pub(crate) mod peers;
pub(crate) mod process;
pub(crate) mod services;
mod stock;
pub(crate) mod target;
pub(crate) mod tools;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use load::{Requests, Round, Until};
use portico_engine::clock::Stopwatch;
use process::Process;

use crate::report::Report;

/// The route that is measured beside a bare server.
const ROUTE: &str = "/v1/me";
pub(crate) const ROUNDS: usize = 5;
pub(crate) const ROUND: Duration = Duration::from_secs(3);
const RESIDENT_MB_MAX: f64 = 60.0;
const START_MS_MAX: f64 = 1_000.0;

/// A round, and the processor time that the server took for each answer.
pub(crate) struct Measurement {
    pub(crate) round: Round,
    pub(crate) cpu_ns: f64,
}

/// What fresh servers said, each in the middle of all starts.
struct Fresh {
    start_ms: f64,
    idle_mb: f64,
    cold_rate: f64,
    used_mb: f64,
}

/// The program that stands beside the bench, with the configuration of that folder.
fn portico_command(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap().with_file_name("portico"));
    command.arg("--config").arg(stock::config_file(folder));
    command
}

/// `portico serve` as a deployment runs it: what it logs goes to a file.
fn portico(folder: &Path) -> Process {
    let mut command = portico_command(folder);
    command.arg("serve");
    Process::start(command, &folder.join("portico.log"))
}

/// The bare server, which repeats `answer`.
fn bare_server(folder: &Path, answer: &str) -> Process {
    let path = folder.join("answer");
    std::fs::write(&path, answer).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(bare::NAME).arg(path);
    Process::start(command, &folder.join("bare.log"))
}

pub(crate) fn request(token: &str, route: &str) -> Vec<u8> {
    format!("GET {route} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// The answer without the time of day: in a comparison that is all that may differ.
fn timeless(answer: &str) -> Vec<&str> {
    let mut lines: Vec<_> = answer.lines().filter(|line| !line.starts_with("date:")).collect();
    lines.sort_unstable();
    lines
}

pub(crate) fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

pub(crate) async fn measured(server: &Process, requests: &Requests, callers: usize) -> Measurement {
    let before = server.cpu();
    let round = load::run_with(callers, server.address, requests, Until::Time(ROUND)).await;
    let cpu_ns = server.cpu().saturating_sub(before).as_secs_f64() * 1e9 / f64::from(round.answers);
    Measurement { round, cpu_ns }
}

/// Asks the one and the other in turns; returns the round whose ratio is in the middle.
async fn in_turns(one: (&Process, &Requests), other: (&Process, &Requests)) -> (Measurement, Measurement) {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let one = measured(one.0, one.1, load::CONNECTIONS).await;
        rounds.push((one, measured(other.0, other.1, load::CONNECTIONS).await));
    }
    let ratio = |(one, other): &(Measurement, Measurement)| one.round.rate / other.round.rate;
    rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    rounds.swap_remove(ROUNDS / 2)
}

/// Asks both in turns and reports the round in the middle; answers Portico's rate.
async fn compare(report: &mut Report, which: &str, servers: [&Process; 2], requests: &Requests) -> f64 {
    let (ours, bare) = in_turns((servers[0], requests), (servers[1], requests)).await;
    let what = |figure: &str| format!("GET /v1/me, {which}: {figure}");
    let rates = what("logged at info into a file, against bare axum");
    report.ratio(&rates, ours.round.rate, bare.round.rate, "/s", "bar: 0.75");
    report.ratio(&what("processor time for each, the server's"), ours.cpu_ns, bare.cpu_ns, "ns", "no bar");
    for hundredth in [50, 99] {
        let (ours, bare) = (ours.round.percentile_us(hundredth), bare.round.percentile_us(hundredth));
        report.ratio(&what(&format!("p{hundredth}")), ours, bare, "µs", "no bar");
    }
    ours.round.rate
}

/// Starts a server again and again, each time on the same database, and uses every token once.
async fn fresh(folder: &Path, requests: &Requests) -> Fresh {
    let (mut starts, mut idle, mut rates, mut used) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let server = portico(folder);
        starts.push(server.started_in.as_secs_f64() * 1e3);
        idle.push(server.resident_mb());
        rates.push(load::run(server.address, requests, Until::EachOnce).await.rate);
        used.push(server.resident_mb());
    }
    Fresh { start_ms: middle(starts), idle_mb: middle(idle), cold_rate: middle(rates), used_mb: middle(used) }
}

fn report_fresh(report: &mut Report, fresh: &Fresh) {
    let (accounts, tokens) = (stock::ACCOUNTS, stock::TOKENS);
    let what = format!("from the start to the ready line, {accounts} accounts, against the limit");
    report.ratio(&what, fresh.start_ms, START_MS_MAX, "ms", "bar: at most 1");
    let what = "resident memory idle, against the limit";
    report.ratio(what, fresh.idle_mb, RESIDENT_MB_MAX, "MB", "bar: at most 1");
    let what = format!("resident memory after {tokens} API tokens were used, against idle");
    report.ratio(&what, fresh.used_mb, fresh.idle_mb, "MB", "no bar");
}

pub(crate) async fn measure(report: &mut Report) {
    let folder = tempfile::tempdir().unwrap();
    let watch = Stopwatch::start();
    let tokens = stock::fill(folder.path(), stock::ACCOUNTS, stock::TOKENS).await;
    let rate = f64::from(stock::ACCOUNTS + stock::TOKENS) / watch.elapsed().as_secs_f64();
    report.figure("accounts and API tokens made by the operator, 64 at once", rate, "/s");
    let all: Requests = Arc::new(tokens.iter().map(|token| request(token, ROUTE)).collect());
    let one: Requests = Arc::new(vec![request(&tokens[0], ROUTE)]);
    let fresh = fresh(folder.path(), &all).await;
    report_fresh(report, &fresh);

    let ours = portico(folder.path());
    let answer = load::fetch(ours.address, &one[0]).await;
    let bare = bare_server(folder.path(), &answer);
    assert_eq!(timeless(&load::fetch(bare.address, &one[0]).await), timeless(&answer));
    compare(report, "one API token", [&ours, &bare], &one).await;
    load::run(ours.address, &all, Until::EachOnce).await;
    let which = format!("{} API tokens", stock::TOKENS);
    let warm_rate = compare(report, &which, [&ours, &bare], &all).await;
    let what = format!("GET /v1/me, {which}: each for the first time, against warm ones");
    report.ratio(&what, fresh.cold_rate, warm_rate, "/s", "no bar");
}
