//! Actions of connections: what one costs beside the call that it makes at the provider, made by a plain client, and how soon
//! a grant that was revoked opens nothing.
//!
//! The provider is a process of its own. One that answers at once shows all that the server does for a call, which is put on
//! record before it is answered; one that takes as long as near providers do shows what of it is felt.

mod bare;
mod revoking;
mod setup;

use std::sync::Arc;

use bare::BareCall;
use portico_testkit::Database;
use setup::{Connected, Setup};

use crate::http::load::{CONNECTIONS, Requests};
use crate::http::{Measurement, ROUNDS, measured, middle};
use crate::report::Report;

/// What an action may cost, of the call alone.
const BAR: &str = "bar: at most 1.5";

/// Asks through the server and alone, in turns.
async fn in_turns(setup: &Setup, connected: &Connected, callers: usize) -> Vec<(Measurement, Measurement)> {
    let through: Requests = Arc::new(connected.requests.clone());
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let ours = measured(&setup.server, &through, callers).await;
        rounds.push((ours, bare::measured(callers, setup.provider.address, &connected.alone).await));
    }
    rounds
}

/// The calls of one provider.
async fn calls(report: &mut Report, setup: &Setup, which: &str, connected: &Connected) {
    for (callers, bar) in [(1, BAR), (CONNECTIONS, "no bar")] {
        let rounds = in_turns(setup, connected, callers).await;
        let of = |of: &dyn Fn(&Measurement) -> f64| {
            let each = |which: fn(&(Measurement, Measurement)) -> &Measurement| {
                middle(rounds.iter().map(|round| of(which(round))).collect())
            };
            (each(|round| &round.0), each(|round| &round.1))
        };
        let callers = if callers == 1 { "one caller".to_owned() } else { format!("{callers} callers") };
        let what = |figure: &str| {
            let name = setup.name;
            format!("{name}: action at a provider {which}, against the call alone, {callers}: {figure}")
        };
        for (hundredth, bar) in [(50, bar), (99, "no bar")] {
            let (ours, alone) = of(&|measured| measured.round.percentile_us(hundredth));
            report.ratio(&what(&format!("p{hundredth}")), ours, alone, "µs", bar);
        }
        let (ours, alone) = of(&|measured| measured.round.rate);
        report.ratio(&what("calls"), ours, alone, "/s", "no bar");
        let (ours, alone) = of(&|measured| measured.cpu_ns);
        report.ratio(&what("processor time for each, the caller's part alone"), ours, alone, "ns", "no bar");
    }
}

pub(crate) async fn measure(report: &mut Report, database: Database) {
    let setup = Setup::new(database).await;
    let near = setup.connect(&BareCall::near()).await;
    calls(report, &setup, "that answers at once", &near).await;
    let far = setup.connect(&BareCall::far()).await;
    calls(report, &setup, "20 ms away", &far).await;
    revoking::measure(report, &setup, &near).await;
}
