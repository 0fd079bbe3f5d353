//! What is beneath a request: what a handler, its bytes and the server tell each other.
//!
//! Over HTTP/1 that is the connection. Over HTTP/2 each request has a stream, which has a transport of its own and knows that
//! of its connection; what is known of the client, and what is counted, belongs to the connection.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use http::{Extensions, HeaderMap, Request};
use portico_kernel::Clock;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};

use crate::connection_limits::ConnectionPermit;
use crate::pace::PACE_WAIT_MAX;
use crate::party::{Buckets, Party};

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
    /// The transport of a connection from that address that may stay as long as `permit` says.
    pub(crate) fn new(permit: Arc<ConnectionPermit>, peer: IpAddr) -> Self {
        Self(Arc::new(TransportState {
            permit: Some(permit),
            peer: Some(PeerAddress(peer)),
            ..TransportState::default()
        }))
    }

    /// The transport of a stream on this connection.
    pub(crate) fn stream(&self) -> Self {
        Self(Arc::new(TransportState {
            permit: self.permit.clone(),
            peer: self.peer,
            connection: Some(self.clone()),
            ..TransportState::default()
        }))
    }
}

/// What the streams of a connection do: how many of them.
#[derive(Debug, Default)]
struct Load {
    working: u32,
    streaming: u32,
    answering: u32,
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

    /// The connection is to end with the next answer.
    pub(crate) fn end(&self) {
        self.0.store(REFUSALS_MAX, Ordering::Relaxed);
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
    /// Who is at the other end.
    peer: Option<PeerAddress>,
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
    /// Is the answer of a client that has authenticated on its way, or written?
    answering: Flag,
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
    /// Does an answer come in pieces that may look like anything? Until the next request.
    pub(crate) opaque: Flag,
    /// Bytes that the peer's system has taken, and told when a stream's moves.
    written: AtomicU64,
    drained: Notify,
    refusals: Refusals,
    /// Where a proxy says that the client of its last request is.
    behind_proxy: Mutex<Option<Buckets>>,
    /// Were any bytes read since the last request?
    pub(crate) has_read: Flag,
    /// Grows with every request and every piece of an answer that the peer takes.
    steps: AtomicU32,
}

impl TransportState {
    /// The connection that this is, or that this is a stream of.
    fn connection(&self) -> &Self {
        self.connection.as_ref().map_or(self, |connection| &connection.0)
    }

    /// Sets a flag of a request, and tells `permit` whether it is set for any of the connection's.
    fn set(
        &self,
        flag: &Flag,
        value: bool,
        number: fn(&mut Load) -> &mut u32,
        permit: fn(&ConnectionPermit, bool),
    ) {
        let before = flag.swap(value);
        let Some(held) = &self.permit else { return };
        match &self.connection {
            None => permit(held, value),
            Some(_) if before == value => {}
            Some(connection) => {
                // Told while it is locked, so that what is told last is what holds.
                let mut load = connection.load.lock().unwrap_or_else(PoisonError::into_inner);
                permit(held, count(number(&mut load), value));
            }
        }
    }

    /// Is it a proxy's, behind which anybody may be?
    pub(crate) fn is_of_proxy(&self) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.is_of_proxy())
    }

    /// The client has authenticated, and acts for that party; returns whether it may have one more connection.
    pub(crate) fn set_authenticated(&self, party: &Party) -> bool {
        self.connection().strangers.get().inspect(|strangers| strangers.close());
        self.permit.as_ref().is_none_or(|permit| permit.set_authenticated(party))
    }

    /// The answers of the connection.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.connection().refusals
    }

    /// An answer is on its way, or has been written.
    pub(crate) fn set_answering(&self, answering: bool) {
        self.set(&self.answering, answering, |load| &mut load.answering, ConnectionPermit::set_answering);
    }

    /// Does an operation run for a request that was read whole? A request that is still coming in is worth no more than
    /// silence: whoever sends it may take their time.
    pub(crate) fn set_working(&self, working: bool) {
        self.set(&self.working, working, |load| &mut load.working, ConnectionPermit::set_busy);
    }

    /// It carries something that lasts, for a client that has authenticated.
    pub(crate) fn set_lasting(&self) {
        self.permit.as_ref().inspect(|permit| permit.set_lasting());
    }

    /// Does the answer go on and on?
    pub(crate) fn set_streaming(&self, streaming: bool) {
        self.set(&self.streaming, streaming, |load| &mut load.streaming, ConnectionPermit::set_streaming);
    }

    /// The stream is over: it may have been given up half-way, and its connection goes on.
    pub(crate) fn end_stream(&self) {
        self.set_working(false);
        self.set_streaming(false);
        self.set_answering(false);
    }

    /// Does an answer on one of its streams go on and on?
    pub(crate) fn has_streams(&self) -> bool {
        self.load.lock().unwrap_or_else(PoisonError::into_inner).streaming > 0
    }

    /// Waits until a request may be answered of a client whom nobody knows; returns whether it may. Where others of its
    /// network are in the way, it goes at the pace of `known`, if that is somebody.
    pub(crate) async fn admit_stranger(&self, known: impl FnOnce() -> Option<Party>) -> bool {
        let Some((permit, origin)) = self.origin() else { return true };
        let paces = permit.paces();
        let span = match paces.take(&buckets(origin)) {
            Some(Duration::ZERO) => return true,
            span => known().map_or(span, |known| paces.take(&[known])),
        };
        if let Some(span) = span {
            wait(span).await;
        }
        span.is_some()
    }

    /// Lets a refusal wait that others of the same party precede; returns whether it did. `None` stands for somebody whom
    /// nobody knows.
    pub(crate) async fn wait_with_refusal(&self, party: Option<Party>) -> bool {
        let place = match party {
            Some(party) => self.permit.as_deref().map(|permit| (permit, vec![party])),
            None => self.origin().map(|(permit, origin)| (permit, buckets(origin))),
        };
        let Some((permit, parties)) = place else { return false };
        let span = permit.paces().take(&parties).unwrap_or(PACE_WAIT_MAX);
        if span.is_zero() {
            return false;
        }
        wait(span).await;
        true
    }

    /// A request has come with these headers, in which a proxy says for whom.
    pub(crate) fn begin(&self, headers: &HeaderMap) {
        // Its head was read.
        self.step();
        self.serving.set(true);
        self.opaque.set(false);
        if let Some(permit) = self.permit.as_ref().filter(|permit| permit.is_of_proxy()) {
            *self.behind_proxy.lock().unwrap_or_else(PoisonError::into_inner) = permit.client(headers);
        }
    }

    /// Where the client is, unless it may be anybody behind a proxy.
    fn origin(&self) -> Option<(&ConnectionPermit, Buckets)> {
        let permit = self.permit.as_ref()?;
        let origin = if permit.is_of_proxy() {
            *self.behind_proxy.lock().unwrap_or_else(PoisonError::into_inner)
        } else {
            Some(permit.buckets())
        };
        origin.map(|origin| (&**permit, origin))
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
        let load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        self.working.is_set() || self.streaming.is_set() || load.working > 0 || load.streaming > 0
    }

    /// The next answer has a body of so many bytes, which may look like anything.
    pub(crate) fn expect_body(&self, bytes: u64) {
        self.expected_body.store(bytes, Ordering::Relaxed);
    }

    /// The next answer comes in pieces, each of which may look like anything.
    pub(crate) fn expect_pieces(&self) {
        self.opaque.set(true);
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

fn buckets(origin: Buckets) -> Vec<Party> {
    origin.each().map(Party::Bucket).collect()
}

/// Resolves once the peer has sent something, or has gone. Readiness alone may be told too early, and then a silent peer
/// would have all that a request needs.
pub(crate) async fn first_byte(stream: &TcpStream) {
    // Whoever reads next meets the error again.
    let _ = stream.peek(&mut [0]).await;
}

/// Whoever is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub IpAddr);

/// Who sent the request; the machine itself for one that came over no connection.
pub(crate) fn peer_address<B>(request: &Request<B>) -> IpAddr {
    peer_of(request.extensions())
}

/// Who sent the request with these extensions.
pub(crate) fn peer_of(extensions: &Extensions) -> IpAddr {
    // A test says it by itself.
    let of_transport = || extensions.get::<Transport>().and_then(|transport| transport.peer);
    let peer = extensions.get::<PeerAddress>().copied().or_else(of_transport);
    peer.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0)
}

/// The clock of connections: real time, whatever the engine's clock says, because peers live in real time.
pub(crate) fn wait(span: Duration) -> portico_kernel::Sleep {
    portico_engine::clock::SystemClock.sleep(span)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_only_connects_has_sent_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (silent, _) = listener.accept().await.unwrap();
        // Whatever the system tells of the connection is told by now.
        silent.writable().await.unwrap();
        tokio::select! {
            biased;
            () = first_byte(&silent) => panic!("it has sent something"),
            () = tokio::task::yield_now() => {}
        }
        peer.write_all(b"a").await.unwrap();
        first_byte(&silent).await;
    }
}
