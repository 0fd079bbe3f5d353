//! Calls to servers on this machine, and the ways around the rules that others had.

pub(crate) mod dns;
mod lookups;
mod posts;
mod receiver;
mod registry;
mod sends;
mod streaming;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::*;

const LIMITS: Limits = Limits { time: Duration::from_secs(10), bytes: 1 << 10 };
/// For servers that keep silent: the test waits for as long.
const SHORT: Limits = Limits { time: Duration::from_millis(100), ..LIMITS };
const LOOPBACK: &str = "127.0.0.0/8, ::1";
/// A certificate for `localhost` that nobody but these tests trusts, and its key.
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/localhost.cert.der");
const KEY: &[u8] = include_bytes!("../fixtures/localhost.key.der");

/// A server that says the same to everybody.
struct Server {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    heads: mpsc::UnboundedReceiver<String>,
}

/// Reads a request's head and says `answer`.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { break };
        head.push(byte);
    }
    // Whoever has heard enough hangs up.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    String::from_utf8(head).unwrap()
}

impl Server {
    async fn start(answer: &'static str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let (sender, heads) = mpsc::unbounded_channel();
        let counted = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let head = match &tls {
                    None => serve(stream, answer).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => serve(stream, answer).await,
                        Err(_) => continue,
                    },
                };
                let _ = sender.send(head);
            }
        });
        Self { address, calls, heads }
    }

    async fn saying(answer: &'static str) -> Self {
        Self::start(answer, None).await
    }

    /// With a certificate for `localhost`.
    async fn with_tls(answer: &'static str) -> Self {
        Self::start(answer, Some(localhost_tls())).await
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

fn localhost_tls() -> TlsAcceptor {
    let key = PrivatePkcs8KeyDer::from(KEY).into();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .unwrap();
    Arc::new(config).into()
}

fn egress(allow: &str) -> Egress {
    Egress::new(allow.parse().unwrap(), &TrustedRoots::default())
}

async fn get(allow: &str, url: &str) -> Result<FetchResponse, EgressError> {
    egress(allow).get(url, "application/json", LIMITS).await
}

#[track_caller]
fn assert_failed(response: Result<FetchResponse, EgressError>, error: EgressError, what: &str) {
    match response {
        Ok(response) => panic!("{what}: answered {}", response.status),
        Err(other) => assert_eq!(other, error, "{what}"),
    }
}

#[tokio::test]
async fn an_answer_comes_back_whole() {
    let mut server = Server::saying("HTTP/1.1 418 Odd\r\nx-a: b\r\ncontent-length: 5\r\n\r\nhello").await;
    let url = format!("http://{}/a/b?c=d&e", server.address);
    let response = get(LOOPBACK, &url).await.unwrap();
    assert_eq!((response.status.as_u16(), &response.body[..]), (418, &b"hello"[..]));
    assert_eq!(response.headers["x-a"], "b");
    let head = server.heads.recv().await.unwrap();
    assert!(head.starts_with("GET /a/b?c=d&e HTTP/1.1\r\n"), "{head}");
    let host = format!("host: {}\r\n", server.address);
    for line in
        [host.as_str(), "user-agent: Portico\r\n", "accept: application/json\r\n", "connection: close\r\n"]
    {
        assert!(head.contains(line), "{line} in {head}");
    }
}

#[tokio::test]
async fn a_name_of_the_inside_is_called_where_it_is_allowed() {
    let mut server = Server::saying("HTTP/1.1 200 OK\r\n\r\nto the end").await;
    let url = format!("http://localhost.:{}/", server.address.port());
    assert_eq!(&get(LOOPBACK, &url).await.unwrap().body[..], b"to the end");
    let head = server.heads.recv().await.unwrap();
    assert!(head.contains(&format!("host: localhost:{}\r\n", server.address.port())), "{head}");
}

#[tokio::test]
async fn a_certificate_is_checked() {
    let mut server = Server::with_tls("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    std::fs::write(&file, pem(CERTIFICATE)).unwrap();
    let roots = TrustedRoots::read(&file).unwrap();
    assert_eq!(roots.count(), 1);
    let trusting = Egress::new(LOOPBACK.parse().unwrap(), &roots);
    let url = format!("https://localhost:{}/", server.address.port());
    assert_eq!(&trusting.get(&url, "*/*", LIMITS).await.unwrap().body[..], b"ok");
    assert!(server.heads.recv().await.unwrap().contains("host: localhost:"));
    let by_number = format!("https://{}/", server.address);
    assert_failed(trusting.get(&by_number, "*/*", LIMITS).await, EgressError::Tls, "it is for another name");
    assert_failed(get(LOOPBACK, &url).await, EgressError::Tls, "nobody vouches for it");
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", plain.local_addr().unwrap().port());
    let greeting = async {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"220 mail.example ready\r\n").await.unwrap();
        // Whoever hangs up with something unread takes back what it has said.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    let (response, ()) = tokio::join!(get(LOOPBACK, &url), greeting);
    assert_failed(response, EgressError::Tls, "that is no TLS");
}

/// A certificate as PEM.
fn pem(certificate: &[u8]) -> String {
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        BASE64_STANDARD.encode(certificate)
    )
}

#[test]
fn a_file_without_roots_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    let read = || TrustedRoots::read(&file).unwrap_err();
    assert!(read().contains("roots.pem"), "{}", read());
    for (text, told) in [("", "no certificate"), (pem(b"nonsense").as_str(), "roots.pem: ")] {
        std::fs::write(&file, text).unwrap();
        assert!(read().contains(told), "{}", read());
    }
    std::fs::write(&file, pem(CERTIFICATE) + &pem(CERTIFICATE)).unwrap();
    assert_eq!(TrustedRoots::read(&file).unwrap().count(), 2);
}

/// Every spelling of this machine and of other places that are nobody's business; a server does listen there.
#[tokio::test]
async fn no_spelling_of_a_private_address_gets_through() {
    let server = Server::saying("HTTP/1.1 200 OK\r\n\r\n").await;
    let port = server.address.port();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "0.0.0.0",
        "0",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[fec0::1]",
        "[ff02::1]",
        "[fd00:ec2::254]",
        "169.254.169.254",
        "168.63.129.16",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "10.0.0.1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "intranet",
        "metadata.google.internal",
        "metadata.google.internal.",
        "printer.local",
    ] {
        for scheme in ["https", "http"] {
            let url = format!("{scheme}://{host}:{port}/");
            assert_failed(get("", &url).await, EgressError::Blocked, &url);
        }
    }
    for host in ["[fe80::1%25lo]", "[::1%lo]", "user@127.0.0.1", "example.com@127.0.0.1"] {
        let url = format!("https://{host}:{port}/");
        assert_failed(get("", &url).await, EgressError::BadAddress, &url);
    }
    assert_eq!(server.calls(), 0, "nobody ever called");
}

#[tokio::test]
async fn allowing_one_network_allows_no_other() {
    let server = Server::saying("HTTP/1.1 200 OK\r\n\r\n").await;
    let url = server.url();
    for allow in ["10.0.0.0/8", "127.0.0.2", "::1"] {
        assert_failed(get(allow, &url).await, EgressError::Blocked, allow);
    }
    let local = format!("https://localhost:{}/", server.address.port());
    assert_failed(get("10.0.0.0/8", &local).await, EgressError::Blocked, "what it leads to is not allowed");
    assert_failed(get(LOOPBACK, "http://1.1.1.1/").await, EgressError::Blocked, "http to the public");
    assert_eq!(server.calls(), 0);
    let mapped = format!("http://[::ffff:127.0.0.1]:{}/", server.address.port());
    assert!(get("127.0.0.1", &mapped).await.is_ok(), "an allowed address counts as what it is");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let inner = Server::saying("HTTP/1.1 200 OK\r\n\r\nsecret").await;
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", inner.url());
    let server = Server::saying(answer.leak()).await;
    let response = get(LOOPBACK, &server.url()).await.unwrap();
    assert_eq!(response.status, StatusCode::FOUND);
    assert_eq!(response.headers["location"], inner.url());
    assert_eq!((server.calls(), inner.calls()), (1, 0));
}

#[tokio::test]
async fn a_body_ends_at_its_limit() {
    let limits = Limits { bytes: 5, ..LIMITS };
    for fits in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhello",
    ] {
        let server = Server::saying(fits).await;
        let response = egress(LOOPBACK).get(&server.url(), "*/*", limits).await.unwrap();
        assert_eq!(&response.body[..], b"hello", "{fits}");
    }
    for too_large in [
        "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhello!",
    ] {
        let server = Server::saying(too_large).await;
        let response = egress(LOOPBACK).get(&server.url(), "*/*", limits).await;
        assert_failed(response, EgressError::TooLarge, too_large);
    }
}

#[tokio::test]
async fn an_endless_head_is_too_large() {
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(80 << 10));
    let server = Server::saying(head.leak()).await;
    assert_failed(get(LOOPBACK, &server.url()).await, EgressError::TooLarge, "the head");
}

#[tokio::test]
async fn whoever_keeps_silent_is_left() {
    // It takes connections, since the system does, and never reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    for url in [format!("http://127.0.0.1:{port}/"), format!("https://127.0.0.1:{port}/")] {
        assert_failed(egress(LOOPBACK).get(&url, "*/*", SHORT).await, EgressError::Timeout, &url);
    }
}

/// The limit is on the whole exchange: bytes that trickle in do not put it off.
#[tokio::test]
async fn whoever_never_ends_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel").await.unwrap();
        // Never lets go of the connection.
        let _ = stream.read_to_end(&mut Vec::new()).await;
        std::future::pending::<()>().await;
    });
    assert_failed(egress(LOOPBACK).get(&url, "*/*", SHORT).await, EgressError::Timeout, "half a body");
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_apart() {
    for (answer, error) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", EgressError::Protocol),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", EgressError::Connection),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel", EgressError::Connection),
        ("HTTP/1.1 200", EgressError::Connection),
        ("", EgressError::Connection),
    ] {
        let server = Server::saying(answer).await;
        assert_failed(get(LOOPBACK, &server.url()).await, error, answer);
    }
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    assert_failed(get(LOOPBACK, &url).await, EgressError::Connection, "nobody listens");
    // No label is so long, so that the answer needs nobody outside of this machine.
    let unknown = format!("https://{}.example/", "x".repeat(64));
    assert_failed(get("", &unknown).await, EgressError::Dns, &unknown);
}
