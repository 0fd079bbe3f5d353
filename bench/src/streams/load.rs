//! Whoever makes events: as fast as they are taken, or so many a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::Clock as _;
use portico_testkit::TestDatabase;
use tokio::task::JoinHandle;

use super::crowd::{Crowd, Receipt};
use super::setup::Server;
use crate::deliveries::load::Times;
use crate::deliveries::setup::commits;
use crate::http::load::Connection;

/// Deliveries that are under way at once: few enough that the server has all of them in memory.
pub(crate) const BACKLOG: u64 = 100_000;
const CALLERS: usize = 32;
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How events are made.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Accounts, in turn.
    pub(crate) accounts: usize,
    /// Events in a commit.
    pub(crate) together: u32,
    /// Commits a second; without a number, as fast as events are taken.
    pub(crate) per_second: Option<f64>,
    /// After so many events it ends by itself.
    pub(crate) most: u32,
}

struct LoadState {
    load: Load,
    watch: Stopwatch,
    made: AtomicU32,
    stop: AtomicBool,
    /// Who takes the events, and what it had taken before.
    crowd: Option<(Arc<Crowd>, u64)>,
}

/// Events in the making.
pub(crate) struct Making {
    shared: Arc<LoadState>,
    tasks: Vec<JoinHandle<()>>,
}

impl LoadState {
    /// Waits until the event of that number is due.
    async fn due(&self, number: u32) {
        if let Some(per_second) = self.load.per_second {
            let at = Duration::from_secs_f64(f64::from(number / self.load.together) / per_second);
            return SystemClock.sleep(at.saturating_sub(self.watch.elapsed())).await;
        }
        let Some((crowd, before)) = &self.crowd else { return };
        while u64::from(number) * u64::from(crowd.fan) > crowd.events() - before + BACKLOG {
            SystemClock.sleep(LOOK_EVERY).await;
        }
    }

    async fn call(self: Arc<Self>, server: Arc<Server>) {
        let mut connection = Connection::open(server.process.address).await;
        let Load { accounts, together, most, .. } = self.load;
        while !self.stop.load(Ordering::Relaxed) {
            let taken = self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| {
                (made < most).then_some(made + together)
            });
            let Ok(first) = taken else { return };
            self.due(first).await;
            let maker = server.maker((first / together) as usize % accounts);
            connection.ask(&maker.events(first, together)).await;
        }
    }
}

impl Making {
    /// Begins; the events are numbered from 0.
    pub(crate) fn begin(server: &Arc<Server>, load: Load, crowd: Option<&Arc<Crowd>>) -> Self {
        let shared = Arc::new(LoadState {
            load,
            watch: Stopwatch::start(),
            made: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            crowd: crowd.map(|crowd| (crowd.clone(), crowd.events())),
        });
        let call = |_| tokio::spawn(shared.clone().call(server.clone()));
        let tasks = (0..CALLERS).map(call).collect();
        Self { shared, tasks }
    }

    /// How many were made so far, or are just being made.
    pub(crate) fn made(&self) -> u32 {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// Waits until all were made, and until everyone who listens has them; answers how many there were.
    pub(crate) async fn end(self) -> u32 {
        for task in self.tasks {
            task.await.unwrap();
        }
        let made = self.shared.made.load(Ordering::Relaxed);
        if let Some((crowd, before)) = &self.shared.crowd {
            crowd.wait_for(before + u64::from(made) * u64::from(crowd.fan)).await;
        }
        made
    }

    /// Makes no more of them.
    pub(crate) async fn stop(self) -> u32 {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.end().await
    }
}

/// How long events took.
pub(crate) struct Delays {
    pub(crate) times: Times,
    /// Events that were made in a second.
    pub(crate) made: f64,
}

/// Makes the events of the load, and tells how long each of them took from its commit to whoever listens; the first
/// tenth of them is not counted.
pub(crate) async fn delays(
    database: &TestDatabase,
    server: &Arc<Server>,
    load: Load,
    crowd: &Arc<Crowd>,
) -> Delays {
    crowd.receipts();
    let watch = Stopwatch::start();
    let made = Making::begin(server, load, Some(crowd)).end().await;
    let seconds = watch.elapsed().as_secs_f64();
    let commits = commits(database, made as usize);
    let since_commit = |receipt: &Receipt| {
        let first = receipt.number - receipt.number % load.together;
        receipt.at.since(commits[first as usize])
    };
    let receipts = crowd.receipts();
    assert_eq!(receipts.len(), made as usize * crowd.fan as usize, "each comes once");
    let counted = receipts.iter().filter(|receipt| receipt.number >= made / 10);
    let times = Times::new(counted.map(since_commit).collect());
    Delays { times, made: f64::from(made) / seconds }
}
