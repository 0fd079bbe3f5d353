//! Every call that leaves the process, to an address that somebody else chose.
//!
//! The address is taken apart by a parser that knows its disguises, and resolved once. Every answer of the resolver
//! must be a public address, or one that the operator allows; the call then goes to an address that was checked, and to
//! no other. No redirect is followed, no proxy of the environment asked, and time and bytes are bounded over the whole
//! exchange. A refusal never says where a name led.
//!
//! Plain http, and names of the inside such as `localhost`, lead only to what the operator allows.
//!
//! Absent on purpose: connections that are kept. Each call resolves anew, so that none outlives a change of its name.
//!
//! Start reading at [`Egress::get`], then `resolve.rs`.
//!
//! Invariant: no other crate opens a connection to an address that came from outside.

pub mod address;
mod error;
mod exchange;
mod networks;
mod resolve;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::Full;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

pub use error::EgressError;
pub use networks::{Networks, NetworksError};

use target::Target;

/// How we call ourselves.
const OUR_NAME: HeaderValue = HeaderValue::from_static("Portico");
/// The only protocol that we speak inside of TLS.
const ALPN: &[u8] = b"http/1.1";

/// What an exchange may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From the lookup of the name to the last byte of the answer.
    pub time: Duration,
    /// The body of the answer.
    pub bytes: usize,
}

/// An answer, whatever its status; a redirect is an answer too.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

/// Calls the outside.
pub struct Egress {
    allow: Networks,
    tls: TlsConnector,
}

/// A call before it is made.
struct Request<'a> {
    method: Method,
    url: &'a str,
    headers: HeaderMap,
    body: Bytes,
    limits: Limits,
}

impl Egress {
    /// Calls public addresses, and those in `allow`.
    pub fn new(allow: Networks) -> Self {
        Self::trusting(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(), allow)
    }

    #[expect(
        clippy::expect_used,
        reason = "the provider named here speaks every version that rustls asks for"
    )]
    fn trusting(roots: RootCertStore, allow: Networks) -> Self {
        let mut tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        Self { allow, tls: Arc::new(tls).into() }
    }

    /// Reads what is at `url`, as one of the media types in `accept`.
    pub async fn get(&self, url: &str, accept: &str, limits: Limits) -> Result<Fetched, EgressError> {
        let accept = HeaderValue::from_str(accept).map_err(|_| EgressError::Protocol)?;
        let headers = HeaderMap::from_iter([(ACCEPT, accept)]);
        self.send(Request { method: Method::GET, url, headers, body: Bytes::new(), limits }).await
    }

    /// The way that every call takes.
    async fn send(&self, request: Request<'_>) -> Result<Fetched, EgressError> {
        let limits = request.limits;
        let target = Target::parse(request.url)?;
        let request = message(&target, request)?;
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.allow).await?;
            exchange::exchange(&self.tls, &target, &addresses, request, limits).await
        };
        tokio::time::timeout(limits.time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }
}

/// The call as it goes over the wire.
fn message(target: &Target, request: Request<'_>) -> Result<http::Request<Full<Bytes>>, EgressError> {
    let path: PathAndQuery = target.path.parse().map_err(|_| EgressError::BadAddress)?;
    let host = HeaderValue::from_str(&target.authority).map_err(|_| EgressError::BadAddress)?;
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = Uri::from(path);
    *message.headers_mut() = request.headers;
    let close = HeaderValue::from_static("close");
    message.headers_mut().extend([(HOST, host), (USER_AGENT, OUR_NAME), (CONNECTION, close)]);
    Ok(message)
}
