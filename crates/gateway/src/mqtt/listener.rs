//! Listeners of MQTT.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{CONNECT_TIME_MAX, serve};
use crate::Gateway;
use crate::server::wait;

/// How long to wait when the machine has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to end when the server stops: they are drained over ten seconds.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(35);

/// The certificate that a listener shows.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl Tls {
    /// The chain and the key of these PEM files; in words, why they cannot be used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let words = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| words(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| words(key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| words(certificate, &error))?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Serves MQTT on `listener` until `stop` turns true; then waits until the connections were ended, and returns.
pub async fn serve_mqtt(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    tls: Option<Tls>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let mut stopped = std::pin::pin!(async {
        let _ = stop.wait_for(|stop| *stop).await.map(drop);
    });
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, gateway.clone(), tls.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "A connection could not be accepted");
                    wait(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = stopped.as_mut() => break,
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME_MAX, ended).await.is_err() {
        tracing::warn!("Some MQTT connections did not end in time and were cut off");
    }
}

async fn connection(stream: TcpStream, gateway: Arc<Gateway>, tls: Option<Tls>) {
    // What is ready is written at once; waiting to fill a packet only delays it.
    let _ = stream.set_nodelay(true);
    let (calls, lines) = (gateway.calls.clone(), gateway.lines.clone());
    drop(gateway);
    // Too many are not known yet; this one may come again.
    let Ok(unnamed) = lines.unnamed() else { return };
    let Some(Tls(acceptor)) = tls else { return serve(stream.into(), calls, lines, unnamed).await };
    let shaken = tokio::time::timeout(CONNECT_TIME_MAX, Box::pin(acceptor.accept(stream))).await;
    match shaken {
        Ok(Ok(stream)) => serve(stream.into(), calls, lines, unnamed).await,
        Ok(Err(error)) => tracing::debug!(%error, "A TLS handshake failed"),
        Err(_) => {}
    }
}
