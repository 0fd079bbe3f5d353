//! What all connections of a listener share, and how long they may stay.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::STRICT_TRANSPORT_SECURITY;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use portico_engine::Engine;
use tokio::sync::watch;

use crate::outgoing::Outgoing;
use crate::tls::Tls;
use crate::transport::{Transport, wait};

/// A peer that sends no whole head for about so long is cut off: looks at the connection, and the time between two.
pub(crate) const SILENT_LOOKS_MAX: u32 = 3;
pub(crate) const SILENT_PAUSE: Duration = Duration::from_secs(10);
/// How long a connection may stay without a call when the server stops.
pub(crate) const DRAIN_PAUSE: Duration = Duration::from_millis(500);
/// How many such pauses an answer may take to leave.
const DRAIN_PAUSES_BLOCKED: u32 = 10;
/// Browsers come back with TLS for a year, to this host alone.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// What answers the requests of a listener.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<Outgoing>>;
}

/// What answers the requests of a listener, and what it needs.
pub(crate) struct HttpListener {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) tls: Option<Tls>,
}

impl HttpListener {
    /// Answers a request that has come over a connection.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Outgoing> {
        let mut response = self.handler.handle(request).await;
        if self.tls.as_ref().is_some_and(Tls::is_strict) {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HSTS);
        }
        response
    }
}

/// Resolves when the server is told to stop, or nobody is left who could tell it.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await.map(drop);
}

/// Resolves when the peer has sent no whole head and taken nothing of an answer for about half a minute, and nothing is being
/// done for it.
pub(crate) async fn silence(transport: &Transport) {
    let (mut looks, mut steps) = (0, 0);
    while looks < SILENT_LOOKS_MAX {
        wait(SILENT_PAUSE).await;
        let now = transport.steps();
        let busy = transport.serving.is_set() || transport.streaming.is_set();
        (looks, steps) = (if now == steps && !busy { looks + 1 } else { 0 }, now);
    }
}

/// Resolves once there is nothing to wait for any more, with a moment for what is just arriving or leaving.
pub(crate) async fn no_longer_busy(transport: &Transport) {
    wait(DRAIN_PAUSE).await;
    while transport.is_working() {
        wait(DRAIN_PAUSE).await;
    }
    // A peer that does not take its answer is given a little longer.
    for _ in 0..DRAIN_PAUSES_BLOCKED {
        if !transport.blocked.is_set() {
            return;
        }
        wait(DRAIN_PAUSE).await;
    }
}
