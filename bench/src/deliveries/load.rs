//! Whoever makes events: as fast as they are delivered, or so many a second.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::{Clock as _, Timestamp};

use super::receiver::Receiver;
use super::setup::{DeliverySetup, Maker, commits};
use crate::http::load::Connection;
use crate::http::process::{Cluster, all_cpu, own_cpu};

const CALLERS: usize = 8;
/// Deliveries that wait or are under way at once.
const BACKLOG: usize = 2_000;
const WARM_UP: Duration = Duration::from_secs(1);
const ROUND: Duration = Duration::from_secs(4);

/// Who took how much processor time for each delivery.
pub(crate) struct Cpu {
    server_us: f64,
    bench_us: f64,
    database_us: f64,
    /// The part of the processors that was busy,
    busy: f64,
    /// and the part that was busy with something else.
    elsewhere: f64,
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server_us, bench_us, database_us, busy, elsewhere } = self;
        write!(
            f,
            "server {server_us:.0} µs, PostgreSQL {database_us:.0} µs, receiver and callers {bench_us:.0} µs; processors \
             {:.0}% busy, {:.0}% with something else",
            busy * 100.0,
            elsewhere * 100.0
        )
    }
}

/// What a round said.
pub(crate) struct Rate {
    /// Deliveries a second.
    pub(crate) deliveries: f64,
    /// Events a second that were made meanwhile.
    pub(crate) events: f64,
    pub(crate) cpu: Cpu,
}

struct Sample {
    watch: Stopwatch,
    received: u32,
    made: u32,
    server: Duration,
    bench: Duration,
    database: Duration,
    all: Duration,
}

impl Sample {
    fn take(setup: &DeliverySetup, receiver: &Receiver, made: &AtomicU32) -> Self {
        Self {
            watch: Stopwatch::start(),
            received: receiver.count(),
            made: made.load(Ordering::Relaxed),
            server: setup.server.cpu(),
            bench: own_cpu(),
            database: setup.cluster.as_ref().map(Cluster::cpu).unwrap_or_default(),
            all: all_cpu(),
        }
    }

    /// What happened since.
    fn rate(&self, setup: &DeliverySetup, receiver: &Receiver, made: &AtomicU32) -> Rate {
        let seconds = self.watch.elapsed().as_secs_f64();
        let now = Self::take(setup, receiver, made);
        let deliveries = f64::from(now.received - self.received);
        let processors = std::thread::available_parallelism().unwrap().get();
        let processors = f64::from(u32::try_from(processors).unwrap());
        let took = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64();
        let server = took(now.server, self.server);
        let bench = took(now.bench, self.bench);
        let database = took(now.database, self.database);
        let all = took(now.all, self.all);
        let each_us = |time: f64| time * 1e6 / deliveries;
        let part = |time: f64| time / (seconds * processors);
        Rate {
            deliveries: deliveries / seconds,
            events: f64::from(now.made - self.made) / seconds,
            cpu: Cpu {
                server_us: each_us(server),
                bench_us: each_us(bench),
                database_us: each_us(database),
                busy: part(all),
                elsewhere: part((all - server - bench - database).max(0.0)),
            },
        }
    }
}

/// Lets the makers make events, `together` in each commit, as fast as they are delivered.
pub(crate) async fn rate(
    setup: &DeliverySetup,
    receiver: &Receiver,
    makers: &[&Maker],
    together: u32,
) -> Rate {
    receiver.begin(BACKLOG);
    let (made, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let fan = u32::try_from(makers[0].endpoints.len()).unwrap();
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let (maker, receiver) = (makers[number % makers.len()].clone(), receiver.clone());
            let (made, stop, address) = (made.clone(), stop.clone(), setup.server.address);
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                while !stop.load(Ordering::Relaxed) {
                    receiver.room_for(together * fan).await;
                    let first = made.fetch_add(together, Ordering::Relaxed);
                    connection.ask(&maker.events(first, together)).await;
                }
            })
        })
        .collect();
    SystemClock.sleep(WARM_UP).await;
    let before = Sample::take(setup, receiver, &made);
    SystemClock.sleep(ROUND).await;
    let rate = before.rate(setup, receiver, &made);
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    // Every one of them comes, once.
    receiver.receipts((made.load(Ordering::Relaxed) * fan) as usize).await;
    rate
}

/// How long each took, in order.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// These, in any order.
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// So many hundredths took at most this long.
    pub(crate) fn percentile_us(&self, hundredth: usize) -> f64 {
        self.0[self.0.len() * hundredth / 100].as_secs_f64() * 1e6
    }
}

/// How long deliveries took.
pub(crate) struct Delays {
    /// Since the call that made the event was begun,
    pub(crate) called: Times,
    /// and since the event was committed.
    pub(crate) committed: Times,
}

/// Makes so many events a second, for so many seconds, each on its own; `fan` endpoints receive each.
pub(crate) async fn pace(
    setup: &DeliverySetup,
    receiver: &Receiver,
    maker: &Maker,
    (per_second, seconds): (u32, u32),
    fan: usize,
) -> Delays {
    receiver.begin(0);
    let (count, watch) = (per_second * seconds, Stopwatch::start());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (maker, address) = (maker.clone(), setup.server.address);
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut calls = Vec::new();
                for number in (0..count).skip(caller).step_by(CALLERS) {
                    let at = Duration::from_secs(1) * number / per_second;
                    SystemClock.sleep(at.saturating_sub(watch.elapsed())).await;
                    let request = maker.events(number, 1);
                    calls.push((number as usize, SystemClock.now()));
                    connection.ask(&request).await;
                }
                calls
            })
        })
        .collect();
    let mut called = vec![SystemClock.now(); count as usize];
    for caller in callers {
        for (number, at) in caller.await.unwrap() {
            called[number] = at;
        }
    }
    let receipts = receiver.receipts(count as usize * fan).await;
    let since = |from: &[Timestamp]| {
        Times::new(receipts.iter().map(|receipt| receipt.at.since(from[receipt.number])).collect())
    };
    Delays { called: since(&called), committed: since(&commits(&setup.database, count as usize)) }
}
