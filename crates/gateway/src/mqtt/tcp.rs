//! MQTT over TCP, with or without TLS.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::net::TcpStream;

use super::{CONNECT_TIME_MAX, serve};
use crate::Tls;
use crate::calls::Calls;
use crate::transport::Transport;

/// Serves a client until either side ends it.
pub(crate) async fn serve_tcp(
    stream: TcpStream,
    peer: IpAddr,
    tls: Option<Tls>,
    calls: Arc<Calls>,
    transport: Transport,
) {
    let wire = match tls {
        None => stream.into(),
        Some(tls) => {
            // Who says nothing does not count as a handshake.
            match tokio::time::timeout(CONNECT_TIME_MAX, stream.readable()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
            match Box::pin(tls.accept(stream, peer)).await {
                Ok(stream) => stream.into(),
                Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
            }
        }
    };
    serve(wire, BytesMut::new(), None, calls, &transport).await;
}
