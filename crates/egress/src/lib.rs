//! Every call that leaves the process, to an address that somebody else chose.
//!
//! The address is taken apart by a parser that knows its disguises, and resolved once. Every answer of the resolver
//! must be a public address, or one that the operator allows; the call then goes to an address that was checked, and to
//! no other. No redirect is followed, no proxy of the environment asked, and time and bytes are bounded over the whole
//! exchange. A refusal never says where a name led.
//!
//! Plain http, and names of the inside such as `localhost`, lead only to what the operator allows.
//!
//! [`Egress::post`] and [`Egress::send`] keep their connections for the next call to the same place. That is safe because every call asks anew
//! where its name leads (an answer counts for a second), checks everything it is told, and takes only a kept connection
//! to an address that has just passed. A name that has come to lead elsewhere finds none, and is refused before any is
//! looked for. A call that was given up closes its connection.
//!
//! [`Egress::open`] is for answers that do not end by themselves: only their head is waited for here.
//!
//! Start reading at [`Egress::post`], then `resolve.rs`, `exchange.rs` and `pool.rs`.
//!
//! Invariant: no other crate opens a connection to an address that came from outside, but `dns`, whose questions are no calls: it
//! asks [`Networks::permits`] before.

pub mod address;
mod connection;
mod dns;
mod error;
mod exchange;
mod networks;
mod pool;
mod resolve;
mod roots;
mod streaming;
mod target;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::Full;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use url::Host;

pub use error::EgressError;
pub use networks::{Networks, NetworksError};
pub use roots::TrustedRoots;
pub use streaming::StreamingResponse;

use connection::Message;
use dns::{CACHE_LIFE, Resolver};
use pool::Pool;
use target::Target;

/// The value of the `User-Agent` header.
pub const OUR_NAME: &str = "Portico";
/// The only protocol that is offered in TLS.
const ALPN: &[u8] = b"http/1.1";

/// The limits of one call.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The time limit from the lookup of the name to the last byte of the response.
    pub time: Duration,
    /// The limit of the response's body.
    pub bytes: usize,
}

/// The response to [`Egress::get`] and [`Egress::send`], whatever its status; a redirect is a response too.
#[derive(Debug, Clone)]
pub struct FetchResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

/// A POST request.
#[derive(Debug, Clone)]
pub struct Post<'a> {
    /// Where to.
    pub url: &'a str,
    /// Beside those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The limits of the call. A longer body is not read to its end, and the response counts all the same.
    pub limits: Limits,
}

/// A request whose response is wanted whole.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Where to.
    pub url: &'a str,
    /// The method.
    pub method: Method,
    /// Beside those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The limits of the call.
    pub limits: Limits,
    /// The time limit from the lookup of the name to the open connection.
    pub connect_time: Duration,
}

/// A request to which no whole response came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendFailure {
    /// Why.
    pub error: EgressError,
    /// May the other side have seen the request? Then nobody knows what it did.
    pub may_have_arrived: bool,
}

/// A request whose response is read chunk by chunk.
#[derive(Debug, Clone)]
pub struct StreamingRequest<'a> {
    /// Where to.
    pub url: &'a str,
    /// The method.
    pub method: Method,
    /// Beside those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The time limit from the lookup of the name to the end of the response's head.
    pub time: Duration,
}

/// The response to a [`Post`] without its body, whatever its status.
#[derive(Debug, Clone)]
pub struct PostResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
}

/// The client for every call to the outside.
pub struct Egress {
    allow: Networks,
    resolver: Resolver,
    tls: TlsConnector,
    pool: Pool,
}

impl Egress {
    /// Calls public addresses, and those in `allow`. The other side shows a certificate of the public roots or of
    /// `roots`. The system says whom to ask for names.
    pub fn new(allow: Networks, roots: &TrustedRoots) -> Self {
        Self::with_roots(roots.store(), allow, Resolver::of_system())
    }

    /// As [`Egress::new`], but `servers` are asked for names, after the hosts file of the system.
    pub fn with_name_servers(allow: Networks, roots: &TrustedRoots, servers: &[SocketAddr]) -> Self {
        Self::with_roots(roots.store(), allow, Resolver::of_servers(servers, CACHE_LIFE))
    }

    fn with_roots(roots: RootCertStore, allow: Networks, resolver: Resolver) -> Self {
        Self { allow, resolver, tls: tls_client(roots, &[ALPN]).into(), pool: Pool::default() }
    }

    /// Checks `url` without a lookup. A call to it may still be refused, when its name leads to a blocked address.
    pub fn check(&self, url: &str) -> Result<(), EgressError> {
        let target = Target::parse(url)?;
        if target.secure {
            target.server_name()?;
        }
        resolve::check(&target, &self.allow)
    }

    /// Does `url` lead nowhere but to networks that the operator allows beside the public ones? A public name is not
    /// looked up.
    pub fn is_to_allowed_networks(&self, url: &str) -> bool {
        Target::parse(url).is_ok_and(|target| match &target.host {
            Host::Ipv4(address) => self.allow.contains((*address).into()),
            Host::Ipv6(address) => self.allow.contains((*address).into()),
            Host::Domain(_) => target.only_if_allowed(),
        })
    }

    /// Fetches `url`, as one of the media types in `accept`.
    pub async fn get(&self, url: &str, accept: &str, limits: Limits) -> Result<FetchResponse, EgressError> {
        let accept = HeaderValue::from_str(accept).map_err(|_| EgressError::Protocol)?;
        let headers = HeaderMap::from_iter([(ACCEPT, accept)]);
        let target = Target::parse(url)?;
        let mut message = message(&target, Method::GET, headers, Bytes::new());
        message.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.resolver, &self.allow).await?;
            exchange::fetch(&self.tls, &target, &addresses, message, limits).await
        };
        tokio::time::timeout(limits.time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Sends a POST and discards the body of the response. Dropping the future closes the connection.
    pub async fn post(&self, call: Post<'_>) -> Result<PostResponse, EgressError> {
        let Post { url, headers, body, limits } = call;
        let target = Target::parse(url)?;
        let message = message(&target, Method::POST, headers, body);
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.resolver, &self.allow).await?;
            exchange::post(&self.tls, &self.pool, &target, &addresses, message, limits).await
        };
        tokio::time::timeout(limits.time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Sends a request and reads the whole response. Dropping the future closes the connection.
    pub async fn send(&self, call: Request<'_>) -> Result<FetchResponse, SendFailure> {
        let Request { url, method, headers, body, limits, connect_time } = call;
        let not_sent = |error| SendFailure { error, may_have_arrived: false };
        let target = Target::parse(url).map_err(not_sent)?;
        let message = message(&target, method, headers, body);
        let is_sent = AtomicBool::new(false);
        let exchange = async {
            let resolving = resolve::resolve(&target, &self.resolver, &self.allow);
            let addresses = tokio::time::timeout(connect_time, resolving).await;
            let addresses = addresses.unwrap_or(Err(EgressError::Timeout)).map_err(not_sent)?;
            let way = exchange::Way { tls: &self.tls, pool: &self.pool, target: &target, is_sent: &is_sent };
            exchange::send(way, &addresses, message, connect_time, limits.bytes).await
        };
        let timed_out = |_| {
            Err(SendFailure {
                error: EgressError::Timeout,
                may_have_arrived: is_sent.load(Ordering::Relaxed),
            })
        };
        tokio::time::timeout(limits.time, exchange).await.unwrap_or_else(timed_out)
    }

    /// Sends a request and waits for the head of the response. The caller limits the body as they read it.
    pub async fn open(&self, call: StreamingRequest<'_>) -> Result<StreamingResponse, EgressError> {
        let StreamingRequest { url, method, headers, body, time } = call;
        let target = Target::parse(url)?;
        let mut message = message(&target, method, headers, body);
        message.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.resolver, &self.allow).await?;
            StreamingResponse::open(&self.tls, &target, &addresses, message, time).await
        };
        tokio::time::timeout(time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }
}

/// How a client of this process speaks TLS: with which roots, and which protocols it offers, the preferred one first.
#[expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "the provider named here speaks every version that rustls asks for"
)]
pub fn tls_client(roots: RootCertStore, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(tls)
}

/// The call as it goes over the wire. How long it is, and whether the connection stays, is not for `headers` to say.
fn message(target: &Target, method: Method, mut headers: HeaderMap, body: Bytes) -> Message {
    for ours in [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION] {
        headers.remove(ours);
    }
    headers.insert(HOST, target.authority.clone());
    headers.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
    let mut message = Message::new(Full::new(body));
    *message.method_mut() = method;
    *message.uri_mut() = Uri::from(target.path.clone());
    *message.headers_mut() = headers;
    message
}
