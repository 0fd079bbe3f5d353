//! Opening connections to targets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use portico_egress::{TrustedRoots, tls_client};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use crate::io::Io;
use crate::target::{Place, Scheme, Target};

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// When the system begins to ask whether a silent target is still there, and how often.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(30))
    .with_interval(Duration::from_secs(10))
    .with_retries(3);

/// Opens connections.
pub(crate) struct Connector(Option<Tls>);

struct Tls {
    /// Offers HTTP/2 and HTTP/1.1.
    both: TlsConnector,
    /// Offers HTTP/1.1 alone, for what becomes a WebSocket.
    http1: TlsConnector,
}

/// A stream that is open, and whether HTTP/2 is spoken on it.
pub(crate) struct Opened {
    pub(crate) io: Io,
    pub(crate) is_http2: bool,
}

impl Connector {
    /// Roots are of use only where a target is behind TLS.
    pub(crate) fn new(targets: &[Target], roots: &TrustedRoots) -> Self {
        let is_needed = targets.iter().any(|target| matches!(target.scheme, Scheme::Tls(_)));
        Self(is_needed.then(|| Tls {
            both: tls_client(roots.store(), &[HTTP2, HTTP1]).into(),
            http1: tls_client(roots.store(), &[HTTP1]).into(),
        }))
    }

    /// Opens a connection within `time`.
    pub(crate) async fn open(&self, target: &Target, http1: bool, time: Duration) -> io::Result<Opened> {
        match timeout(time, self.connect(target, http1, time)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time")),
        }
    }

    async fn connect(&self, target: &Target, http1: bool, time: Duration) -> io::Result<Opened> {
        let stream = match &target.place {
            Place::Unix(path) => {
                let io = Io::Unix(UnixStream::connect(path).await?);
                return Ok(Opened { io, is_http2: false });
            }
            Place::Tcp(host, port) => tcp(host, *port, time).await?,
        };
        match &target.scheme {
            Scheme::Http1 => Ok(Opened { io: Io::Tcp(stream), is_http2: false }),
            Scheme::H2c => Ok(Opened { io: Io::Tcp(stream), is_http2: !http1 }),
            Scheme::Tls(name) => self.handshake(name.clone(), stream, http1).await,
        }
    }

    async fn handshake(
        &self,
        name: ServerName<'static>,
        stream: TcpStream,
        http1: bool,
    ) -> io::Result<Opened> {
        let Some(tls) = &self.0 else { return Err(io::ErrorKind::Unsupported.into()) };
        let tls = if http1 { &tls.http1 } else { &tls.both };
        let stream = tls.connect(name, stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok(Opened { io: Io::Tls(Box::new(stream)), is_http2 })
    }
}

/// Connects to the first address of the host that accepts. The system is asked for names, whose search domains lead to
/// neighbours in a cluster.
async fn tcp(host: &Host<String>, port: u16, time: Duration) -> io::Result<TcpStream> {
    match host {
        Host::Ipv4(address) => tcp_to((*address, port).into()).await,
        Host::Ipv6(address) => tcp_to((*address, port).into()).await,
        Host::Domain(name) => {
            let addresses: Vec<_> = lookup_host((name.as_str(), port)).await?.collect();
            // Each gets its share of the time, so that one that keeps silent leaves some to the next.
            let share = time / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in addresses {
                match timeout(share, tcp_to(address)).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => last = error,
                    Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "no connection in time"),
                }
            }
            Err(last)
        }
    }
}

async fn tcp_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // Where either cannot be set, calls are slower, or a dead target is noticed later.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
    Ok(stream)
}
