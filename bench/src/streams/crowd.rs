//! Many clients that listen, as cheaply as they can: they share the processors with the server that they measure.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portico_engine::clock::{Stopwatch, SystemClock};
use portico_kernel::{Clock as _, Timestamp};
use tokio::io::AsyncWriteExt as _;
use tokio::task::{JoinHandle, JoinSet};

use super::handshake::{Host, Listening};
use super::kind::{Kind, numbers};
use super::setup::Server;

/// What is read at once.
const READ_BYTES: usize = 128 << 10;
/// Clients that begin at the same time.
const BEGINNERS: usize = 64;
/// Longer than any phase takes to come to its end.
const END_TIME_MAX: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(1);

thread_local! {
    /// One for all clients of a thread: nothing stays in it but what makes up no whole frame.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// An event that came in.
#[derive(Clone, Copy)]
pub(crate) struct Receipt {
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
}

#[derive(Default)]
struct CrowdState {
    events: AtomicU64,
    bytes: AtomicU64,
    /// What came when; kept by those who ask.
    receipts: Option<Mutex<Vec<Receipt>>>,
}

/// Clients that read whatever comes. They hang up with whoever holds them.
pub(crate) struct Crowd {
    shared: Arc<CrowdState>,
    tasks: Vec<JoinHandle<()>>,
    /// How many of them hear each event.
    pub(crate) fan: u32,
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Begins so many clients of each of the first accounts.
pub(crate) async fn begin(
    server: &Arc<Server>,
    kind: Kind,
    (accounts, each): (usize, usize),
    stalled: bool,
) -> Vec<Listening> {
    let (mut begun, mut beginners) = (Vec::with_capacity(accounts * each), JoinSet::new());
    for number in 0..accounts * each {
        if beginners.len() == BEGINNERS {
            begun.push(beginners.join_next().await.unwrap().unwrap());
        }
        let server = server.clone();
        beginners.spawn(async move {
            let token = server.token(number % accounts, number / accounts);
            Listening::begin(Host { server: &server.process, token }, kind, stalled).await
        });
    }
    begun.extend(beginners.join_all().await);
    begun
}

/// Reads what is there; answers false when the server has hung up.
fn take(listening: &mut Listening, kind: Kind, shared: &CrowdState, acks: &mut Vec<u8>) -> bool {
    SCRATCH.with_borrow_mut(|scratch| {
        let kept = listening.read.len();
        scratch[..kept].copy_from_slice(&listening.read);
        let more = match listening.stream.try_read(&mut scratch[kept..]) {
            Ok(0) => return false,
            Ok(more) => more,
            // It only seemed to be there.
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        };
        let read = &scratch[..kept + more];
        let passed = kind.pass(read, acks);
        if let Some(receipts) = &shared.receipts {
            let at = SystemClock.now();
            let came = numbers(&read[..passed.bytes]).into_iter().map(|number| Receipt { number, at });
            receipts.lock().unwrap().extend(came);
        }
        shared.events.fetch_add(passed.events.into(), Ordering::Relaxed);
        shared.bytes.fetch_add(more as u64, Ordering::Relaxed);
        listening.read.clear();
        listening.read.extend_from_slice(&read[passed.bytes..]);
        true
    })
}

async fn listen(mut listening: Listening, kind: Kind, shared: Arc<CrowdState>) {
    let mut acks = Vec::new();
    loop {
        listening.stream.readable().await.unwrap();
        assert!(take(&mut listening, kind, &shared, &mut acks), "the server hung up on {}", kind.name());
        if !acks.is_empty() {
            listening.stream.write_all(&acks).await.unwrap();
            acks.clear();
        }
    }
}

impl Crowd {
    /// Lets these read; `timed` keeps when each event came.
    pub(crate) fn new(all: Vec<Listening>, kind: Kind, fan: usize, timed: bool) -> Self {
        let shared = Arc::new(CrowdState { receipts: timed.then(Mutex::default), ..CrowdState::default() });
        let listen = |listening| tokio::spawn(listen(listening, kind, shared.clone()));
        let tasks = all.into_iter().map(listen).collect();
        Self { shared, tasks, fan: u32::try_from(fan).unwrap() }
    }

    /// So many clients of each of the first accounts, who begin now.
    pub(crate) async fn begin(
        server: &Arc<Server>,
        kind: Kind,
        (accounts, each): (usize, usize),
        timed: bool,
    ) -> Self {
        Self::new(begin(server, kind, (accounts, each), false).await, kind, each, timed)
    }

    /// How many events came so far, to everyone together.
    pub(crate) fn events(&self) -> u64 {
        self.shared.events.load(Ordering::Relaxed)
    }

    /// How many bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Waits until so many came, and no more.
    pub(crate) async fn wait_for(&self, events: u64) {
        let watch = Stopwatch::start();
        while self.events() < events {
            let failed = self.tasks.iter().any(JoinHandle::is_finished) || watch.elapsed() > END_TIME_MAX;
            assert!(!failed, "{} of {events} came", self.events());
            SystemClock.sleep(LOOK_EVERY).await;
        }
        assert_eq!(self.events(), events, "each comes once");
    }

    /// What came since it was last asked.
    pub(crate) fn receipts(&self) -> Vec<Receipt> {
        std::mem::take(&mut *self.shared.receipts.as_ref().unwrap().lock().unwrap())
    }
}
