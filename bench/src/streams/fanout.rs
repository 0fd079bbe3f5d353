//! What an event costs that goes to many, beside a broker that does nothing else.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::clock::SystemClock;
use portico_kernel::Clock as _;
use portico_testkit::Database;

use super::crowd::Crowd;
use super::kind::Kind;
use super::load::{Load, Making};
use super::mosquitto::{Mosquitto, Publisher, Publishing};
use super::setup::{Server, StreamSetup};
use super::span::{Span, Spent};
use crate::report::Report;

const ACCOUNTS: usize = 8;
/// Clients of each account.
const EACH: usize = 125;
const WARM_UP: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(2);
/// Until a server has forgotten who listened.
const SETTLE: Duration = Duration::from_secs(2);
/// As many events in a commit as make the server busy with sending them, as fast as they are taken;
const BURSTS: Load = Load { accounts: ACCOUNTS, together: 50, per_second: None, most: u32::MAX / 2 };
/// and one at a time, so that nothing can be sent together.
const PACED: Load =
    Load { accounts: ACCOUNTS, together: 1, per_second: Some(PACED_PER_SECOND), most: u32::MAX / 2 };
const PACED_PER_SECOND: f64 = 400.0;
const KINDS: [Kind; 4] = [Kind::Sse, Kind::Socket, Kind::Mqtt0, Kind::Mqtt1];

/// What a round said.
struct Round {
    /// Deliveries, and events that were made for them.
    deliveries: f64,
    events: f64,
    /// Bytes on the wire for each delivery.
    bytes: f64,
    spent: Spent,
}

/// Both loads, with clients of one kind.
struct Rounds {
    kind: Kind,
    bursts: Round,
    paced: Round,
}

#[expect(clippy::cast_precision_loss, reason = "far from where it would matter")]
fn float(number: u64) -> f64 {
    number as f64
}

impl Round {
    fn per_second(&self) -> f64 {
        self.deliveries / self.spent.seconds
    }

    /// Deliveries for each second of the server's processor time.
    fn per_cpu_second(&self) -> f64 {
        self.deliveries / self.spent.server
    }

    /// The same without what the server took for as many events that nobody heard.
    fn per_cpu_second_beyond(&self, alone: &Self) -> f64 {
        let making = alone.spent.server / alone.events * self.events;
        self.deliveries / (self.spent.server - making)
    }
}

/// Counts what comes in, and what is made, for the time of a round.
async fn count(span: Span<'_>, crowd: Option<&Arc<Crowd>>, made: impl Fn() -> u32) -> Round {
    let so_far = || {
        let (events, bytes) = crowd.map(|crowd| (crowd.events(), crowd.bytes())).unwrap_or_default();
        [float(events), float(bytes), f64::from(made())]
    };
    let before = so_far();
    SystemClock.sleep(ROUND).await;
    let (now, spent) = (so_far(), span.end());
    let deliveries = now[0] - before[0];
    Round { deliveries, events: now[2] - before[2], bytes: (now[1] - before[1]) / deliveries, spent }
}

async fn round(setup: &StreamSetup, server: &Arc<Server>, crowd: Option<&Arc<Crowd>>, load: Load) -> Round {
    let making = Making::begin(server, load, crowd);
    SystemClock.sleep(WARM_UP).await;
    let span = Span::begin(&server.process, setup.cluster.as_ref());
    let round = count(span, crowd, || making.made()).await;
    making.stop().await;
    round
}

async fn ours(setup: &StreamSetup, server: &Arc<Server>, kind: Kind) -> Rounds {
    let crowd = Arc::new(Crowd::begin(server, kind, (ACCOUNTS, EACH), false).await);
    let bursts = round(setup, server, Some(&crowd), BURSTS).await;
    let paced = round(setup, server, Some(&crowd), PACED).await;
    Rounds { kind, bursts, paced }
}

/// As many deliveries a second as in ours, or as many as it can, of as many bytes, with as many messages at once.
async fn theirs(broker: &Mosquitto, ours: &Rounds) -> Rounds {
    let kind = ours.kind;
    let crowd = Arc::new(Crowd::begin(&broker.server, kind, (1, ACCOUNTS * EACH), false).await);
    let round = async |ours: &Round, load: Load| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred")]
        let bytes = ours.bytes as usize;
        let per_second = ours.per_second() / f64::from(crowd.fan) / f64::from(load.together);
        let publishing = Publishing { kind, bytes, together: load.together, per_second };
        let publisher = Publisher::begin(broker, publishing, &crowd).await;
        SystemClock.sleep(WARM_UP).await;
        let round = count(Span::begin(&broker.server.process, None), Some(&crowd), || 0).await;
        publisher.stop().await;
        round
    };
    let (bursts, paced) = (round(&ours.bursts, BURSTS).await, round(&ours.paced, PACED).await);
    Rounds { kind, bursts, paced }
}

/// The same events with nobody who listens.
async fn alone(setup: &StreamSetup, server: &Arc<Server>, ours: &Round, load: Load) -> Round {
    let commits = ours.events / ours.spent.seconds / f64::from(load.together);
    round(setup, server, None, Load { per_second: Some(commits), ..load }).await
}

fn words(round: &Round) -> String {
    format!("{:.0} deliveries /s of {:.0} bytes; {}", round.per_second(), round.bytes, round.spent)
}

/// A round beside the broker's, whole and without what making the events took. The broker's messages are as long as ours
/// over MQTT, and come as fast as those.
fn report_round(
    report: &mut Report,
    what: &str,
    round: &Round,
    alone: &Round,
    broker: Option<(Kind, &Round)>,
) {
    let figures = [
        ("deliveries for each second of processor time", round.per_cpu_second()),
        ("the same without the making of events", round.per_cpu_second_beyond(alone)),
    ];
    for (which, figure) in figures {
        let what = format!("{what}: {which}");
        match broker {
            Some((kind, broker)) => {
                let what = format!("{what}, against mosquitto with QoS {}", kind.qos());
                report.ratio(&what, figure, broker.per_cpu_second(), "/CPU-s", "no bar");
            }
            None => report.figure(&what, figure, "/CPU-s"),
        }
    }
    let making_us = alone.spent.server * 1e6 / alone.events;
    let words = format!("{}; making an event takes the server {making_us:.0} µs", words(round));
    report.words(&format!("{what}: meanwhile"), &words);
}

fn report_broker(report: &mut Report, database: Database, ours: &Rounds, broker: &Rounds) {
    let both = [("bursts", &ours.bursts, &broker.bursts), ("paced", &ours.paced, &broker.paced)];
    for (load, ours, round) in both {
        let what = format!("{database:?}: mosquitto beside it, {}, {load}", broker.kind.name());
        let wanted = format!("{}; {:.0} deliveries /s were wanted", words(round), ours.per_second());
        report.words(&what, &wanted);
    }
}

/// A thousand clients, with one transport after the other.
pub(crate) async fn measure(report: &mut Report, database: Database) {
    let setup = StreamSetup::create(database, ACCOUNTS).await;
    let server = setup.serve();
    let mut all = Vec::new();
    for kind in KINDS {
        all.push(ours(&setup, &server, kind).await);
    }
    let mut brokers = Vec::new();
    if let Some(broker) = Mosquitto::start() {
        for ours in all.iter().filter(|ours| ours.kind.is_mqtt()) {
            brokers.push(theirs(&broker, ours).await);
        }
    }
    SystemClock.sleep(SETTLE).await;
    let quiet = alone(&setup, &server, &all[0].paced, PACED).await;
    for ours in &all {
        let busy = alone(&setup, &server, &ours.bursts, BURSTS).await;
        let like = if ours.kind == Kind::Mqtt1 { Kind::Mqtt1 } else { Kind::Mqtt0 };
        let broker = brokers.iter().find(|broker| broker.kind == like);
        let number = ACCOUNTS * EACH;
        let what = |load: &str| format!("{database:?}: {} to {number} clients, {load}", ours.kind.name());
        let bursts = what(&format!("bursts of {} events a commit", BURSTS.together));
        report_round(
            report,
            &bursts,
            &ours.bursts,
            &busy,
            broker.map(|broker| (broker.kind, &broker.bursts)),
        );
        let paced = what(&format!("{PACED_PER_SECOND} events a second, one a commit"));
        report_round(report, &paced, &ours.paced, &quiet, broker.map(|broker| (broker.kind, &broker.paced)));
        if let Some(broker) = broker.filter(|broker| broker.kind == ours.kind) {
            report_broker(report, database, ours, broker);
        }
    }
    if brokers.is_empty() {
        report.words("mosquitto", "is not installed, and is left out");
    }
}
