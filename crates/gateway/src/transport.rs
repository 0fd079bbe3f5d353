//! What is beneath a request: what a handler, its bytes and the server tell each other.
//!
//! Over HTTP/1 that is the connection. Over HTTP/2 each request has a stream, which has a transport of its own and knows that
//! of its connection; what is known of the client, and what is counted, belongs to the connection.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::Request;
use portico_kernel::Clock;
use tokio::sync::{Notify, Semaphore};

use crate::connection_limits::ConnectionPermit;

/// What a handler, the connection beneath it and the server tell each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transport(Arc<TransportState>);

impl Deref for Transport {
    type Target = TransportState;

    fn deref(&self) -> &TransportState {
        &self.0
    }
}

/// Yes or no, told across tasks.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn set(&self, value: bool) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it, and returns what it was.
    pub(crate) fn swap(&self, value: bool) -> bool {
        self.0.swap(value, Ordering::Relaxed)
    }
}

impl Transport {
    /// The transport of a connection that may stay as long as `permit` says.
    pub(crate) fn new(permit: Arc<ConnectionPermit>) -> Self {
        Self(Arc::new(TransportState { permit: Some(permit), ..TransportState::default() }))
    }

    /// The transport of a stream on this connection.
    pub(crate) fn stream(&self) -> Self {
        let (permit, connection) = (self.permit.clone(), Some(self.clone()));
        Self(Arc::new(TransportState { permit, connection, ..TransportState::default() }))
    }
}

/// How many requests of a connection are being worked on, and how many answers go on and on. Over HTTP/1 it is one.
#[derive(Debug, Default)]
struct Load {
    working: u32,
    streaming: u32,
}

/// Counts one more or one fewer; returns whether there are any.
fn count(number: &mut u32, more: bool) -> bool {
    *number = if more { *number + 1 } else { number.saturating_sub(1) };
    *number > 0
}

/// A connection ends after so many refusals in a row: whoever goes on does not listen.
const REFUSALS_MAX: u32 = 100;

/// How many of the last answers in a row were refusals that took nothing of anybody's minute.
#[derive(Debug, Default)]
pub(crate) struct Refusals(AtomicU32);

impl Refusals {
    /// Is that the status of a refusal of a named call that took nothing of anybody's minute?
    pub(crate) const fn is_one(status: u16) -> bool {
        matches!(status, 401 | 403 | 429)
    }

    /// Notes an answer: was it such a refusal? Over HTTP any refusal is taken for one: an honest client only has to connect
    /// again.
    pub(crate) fn note(&self, is_one: bool) {
        let in_a_row = if is_one { self.0.load(Ordering::Relaxed) + 1 } else { 0 };
        self.0.store(in_a_row, Ordering::Relaxed);
    }

    /// Are there so many that the connection is to end?
    pub(crate) fn are_too_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= REFUSALS_MAX
    }
}

#[derive(Debug, Default)]
pub(crate) struct TransportState {
    /// Counts the connection for as long as anything of it is left; `None` for a request that came over none.
    permit: Option<Arc<ConnectionPermit>>,
    /// The connection of a stream; `None` for a connection.
    connection: Option<Transport>,
    load: Mutex<Load>,
    /// Where a connection carries several requests at once: how many may be handled before its client has authenticated.
    /// It is closed once that has happened.
    pub(crate) strangers: OnceLock<Arc<Semaphore>>,
    /// Was part of a request's body not read?
    pub(crate) unread: Flag,
    /// Does an operation run for a request that was read whole?
    working: Flag,
    /// Does an answer wait for the peer to take it?
    pub(crate) blocked: Flag,
    /// Has a request been read, and not answered yet?
    pub(crate) serving: Flag,
    /// Does the answer go on and on? Then its peer may be slow, and the server waits for its end when it stops.
    pub(crate) streaming: Flag,
    /// Told when it is to be cut off, whatever its peer does.
    pub(crate) cut: Notify,
    /// How long the body of the next answer is, where it may be bytes of any kind.
    expected_body: AtomicU64,
    /// Bytes that the peer's system has taken, and told when a stream's moves.
    written: AtomicU64,
    drained: Notify,
    refusals: Refusals,
    /// Grows with every request and every piece of an answer that the peer takes.
    steps: AtomicU32,
}

impl TransportState {
    /// The connection that this is, or that this is a stream of.
    fn connection(&self) -> &Self {
        self.connection.as_ref().map_or(self, |connection| &connection.0)
    }

    /// Is it a proxy's, behind which anybody may be?
    pub(crate) fn is_of_proxy(&self) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.is_of_proxy())
    }

    /// The client has authenticated.
    pub(crate) fn set_authenticated(&self) {
        self.permit.as_ref().inspect(|permit| permit.set_authenticated());
        self.connection().strangers.get().inspect(|strangers| strangers.close());
    }

    /// The answers of the connection.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.connection().refusals
    }

    /// Does an operation run for a request that was read whole? A request that is still coming in is worth no more than
    /// silence: whoever sends it may take their time.
    pub(crate) fn set_working(&self, working: bool) {
        if self.working.swap(working) == working {
            return;
        }
        let connection = self.connection();
        let mut load = connection.load.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = count(&mut load.working, working);
        self.permit.as_ref().inspect(|permit| permit.set_busy(busy));
    }

    /// It carries something that lasts, for a client that has authenticated.
    pub(crate) fn set_lasting(&self) {
        self.permit.as_ref().inspect(|permit| permit.set_lasting());
    }

    /// Does the answer go on and on?
    pub(crate) fn set_streaming(&self, streaming: bool) {
        if self.streaming.swap(streaming) == streaming {
            return;
        }
        let connection = self.connection();
        let mut load = connection.load.lock().unwrap_or_else(PoisonError::into_inner);
        let streaming = count(&mut load.streaming, streaming);
        self.permit.as_ref().inspect(|permit| permit.set_streaming(streaming));
    }

    /// Does an answer on the connection go on and on?
    pub(crate) fn has_streams(&self) -> bool {
        self.connection().load.lock().unwrap_or_else(PoisonError::into_inner).streaming > 0
    }

    /// Resolves when the connection must end to make room for another.
    pub(crate) async fn ended_for_room(&self) {
        match &self.permit {
            Some(permit) => permit.cut().await,
            None => std::future::pending().await,
        }
    }

    /// A stopping server waits for this; not for a request that is still coming in.
    pub(crate) fn is_working(&self) -> bool {
        let load = self.connection().load.lock().unwrap_or_else(PoisonError::into_inner);
        load.working > 0 || load.streaming > 0
    }

    /// The next answer has a body of so many bytes, which may look like anything.
    pub(crate) fn expect_body(&self, bytes: u64) {
        self.expected_body.store(bytes, Ordering::Relaxed);
    }

    /// What was expected, once.
    pub(crate) fn take_expected_body(&self) -> u64 {
        self.expected_body.swap(0, Ordering::Relaxed)
    }

    /// The peer took so many bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.step();
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.streaming.is_set() {
            self.drained.notify_one();
        }
    }

    /// How many bytes it took so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Waits until it takes more.
    pub(crate) async fn drained(&self) {
        self.drained.notified().await;
    }

    /// The peer's system took so many bytes, whatever they were.
    pub(crate) fn sent(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Something moved: a request came, or the peer took a piece of its answer.
    pub(crate) fn step(&self) {
        self.connection().steps.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something moved.
    pub(crate) fn steps(&self) -> u32 {
        self.steps.load(Ordering::Relaxed)
    }
}

/// Whoever is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub IpAddr);

/// Who sent the request; the machine itself for one that came over no connection.
pub(crate) fn peer_address<B>(request: &Request<B>) -> IpAddr {
    request.extensions().get::<PeerAddress>().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0)
}

/// The clock of connections: real time, whatever the engine's clock says, because peers live in real time.
pub(crate) fn wait(span: Duration) -> portico_kernel::Sleep {
    portico_engine::clock::SystemClock.sleep(span)
}
