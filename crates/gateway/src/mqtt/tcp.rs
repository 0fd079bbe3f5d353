//! MQTT over TCP, with or without TLS.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

use super::{CONNECT_TIME_MAX, serve};
use crate::Tls;
use crate::calls::Calls;
use crate::transport::{Transport, first_byte};

/// Serves a client until either side ends it.
pub(crate) async fn serve_tcp(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Tls>,
    calls: Arc<Calls>,
    transport: Transport,
) {
    // Who says nothing costs no more than the socket, and is no handshake.
    if tokio::time::timeout(CONNECT_TIME_MAX, first_byte(&stream)).await.is_err() {
        return;
    }
    boxed_stream(stream, peer, tls, calls, transport).await;
}

/// Made here, so that the future of a silent client has no room for it.
fn boxed_stream(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Tls>,
    calls: Arc<Calls>,
    transport: Transport,
) -> BoxFuture<'static, ()> {
    Box::pin(serve_stream(stream, peer, tls, calls, transport))
}

async fn serve_stream(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Tls>,
    calls: Arc<Calls>,
    transport: Transport,
) {
    let wire = match tls {
        None => stream.into(),
        Some(tls) => match Box::pin(tls.accept(stream, peer)).await {
            Ok(stream) => stream.into(),
            Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
        },
    };
    serve(wire, BytesMut::new(), None, calls, &transport).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, E, R>(_: impl Fn(A, B, C, D, E) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn a_silent_client_costs_little() {
        let bytes = future_bytes(serve_tcp);
        assert!(bytes < 1_024, "{bytes}");
    }
}
