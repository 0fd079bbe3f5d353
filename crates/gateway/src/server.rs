//! Listeners and connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use portico_engine::Engine;
use portico_kernel::Clock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::edge::EdgeIo;
use crate::{AuthServer, Gateway, MetricsServer, Outgoing};

/// A peer that sends no whole head for about so long is cut off: looks at the connection, and the time between two.
const SILENT_LOOKS_MAX: u32 = 3;
const SILENT_PAUSE: Duration = Duration::from_secs(10);
/// About the largest head that is read.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long calls under way may take to end when the server stops.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(35);
/// How long a connection may stay without a call when the server stops.
const DRAIN_PAUSE: Duration = Duration::from_millis(500);
/// How many such pauses an answer may take to leave.
const DRAIN_PAUSES_BLOCKED: u32 = 10;
/// How long to wait when the machine has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What answers the requests of a listener.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<Outgoing>>;
}

impl Handler for Gateway {
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<Outgoing>> {
        Box::pin(self.handle(request))
    }
}

impl Handler for AuthServer {
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<Outgoing>> {
        Box::pin(async move { self.handle(request).await.map(Outgoing::Whole) })
    }
}

impl Handler for MetricsServer {
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<Outgoing>> {
        Box::pin(std::future::ready(self.answer(request).map(Outgoing::Whole)))
    }
}

/// What a handler, the connection beneath it and the server tell each other.
#[derive(Debug, Clone, Default)]
pub struct Connection(Arc<State>);

#[derive(Debug, Default)]
struct State {
    unread: AtomicBool,
    working: AtomicBool,
    blocked: AtomicBool,
    serving: AtomicBool,
    /// Does its answer go on and on?
    streaming: AtomicBool,
    /// Bytes that the peer's system has taken, and told when a stream's moves.
    written: AtomicU64,
    drained: Notify,
    /// Told when it is to be cut off, whatever its peer does.
    cut: Notify,
    /// Grows with every request and every piece of an answer that the peer takes.
    steps: AtomicU32,
}

impl Connection {
    /// Part of a request's body was not read.
    pub(crate) fn left_unread(&self) {
        self.0.unread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.0.unread.load(Ordering::Relaxed)
    }

    /// Does an operation run for a request that was read whole?
    pub(crate) fn set_working(&self, working: bool) {
        self.0.working.store(working, Ordering::Relaxed);
    }

    /// Does an answer wait for the peer to take it?
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.0.blocked.store(blocked, Ordering::Relaxed);
    }

    /// Does the answer go on and on? Then its peer may be slow, and the server waits for its end when it stops.
    pub(crate) fn set_streaming(&self, streaming: bool) {
        self.0.streaming.store(streaming, Ordering::Relaxed);
    }

    pub(crate) fn is_streaming(&self) -> bool {
        self.0.streaming.load(Ordering::Relaxed)
    }

    /// Cuts it off, whatever its peer does.
    pub(crate) fn cut(&self) {
        self.0.cut.notify_one();
    }

    /// A stopping server waits for this; not for a request that is still coming in.
    fn is_working(&self) -> bool {
        self.0.working.load(Ordering::Relaxed) || self.is_streaming()
    }

    /// The peer took so many bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.step();
        self.0.written.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.is_streaming() {
            self.0.drained.notify_one();
        }
    }

    /// How many bytes it took so far.
    pub(crate) fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Waits until it takes more.
    pub(crate) async fn drained(&self) {
        self.0.drained.notified().await;
    }

    /// Something moved: a request came, or the peer took a piece of its answer.
    pub(crate) fn step(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// A request begins: its head was read.
    fn begin(&self) {
        self.step();
        self.0.serving.store(true, Ordering::Relaxed);
    }

    /// The request has its answer.
    fn end(&self) {
        self.0.serving.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.0.blocked.load(Ordering::Relaxed)
    }
}

/// Whoever is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
struct Peer(IpAddr);

/// Who sent the request; the machine itself for one that came over no connection.
pub(crate) fn peer_address<B>(request: &Request<B>) -> IpAddr {
    request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |peer| peer.0)
}

/// Serves `listener` until `stop` turns true; then lets the calls under way end, and returns.
pub async fn serve(
    listener: TcpListener,
    handler: Arc<dyn Handler>,
    engine: Arc<Engine>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let for_each = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, peer, handler.clone(), engine.clone(), for_each.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "A connection could not be accepted");
                    engine.clock.sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = stopped(&mut stop) => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME_MAX, ended).await.is_err() {
        tracing::warn!("Some calls did not end in time and were cut off");
    }
}

/// Ends when the server is told to stop, or nobody is left who could tell it.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await.map(drop);
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    handler: Arc<dyn Handler>,
    engine: Arc<Engine>,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are small and whole; waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let state = Connection::default();
    let io = TokioIo::new(EdgeIo::new(stream, engine, state.clone()));
    let of_request = state.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let handler = handler.clone();
        request.extensions_mut().insert(of_request.clone());
        request.extensions_mut().insert(Peer(peer.ip()));
        let connection = of_request.clone();
        connection.begin();
        async move {
            let answer = handler.handle(request).await;
            connection.end();
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    // Not with a timer of its own for every head, which would cost more than reading it.
    let serving = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(io, service)
        .with_upgrades();
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = silence(&state) => return,
        () = state.0.cut.notified() => return,
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                ended = serving => ended,
                () = no_longer_busy(&state) => return,
                () = state.0.cut.notified() => return,
            }
        }
    };
    if let Err(error) = ended {
        // A peer that goes away or does not speak HTTP is everyday life at an edge.
        tracing::debug!(%error, %peer, "A connection ended early");
    }
}

/// Ends when the peer has sent no whole head and taken nothing of an answer for about half a minute, and nothing is being
/// done for it.
async fn silence(connection: &Connection) {
    let (mut looks, mut steps) = (0, 0);
    while looks < SILENT_LOOKS_MAX {
        wait(SILENT_PAUSE).await;
        let now = connection.0.steps.load(Ordering::Relaxed);
        let silent =
            now == steps && !connection.0.serving.load(Ordering::Relaxed) && !connection.is_streaming();
        (looks, steps) = (if silent { looks + 1 } else { 0 }, now);
    }
}

/// Ends once there is nothing to wait for any more, with a moment for what is just arriving or leaving.
async fn no_longer_busy(connection: &Connection) {
    wait(DRAIN_PAUSE).await;
    while connection.is_working() {
        wait(DRAIN_PAUSE).await;
    }
    // A peer that does not take its answer is given a little longer.
    for _ in 0..DRAIN_PAUSES_BLOCKED {
        if !connection.is_blocked() {
            return;
        }
        wait(DRAIN_PAUSE).await;
    }
}

/// The clock of connections: real time, whatever the engine's clock says, because peers live in real time.
pub(crate) fn wait(span: Duration) -> portico_kernel::Sleep {
    portico_engine::clock::SystemClock.sleep(span)
}
