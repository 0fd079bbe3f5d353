//! TLS on the listeners: certificates from files, and handshakes at a price.

mod certificate;
mod handshakes;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use portico_egress::Networks;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::client_stream::ALPN_HTTP2;
use crate::transport::wait;

pub use certificate::{Certificate, Certificates};
use handshakes::HandshakeRate;

/// HTTP/1 by the name that TLS agrees on.
const ALPN_HTTP1: &[u8] = b"http/1.1";
/// How long a handshake may take, once its client has said something.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// TLS 1.2 and 1.3 as a listener offers them.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    rate: Arc<HandshakeRate>,
    /// Networks of proxies, behind which anybody may be.
    proxies: Networks,
    is_strict: bool,
}

impl Tls {
    /// For HTTP, which may be HTTP/2. If it `is_strict`, browsers are told to come with TLS alone.
    pub fn http(certificate: &Arc<Certificate>, proxies: Networks, is_strict: bool) -> Result<Self, String> {
        Self::new(certificate, proxies, &[ALPN_HTTP2, ALPN_HTTP1], is_strict)
    }

    /// For MQTT.
    pub fn mqtt(certificate: &Arc<Certificate>, proxies: Networks) -> Result<Self, String> {
        Self::new(certificate, proxies, &[], false)
    }

    fn new(
        certificate: &Arc<Certificate>,
        proxies: Networks,
        protocols: &[&[u8]],
        is_strict: bool,
    ) -> Result<Self, String> {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(certificate.clone());
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        // Who comes back is known by a ticket, and costs no signature.
        config.ticketer = Ticketer::new().map_err(|error| error.to_string())?;
        let rate = Arc::new(HandshakeRate::default());
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), rate, proxies, is_strict })
    }

    /// Are browsers told to come with TLS alone?
    pub(crate) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// Shakes hands with a client that has said something, when it is the turn of its address.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        address: IpAddr,
    ) -> io::Result<TlsStream<TcpStream>> {
        if !self.proxies.contains(address) {
            let turn = self.rate.turn(address, HANDSHAKE_TIME_MAX);
            let turn = turn.ok_or_else(|| io::Error::other("too many handshakes from this address"))?;
            if !turn.is_zero() {
                wait(turn).await;
            }
        }
        tokio::select! {
            accepted = self.acceptor.accept(stream) => accepted,
            () = wait(HANDSHAKE_TIME_MAX) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
