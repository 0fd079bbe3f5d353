//! MQTT over TCP, with or without TLS.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{CONNECT_TIME_MAX, serve};
use crate::calls::Calls;
use crate::transport::{Transport, first_byte};

/// The certificate that a listener shows.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// The chain and the key of these PEM files; the error says why they cannot be used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let message = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| message(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| message(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| message(certificate, &error))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Serves a client until either side ends it.
pub(crate) async fn serve_tcp(stream: TcpStream, tls: Option<Tls>, calls: Arc<Calls>, transport: Transport) {
    // Who says nothing costs no more than the socket.
    if tokio::time::timeout(CONNECT_TIME_MAX, first_byte(&stream)).await.is_err() {
        return;
    }
    boxed_stream(stream, tls, calls, transport).await;
}

/// Made here, so that the future of a silent client has no room for it.
fn boxed_stream(
    stream: TcpStream,
    tls: Option<Tls>,
    calls: Arc<Calls>,
    transport: Transport,
) -> BoxFuture<'static, ()> {
    Box::pin(serve_stream(stream, tls, calls, transport))
}

async fn serve_stream(stream: TcpStream, tls: Option<Tls>, calls: Arc<Calls>, transport: Transport) {
    let wire = match tls {
        None => stream.into(),
        Some(Tls(acceptor)) => {
            match tokio::time::timeout(CONNECT_TIME_MAX, Box::pin(acceptor.accept(stream))).await {
                Ok(Ok(stream)) => stream.into(),
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return,
            }
        }
    };
    serve(wire, BytesMut::new(), None, calls, &transport).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn future_bytes<A, B, C, D, R>(_: impl Fn(A, B, C, D) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn a_silent_client_costs_little() {
        let bytes = future_bytes(serve_tcp);
        assert!(bytes < 1_024, "{bytes}");
    }
}
