//! Every call that leaves the process, to an address that somebody else chose.
//!
//! The address is taken apart by a parser that knows its disguises, and resolved once. Every answer of the resolver
//! must be a public address, or one that the operator allows; the call then goes to an address that was checked, and to
//! no other. No redirect is followed, no proxy of the environment asked, and time and bytes are bounded over the whole
//! exchange. A refusal never says where a name led.
//!
//! Plain http, and names of the inside such as `localhost`, lead only to what the operator allows.
//!
//! [`Egress::post`] keeps its connections for the next call to the same place. That is safe because every call asks anew
//! where its name leads (an answer counts for a second), checks everything it is told, and takes only a kept connection
//! to an address that has just passed. A name that has come to lead elsewhere finds none, and is refused before any is
//! looked for. A call that was given up closes its connection.
//!
//! [`Egress::open`] is for answers that do not end by themselves: only their head is waited for here.
//!
//! Start reading at [`Egress::post`], then `resolve.rs`, `exchange.rs` and `pool.rs`.
//!
//! Invariant: no other crate opens a connection to an address that came from outside.

pub mod address;
mod connection;
mod error;
mod exchange;
mod names;
mod networks;
mod opened;
mod pool;
mod resolve;
mod target;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use http_body_util::Full;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

pub use error::EgressError;
pub use networks::{Networks, NetworksError};
pub use opened::Opened;

use connection::Message;
use names::{CACHE_LIFE, Names};
use pool::Pool;
use target::Target;

/// How we call ourselves.
pub const OUR_NAME: &str = "Portico";
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

/// Something to be sent, as a POST.
#[derive(Debug, Clone)]
pub struct Post<'a> {
    /// Where to.
    pub url: &'a str,
    /// Beside those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What the exchange may take. An answer that is longer is left unread from there on, and counts all the same.
    pub limits: Limits,
}

/// A call whose answer is read piece by piece.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// Where to.
    pub url: &'a str,
    /// The method.
    pub method: Method,
    /// Beside those that every call has: `host`, `user-agent` and the length of the body.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// From the lookup of the name to the end of the answer's head.
    pub time: Duration,
}

/// What is kept of the answer to a [`Post`], whatever its status.
#[derive(Debug, Clone)]
pub struct Posted {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
}

/// Calls the outside.
pub struct Egress {
    allow: Networks,
    names: Names,
    tls: TlsConnector,
    pool: Pool,
}

impl Egress {
    /// Calls public addresses, and those in `allow`. The system says whom to ask for names.
    pub fn new(allow: Networks) -> Self {
        Self::trusting(public_roots(), allow, Names::of_system())
    }

    /// As [`Egress::new`], but `servers` are asked for names, after the hosts file of the system.
    pub fn with_name_servers(allow: Networks, servers: &[SocketAddr]) -> Self {
        Self::trusting(public_roots(), allow, Names::of_servers(servers, CACHE_LIFE))
    }

    #[expect(
        clippy::expect_used,
        reason = "the provider named here speaks every version that rustls asks for"
    )]
    fn trusting(roots: RootCertStore, allow: Networks, names: Names) -> Self {
        let mut tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        Self { allow, names, tls: Arc::new(tls).into(), pool: Pool::default() }
    }

    /// Says of `url` what can be said without asking anybody. A call to it may still be refused: only then is it known
    /// where a name leads.
    pub fn check(&self, url: &str) -> Result<(), EgressError> {
        let target = Target::parse(url)?;
        if target.secure {
            target.server_name()?;
        }
        resolve::check(&target, &self.allow)
    }

    /// Reads what is at `url`, as one of the media types in `accept`.
    pub async fn get(&self, url: &str, accept: &str, limits: Limits) -> Result<Fetched, EgressError> {
        let accept = HeaderValue::from_str(accept).map_err(|_| EgressError::Protocol)?;
        let headers = HeaderMap::from_iter([(ACCEPT, accept)]);
        let target = Target::parse(url)?;
        let mut message = message(&target, Method::GET, headers, Bytes::new());
        message.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.names, &self.allow).await?;
            exchange::fetch(&self.tls, &target, &addresses, message, limits).await
        };
        tokio::time::timeout(limits.time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Sends a body, and reads the answer away. To drop the future is to hang up.
    pub async fn post(&self, call: Post<'_>) -> Result<Posted, EgressError> {
        let Post { url, headers, body, limits } = call;
        let target = Target::parse(url)?;
        let message = message(&target, Method::POST, headers, body);
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.names, &self.allow).await?;
            exchange::post(&self.tls, &self.pool, &target, &addresses, message, limits).await
        };
        tokio::time::timeout(limits.time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }

    /// Calls, and waits for the head of the answer. How long its body may be and take is for whoever reads it to say.
    pub async fn open(&self, call: Call<'_>) -> Result<Opened, EgressError> {
        let Call { url, method, headers, body, time } = call;
        let target = Target::parse(url)?;
        let mut message = message(&target, method, headers, body);
        message.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        let exchange = async {
            let addresses = resolve::resolve(&target, &self.names, &self.allow).await?;
            Opened::open(&self.tls, &target, &addresses, message, time).await
        };
        tokio::time::timeout(time, exchange).await.unwrap_or(Err(EgressError::Timeout))
    }
}

fn public_roots() -> RootCertStore {
    webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect()
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
