//! Webhook deliveries: how many a second, how soon, and what neither a hanging endpoint nor a long history may change.
//!
//! The server is a process of its own; whoever makes events, over HTTP, and whoever receives them are this one. All of
//! them share the machine.

mod history;
pub(crate) mod load;
mod receiver;
pub(crate) mod setup;

use std::sync::Arc;
use std::time::Duration;

use portico_testkit::Database;

use crate::http;
use crate::http::load::{Requests, Until};
use crate::report::Report;
use load::Rate;
use receiver::Receiver;
use setup::DeliverySetup;

const RATE_MIN: f64 = 2_000.0;
const P95_MAX_US: f64 = 50_000.0;
/// Events in one commit, where it is to be the sender that is measured and not what makes events.
const TOGETHER: u32 = 50;
const ROUNDS: usize = 3;
const TESTS_TIME: Duration = Duration::from_secs(10);

fn report_rate(report: &mut Report, what: &str, rate: &Rate, bar: &str) {
    report.ratio(&format!("{what}, against the least"), rate.deliveries, RATE_MIN, "/s", bar);
    report.words(&format!("{what}: processor time for each"), &rate.cpu.to_string());
    report.figure(&format!("{what}: events made meanwhile"), rate.events, "/s");
}

/// On a database that is new, and of which PostgreSQL has no statistics yet.
async fn measure_rates(report: &mut Report, database: Database, setup: &DeliverySetup, receiver: &Receiver) {
    let bar = "bar: at least 1";
    let one = load::rate(setup, receiver, &[&setup.one], TOGETHER).await;
    let what = format!("{database:?}: deliveries to 1 endpoint, {TOGETHER} events a commit");
    report_rate(report, &what, &one, bar);
    let single = load::rate(setup, receiver, &[&setup.one], 1).await;
    let what = format!("{database:?}: deliveries to 1 endpoint, one event a commit");
    report_rate(report, &what, &single, "no bar");
    let makers: Vec<_> = setup.many.iter().collect();
    let many = load::rate(setup, receiver, &makers, 1).await;
    let what = format!("{database:?}: deliveries to 100 endpoints of two accounts, one event a commit");
    report_rate(report, &what, &many, bar);
}

/// Events that callers make one by one, and whose first attempt each of them waits for.
async fn measure_tests(report: &mut Report, database: Database, setup: &DeliverySetup) {
    let test: Requests = Arc::new(vec![setup.one.test()]);
    let before = setup.server.cpu();
    let round = http::load::run(setup.server.address, &test, Until::Time(TESTS_TIME)).await;
    let cpu = setup.server.cpu().saturating_sub(before).as_secs_f64() * 1e6 / f64::from(round.answers);
    let what = format!("{database:?}: test events by API calls to one endpoint, 64 callers");
    report.figure(&what, round.rate, "/s");
    report.figure(&format!("{what}: processor time for each, the server's"), cpu, "µs");
}

/// Both databases in turns, each as it would be a while later; the round in the middle counts.
async fn measure_history(
    report: &mut Report,
    database: Database,
    setup: &DeliverySetup,
    receiver: &Receiver,
) {
    let old = DeliverySetup::create(database, receiver).await;
    history::fill(&old).await;
    history::tidy(&old).await;
    history::tidy(setup).await;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let new = load::rate(setup, receiver, &[&setup.one], TOGETHER).await;
        rounds.push((load::rate(&old, receiver, &[&old.one], TOGETHER).await, new));
    }
    let ratio = |(old, new): &(Rate, Rate)| old.deliveries / new.deliveries;
    rounds.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (old, new) = &rounds[ROUNDS / 2];
    let what =
        format!("{database:?}: deliveries with {} old ones on record, against few", history::DELIVERIES);
    report.ratio(&what, old.deliveries, new.deliveries, "/s", "bar: 0.9");
    report.words(&format!("{what}: processor time for each"), &old.cpu.to_string());
}

async fn measure_delays(report: &mut Report, database: Database, setup: &DeliverySetup, receiver: &Receiver) {
    let per_second = 200;
    let delays = load::pace(setup, receiver, &setup.one, (per_second, 15), 1).await;
    let what = |which: &str| format!("{database:?}: {which}, {per_second} events a second");
    for (hundredth, bar) in [(50, "no bar"), (95, "bar: at most 1")] {
        let what = what(&format!("p{hundredth} from commit to receipt, against the limit"));
        report.ratio(&what, delays.committed.percentile_us(hundredth), P95_MAX_US, "µs", bar);
    }
    let what = what("p95 from the call that made the event to receipt");
    report.figure(&what, delays.called.percentile_us(95), "µs");
}

async fn measure_isolation(
    report: &mut Report,
    database: Database,
    setup: &DeliverySetup,
    receiver: &Receiver,
) {
    let per_second = 50;
    let healthy = load::pace(setup, receiver, &setup.ten, (per_second, 12), 9).await;
    receiver.hang(true);
    // Longer than a call that hangs, so that it is seen to fail.
    let beside = load::pace(setup, receiver, &setup.ten, (per_second, 22), 9).await;
    receiver.hang(false);
    for (hundredth, bar) in [(50, "no bar"), (95, "bar: below 2")] {
        let what = format!(
            "{database:?}: p{hundredth} from commit to 9 of 10 endpoints while the other hangs, against while it \
             answers, {per_second} events a second"
        );
        let (beside, healthy) = (&beside.committed, &healthy.committed);
        report.ratio(&what, beside.percentile_us(hundredth), healthy.percentile_us(hundredth), "µs", bar);
    }
}

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let receiver = Receiver::start().await;
    let setup = DeliverySetup::create(database, &receiver).await;
    measure_rates(report, database, &setup, &receiver).await;
    measure_tests(report, database, &setup).await;
    measure_history(report, database, &setup, &receiver).await;
    measure_delays(report, database, &setup, &receiver).await;
    measure_isolation(report, database, &setup, &receiver).await;
}
