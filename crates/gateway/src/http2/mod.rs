//! HTTP/2: many requests at once on one connection, with the same answers, refusals and limits as over HTTP/1.
//!
//! The library reads frames and keeps to the protocol. Here stands what it leaves open: how many requests of a connection are
//! handled at once, how much of their answers is held for a client that takes nothing, and when a client is told to go
//! (docs/decisions/0040).

mod frames;
mod request;
mod streams;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use h2::Reason;
use http::header::CONNECTION;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::client_stream::ClientStream;
use crate::cors::Origins;
use crate::incoming::IncomingRequest;
use crate::listener::{DRAIN_PAUSE, HttpListener, SILENT_LOOKS_MAX, SILENT_PAUSE, no_longer_busy, stopped};
use crate::transport::{Flag, Transport, wait};

use frames::Http2Io;
use streams::{OpenStream, StreamBody, StreamExecutor, Streams};

/// How many streams a client may have open. What is over is refused, and may be sent again.
const STREAMS_MAX: u32 = 100;
/// How many of its requests are handled at once, with their bodies and answers in memory; the others wait.
const HANDLED_MAX: usize = 32;
/// The same before the client has authenticated: of such connections one address may have hundreds.
const STRANGERS_HANDLED_MAX: usize = 4;
/// How many requests a client may send that the library refuses, because they are malformed or one stream too many, before it
/// is told to go,
const REFUSED_STREAMS_MAX: usize = 1_000;
/// how many it may open and reset before they were looked at,
const RESET_STREAMS_MAX: usize = 20;
/// and how many more it may reset than it waited for an answer of.
const CANCELLED_MAX: u32 = 100;
/// What a client may send before somebody reads it: of one body, and of all of them together.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// What is held of an answer before the system takes it.
const SEND_BUFFER_BYTES: usize = 32 << 10;
/// The largest head that the library reads, so that it is refused here in the usual words. It answers larger ones by itself,
/// and ends the connection of one that goes on and on.
const LIBRARY_HEAD_BYTES_MAX: u32 = 96 << 10;
/// A connection is asked for a sign of life so often, and has so long to give it.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_TIME_MAX: Duration = Duration::from_secs(20);
/// How long answers may take to leave once a client was told to go.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(5);
/// For so many looks a client may take nothing that was written to a stream of events.
const STALLED_LOOKS_MAX: u32 = 30;

/// A connection that speaks HTTP/2.
pub(crate) struct Http2Connection {
    transport: Transport,
    listener: Arc<HttpListener>,
    streams: Streams,
    /// The stream of the request that the library has just passed on.
    begun: Mutex<Option<OpenStream>>,
    handled: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    /// By how many the requests that were reset before their answer outnumber those that were answered.
    cancelled: AtomicU32,
    /// What of the steps was counted already for what the client may send.
    steps: AtomicU32,
    flooded: Flag,
    /// Is the client told to go?
    leaving: Flag,
    leave: Notify,
}

impl Http2Connection {
    fn new(transport: Transport, listener: Arc<HttpListener>) -> Arc<Self> {
        let strangers = Arc::new(Semaphore::new(STRANGERS_HANDLED_MAX));
        let strangers = transport.strangers.get_or_init(|| strangers).clone();
        if transport.is_of_proxy() {
            strangers.close();
        }
        Arc::new(Self {
            transport,
            listener,
            streams: Streams::default(),
            begun: Mutex::default(),
            handled: Arc::new(Semaphore::new(HANDLED_MAX)),
            strangers,
            cancelled: AtomicU32::new(0),
            steps: AtomicU32::new(0),
            flooded: Flag::default(),
            leaving: Flag::default(),
            leave: Notify::new(),
        })
    }

    /// Tells the client to go.
    fn tell_to_go(&self) {
        if !self.leaving.swap(true) {
            self.leave.notify_one();
        }
    }

    /// From now on nothing more is read.
    fn set_flooded(&self) {
        self.flooded.set(true);
        self.tell_to_go();
    }

    fn is_flooded(&self) -> bool {
        self.flooded.is_set()
    }

    /// How often something moved since this was asked before.
    fn take_steps(&self) -> u32 {
        let now = self.transport.steps();
        now.wrapping_sub(self.steps.swap(now, Ordering::Relaxed))
    }

    /// A stream is over. Whoever goes on resetting requests before they are answered makes work that nobody wants.
    fn note_end(&self, answered: bool) {
        let change = |count: u32| Some(if answered { count.saturating_sub(1) } else { count + 1 });
        let before = self.cancelled.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        if !answered && before.is_ok_and(|before| before >= CANCELLED_MAX) {
            self.tell_to_go();
        }
    }

    /// Opens the stream of a request, and leaves it for the executor.
    fn begin(self: &Arc<Self>) -> Arc<streams::Http2Stream> {
        let open = OpenStream::new(self);
        let stream = open.stream.clone();
        *self.begun.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        stream
    }

    fn take_begun(&self) -> Option<OpenStream> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits until one more request may be handled.
    async fn enter(&self) -> Result<OwnedSemaphorePermit, h2::Error> {
        // Closed once the client has authenticated.
        let stranger = self.strangers.clone().acquire_owned().await;
        match stranger {
            Ok(permit) => Ok(permit),
            Err(_) => self.handled.clone().acquire_owned().await.map_err(|_| Reason::REFUSED_STREAM.into()),
        }
    }

    /// Answers a request.
    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        stream: Arc<streams::Http2Stream>,
    ) -> Result<Response<StreamBody>, h2::Error> {
        if self.leaving.is_set() {
            return Err(Reason::REFUSED_STREAM.into());
        }
        stream.transport.begin(request.headers());
        let permit = self.enter().await?;
        let normal = request::normalise(&mut request);
        request.extensions_mut().insert(stream.transport.clone());
        let mut response = match normal {
            Ok(()) => self.listener.answer(request).await,
            Err(problem) => {
                let request = IncomingRequest::new(request, &self.listener.engine);
                request.finish(Err(problem.into()), &Origins::default()).map(crate::Outgoing::Whole)
            }
        };
        // What a body was not read of ends with its stream, and not with the connection.
        response.headers_mut().remove(CONNECTION);
        if self.transport.refusals().are_too_many() {
            self.tell_to_go();
        }
        stream.answered.set(true);
        Ok(response.map(|body| StreamBody::new(body, stream, permit)))
    }

    /// Resolves when the client has asked for nothing and taken nothing for about half a minute; resets streams whose
    /// client takes too little meanwhile.
    async fn silence(&self) {
        let transport = &self.transport;
        let (mut silent, mut stalled, mut steps, mut written) = (0, 0, 0, 0);
        loop {
            wait(SILENT_PAUSE).await;
            let is_busy = self.streams.look();
            let (steps_now, written_now) = (transport.steps(), transport.written());
            silent = if steps_now == steps && !is_busy { silent + 1 } else { 0 };
            stalled = if transport.blocked.is_set() && written_now == written { stalled + 1 } else { 0 };
            (steps, written) = (steps_now, written_now);
            let stalled_max = if transport.has_streams() { STALLED_LOOKS_MAX } else { SILENT_LOOKS_MAX };
            if silent >= SILENT_LOOKS_MAX || stalled >= stalled_max {
                return;
            }
        }
    }
}

/// Serves the requests of a connection that speaks HTTP/2, until it ends.
pub(crate) async fn serve(
    stream: ClientStream,
    peer: SocketAddr,
    transport: Transport,
    listener: Arc<HttpListener>,
    mut stop: watch::Receiver<bool>,
) {
    let connection = Http2Connection::new(transport.clone(), listener);
    let io = TokioIo::new(Http2Io::new(stream, connection.clone()));
    let of_request = connection.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let stream = of_request.begin();
        of_request.clone().answer(request, stream)
    });
    let serving = http2::Builder::new(StreamExecutor(connection.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_local_error_reset_streams(REFUSED_STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_header_list_size(LIBRARY_HEAD_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_TIME_MAX)
        .serve_connection(io, service);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = connection.silence() => leave(serving, LEAVE_TIME_MAX).await,
        () = connection.leave.notified() => {
            // What is under way with a client that is not read any more cannot end in order.
            let time_max = if connection.is_flooded() { DRAIN_PAUSE } else { LEAVE_TIME_MAX };
            leave(serving, time_max).await
        }
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                ended = serving => ended,
                () = no_longer_busy(&transport) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "HTTP/2 connection ended early");
    }
}

type Serving<S> = http2::Connection<TokioIo<Http2Io>, S, StreamExecutor>;

/// Says that no more requests are taken, and gives the answers under way a moment to leave.
async fn leave<S>(mut serving: Pin<&mut Serving<S>>, time_max: Duration) -> hyper::Result<()>
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<StreamBody>, Error = h2::Error>,
    S::Future: Send + 'static,
{
    serving.as_mut().graceful_shutdown();
    tokio::time::timeout(time_max, serving).await.unwrap_or(Ok(()))
}
