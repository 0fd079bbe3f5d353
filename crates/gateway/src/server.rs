//! Listeners: they accept connections, and end them in order when the server stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use portico_engine::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client_stream::ClientStream;
use crate::connection_limits::{ConnectionLimits, ConnectionPermit};
use crate::edge::EdgeIo;
use crate::listener::{Handler, HttpListener, no_longer_busy, silence, stopped};
use crate::on_wake::OnWake;
use crate::transport::{Transport, first_byte, wait};
use crate::{AuthServer, ConsoleServer, Gateway, MetricsServer, Outgoing, Tls, http2, mqtt};

/// About the largest head that is read.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// What the system holds of an answer that its peer has no room for.
const UNSENT_BYTES_MAX: u32 = 128 << 10;
/// How long calls under way may take to end when the server stops.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(35);
/// How long to wait when the machine has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

impl Handler for ConsoleServer {
    fn handle(&self, request: Request<Incoming>) -> BoxFuture<'_, Response<Outgoing>> {
        Box::pin(std::future::ready(self.answer(request).map(Outgoing::Whole)))
    }
}

/// Serves HTTP/1 and HTTP/2 on `listener`, under TLS if there is a certificate, until `stop` turns true; then lets the calls
/// under way end, and returns.
pub async fn serve(
    listener: TcpListener,
    handler: Arc<dyn Handler>,
    engine: Arc<Engine>,
    tls: Option<Tls>,
    limits: Arc<ConnectionLimits>,
    stop: watch::Receiver<bool>,
) {
    let stopping = stop.clone();
    let http = Arc::new(HttpListener { handler, engine, tls });
    let serve = |stream, peer, permit| {
        serve_http(stream, peer, Transport::new(permit, peer.ip()), http.clone(), stopping.clone())
    };
    accept(listener, limits, stop, serve).await;
}

/// Serves MQTT on `listener` until `stop` turns true; then waits until the connections were ended, and returns.
pub async fn serve_mqtt(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    tls: Option<Tls>,
    stop: watch::Receiver<bool>,
) {
    let limits = gateway.calls.connections.limits.clone();
    let serve = |stream, peer: SocketAddr, permit| {
        let transport = Transport::new(permit, peer.ip());
        mqtt::serve_tcp(stream, peer.ip(), tls.clone(), gateway.calls.clone(), transport)
    };
    accept(listener, limits, stop, serve).await;
}

/// Lets the system hold no more for a peer that takes nothing. By itself it holds some megabytes, which count as no
/// process's memory, and all connections of the machine together have a limit.
fn limit_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
        tracing::debug!(%error, "Failed to limit what the system holds of a connection");
    }
}

/// Serves each connection of `listener` in a task of its own until `stop` turns true; then waits for them, and returns.
async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    limits: Arc<ConnectionLimits>,
    mut stop: watch::Receiver<bool>,
    serve: impl Fn(TcpStream, SocketAddr, Arc<ConnectionPermit>) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Without a permit it is closed at once: whoever it is may come again.
                    let Some(permit) = limits.admit(peer.ip()).map(Arc::new) else { continue };
                    // What is ready is written at once; waiting to fill a packet only delays it.
                    let _ = stream.set_nodelay(true);
                    limit_unsent(&stream);
                    let serving = serve(stream, peer, permit.clone());
                    connections.spawn(async move {
                        let cut = std::pin::pin!(permit.cut());
                        tokio::select! {
                            biased;
                            () = serving => {}
                            () = OnWake::new(cut) => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "Failed to accept a connection");
                    wait(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = stopped(&mut stop) => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME_MAX, ended).await.is_err() {
        tracing::warn!("Some connections did not end in time and were cut off");
    }
}

async fn serve_http(
    stream: TcpStream,
    peer: SocketAddr,
    transport: Transport,
    listener: Arc<HttpListener>,
    mut stop: watch::Receiver<bool>,
) {
    // Who says nothing costs no more than the socket.
    tokio::select! {
        biased;
        () = first_byte(&stream) => {}
        () = silence(&transport) => return,
        () = stopped(&mut stop) => return,
    }
    let opened = tokio::select! {
        biased;
        opened = boxed_opening(stream, peer, listener.clone(), transport.clone()) => opened,
        () = stopped(&mut stop) => return,
    };
    match opened {
        Ok((stream, true)) => boxed_streams(stream, peer, transport, listener, stop).await,
        Ok((stream, false)) => boxed_requests(stream, peer, transport, listener, stop).await,
        Err(error) => tracing::debug!(%error, %peer, "Connection ended before it spoke HTTP"),
    }
}

/// Made here, like the next ones, so that the future of a silent connection has no room for it.
fn boxed_opening(
    stream: TcpStream,
    peer: SocketAddr,
    listener: Arc<HttpListener>,
    transport: Transport,
) -> BoxFuture<'static, io::Result<(ClientStream, bool)>> {
    Box::pin(open(stream, peer, listener, transport))
}

fn boxed_streams(
    stream: ClientStream,
    peer: SocketAddr,
    transport: Transport,
    listener: Arc<HttpListener>,
    stop: watch::Receiver<bool>,
) -> BoxFuture<'static, ()> {
    Box::pin(http2::serve(stream, peer, transport, listener, stop))
}

fn boxed_requests(
    stream: ClientStream,
    peer: SocketAddr,
    transport: Transport,
    listener: Arc<HttpListener>,
    stop: watch::Receiver<bool>,
) -> BoxFuture<'static, ()> {
    Box::pin(serve_requests(stream, peer, transport, listener, stop))
}

/// Waits until it is known what the client speaks: whether it is HTTP/2.
async fn open(
    stream: TcpStream,
    peer: SocketAddr,
    listener: Arc<HttpListener>,
    transport: Transport,
) -> io::Result<(ClientStream, bool)> {
    let mut stream = match &listener.tls {
        None => ClientStream::from(stream),
        Some(tls) => tls.accept(stream, peer.ip()).await?.into(),
    };
    tokio::select! {
        biased;
        speaks_http2 = stream.speaks_http2() => speaks_http2.map(|speaks_http2| (stream, speaks_http2)),
        () = silence(&transport) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Serves the requests of one connection that speaks HTTP/1, until it ends.
async fn serve_requests(
    stream: ClientStream,
    peer: SocketAddr,
    transport: Transport,
    listener: Arc<HttpListener>,
    mut stop: watch::Receiver<bool>,
) {
    let io = TokioIo::new(EdgeIo::new(stream, listener.engine.clone(), transport.clone()));
    let of_request = transport.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (listener, transport) = (listener.clone(), of_request.clone());
        request.extensions_mut().insert(transport.clone());
        transport.begin(request.headers());
        let follows = !transport.has_read.is_set();
        transport.has_read.set(false);
        async move {
            if follows {
                // It came together with the one before. Others have their turn in between.
                tokio::task::yield_now().await;
            }
            let answer = listener.answer(request).await;
            transport.serving.set(false);
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
    let is_stopped = async {
        tokio::select! {
            () = silence(&transport) => false,
            () = transport.cut.notified() => false,
            () = stopped(&mut stop) => true,
        }
    };
    let is_stopped = std::pin::pin!(is_stopped);
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        is_stopped = OnWake::new(is_stopped) => {
            if !is_stopped {
                return;
            }
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                ended = serving => ended,
                () = no_longer_busy(&transport) => return,
                () = transport.cut.notified() => return,
            }
        }
    };
    if let Err(error) = ended {
        // A peer that goes away or does not speak HTTP is everyday life at an edge.
        tracing::debug!(%error, %peer, "HTTP connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, E, R>(_: impl Fn(A, B, C, D, E) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn a_silent_connection_costs_little() {
        let bytes = future_bytes(serve_http);
        assert!(bytes < 1_024, "{bytes}");
    }
}
