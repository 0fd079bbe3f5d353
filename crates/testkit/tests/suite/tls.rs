//! TLS on the listeners.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use portico_egress::Networks;
use portico_gateway::{Certificates, Handler, Tls};
use portico_testkit::{Answer, Database, TestApp, TestDatabase, soon, until};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::http2::client::Http2Client;
use crate::program::{self, Server};

/// A certificate that trusts itself, in two files.
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn new(folder: &Path) -> Self {
        let pair = Self { certificate: folder.join("tls.pem"), key: folder.join("tls.key") };
        pair.renew("localhost", 2090);
        pair
    }

    /// Another one of that name, which ends in that year.
    fn renew(&self, name: &str, ends: i32) {
        let mut params = CertificateParams::new(vec![name.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.not_after = date_time_ymd(ends, 1, 2);
        let key = KeyPair::generate().unwrap();
        fs::write(&self.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&self.key, key.serialize_pem()).unwrap();
    }

    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }
}

/// Shakes hands with a server of that certificate.
async fn connect(
    address: SocketAddr,
    root: CertificateDer<'static>,
    protocols: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    soon("a handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];

async fn health(address: SocketAddr, pair: &Pair) -> Result<u16, std::io::Error> {
    let stream = connect(address, pair.der(), &["h2"], BOTH).await?;
    let client = Http2Client::over(stream).await;
    Ok(client.call("GET", "/healthz", &[], b"").await.unwrap().status)
}

/// A listener of the app.
struct Served {
    app: TestApp,
    pair: Pair,
    certificates: Certificates,
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

async fn serve(handler: impl FnOnce(&TestApp) -> Arc<dyn Handler>, is_strict: bool) -> Served {
    let app = TestApp::new(Database::Sqlite).await;
    let pair = Pair::new(app.database.folder.path());
    let certificates = Certificates::default();
    let certificate = certificates.open(&pair.certificate, &pair.key).unwrap();
    let tls = Tls::http(&certificate, Networks::default(), is_strict).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let (engine, limits) = (app.app.engine.clone(), app.app.connections.limits.clone());
    let handler = handler(&app);
    tokio::spawn(portico_gateway::serve(listener, handler, engine, Some(tls), limits, stopped));
    Served { app, pair, certificates, address, _stop: stop }
}

/// Sends a request over HTTP/1 and reads the answer.
async fn ask(mut stream: TlsStream<TcpStream>, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    soon("an answer", stream.read_to_end(&mut bytes)).await.unwrap();
    Answer::from_wire(&bytes).unwrap()
}

#[tokio::test]
async fn the_client_chooses_the_protocol() {
    let served = serve(|app| app.gateway.clone(), false).await;
    for versions in [&[&version::TLS13], &[&version::TLS12]] {
        let root = || served.pair.der();
        let stream = connect(served.address, root(), &["h2", "http/1.1"], versions).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let answer = Http2Client::over(stream).await.call("GET", "/healthz", &[], b"").await.unwrap();
        assert_eq!((answer.status, answer.header("strict-transport-security")), (200, ""));
        for protocols in [&["http/1.1"][..], &[]] {
            let stream = connect(served.address, root(), protocols, versions).await.unwrap();
            assert_eq!(ask(stream, "/healthz").await.status, 200);
        }
        assert!(connect(served.address, root(), &["spdy/3"], versions).await.is_err());
    }
    // Who comes without TLS gets nothing.
    let mut plain = TcpStream::connect(served.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    let _ = soon("the end of the connection", plain.read_to_end(&mut bytes)).await;
    assert!(!bytes.starts_with(b"HTTP"), "{bytes:?}");
}

#[tokio::test]
async fn a_socket_is_opened_under_tls() {
    let served = serve(|app| app.gateway.clone(), false).await;
    let stream = connect(served.address, served.pair.der(), &["http/1.1"], BOTH).await.unwrap();
    let opening = Box::pin(client_async("ws://localhost/v1/socket", stream));
    let (mut socket, _) = soon("a socket", opening).await.unwrap();
    let auth = format!("{{\"type\":\"auth\",\"token\":\"{}\"}}", served.app.token);
    futures_util::SinkExt::send(&mut socket, Message::text(auth)).await.unwrap();
    let ready = soon("a frame", futures_util::StreamExt::next(&mut socket)).await.unwrap().unwrap();
    assert!(ready.to_text().unwrap().contains("\"ready\""), "{ready:?}");
}

#[tokio::test]
async fn pages_bind_browsers_to_tls_where_they_should() {
    let served = serve(|app| app.auth.clone(), true).await;
    let path = "/.well-known/oauth-authorization-server";
    let stream = connect(served.address, served.pair.der(), &[], BOTH).await.unwrap();
    let answer = ask(stream, path).await;
    assert_eq!((answer.status, answer.header("strict-transport-security")), (200, "max-age=31536000"));
    let stream = connect(served.address, served.pair.der(), &["h2"], BOTH).await.unwrap();
    let answer = Http2Client::over(stream).await.call("GET", path, &[], b"").await.unwrap();
    assert_eq!((answer.status, answer.header("strict-transport-security")), (200, "max-age=31536000"));
}

#[tokio::test]
async fn a_certificate_that_changes_is_shown_and_a_broken_one_is_not() {
    let served = serve(|app| app.gateway.clone(), false).await;
    let before = served.pair.der();
    served.pair.renew("localhost", 2091);
    assert!(health(served.address, &served.pair).await.is_err(), "nobody has looked yet");
    served.certificates.look();
    assert!(health(served.address, &served.pair).await.is_err(), "it may still be changing");
    served.certificates.look();
    assert_eq!(health(served.address, &served.pair).await.unwrap(), 200);
    assert!(connect(served.address, before, &[], BOTH).await.is_err());
    // The key of another certificate.
    let good = served.pair.der();
    fs::write(&served.pair.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    served.certificates.look();
    served.certificates.look();
    connect(served.address, good.clone(), &[], BOTH).await.unwrap();
    for broken in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        fs::write(&served.pair.certificate, broken).unwrap();
        served.certificates.look();
        served.certificates.look();
        connect(served.address, good.clone(), &[], BOTH).await.unwrap();
    }
    served.pair.renew("localhost", 2092);
    served.certificates.look();
    served.certificates.look();
    assert_eq!(health(served.address, &served.pair).await.unwrap(), 200);
}

#[test]
fn what_is_wrong_with_a_certificate_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::new(folder.path());
    let read = || portico_gateway::Certificate::read(&pair.certificate, &pair.key);
    let now = portico_kernel::Timestamp::from_seconds(1_800_000_000);
    let certificate = read().unwrap();
    assert_eq!(certificate.fault("localhost", now), None);
    assert_eq!(certificate.fault("127.0.0.1", now), None);
    assert_eq!(certificate.fault("a.example", now).unwrap(), "it does not name a.example");
    assert!(certificate.to_string().ends_with("tls.pem (ends on 2090-01-02)"), "{certificate}");
    pair.renew("localhost", 2020);
    assert_eq!(read().unwrap().fault("localhost", now).unwrap(), "it has ended on 2020-01-02");
    fs::write(&pair.key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(read().is_err());
    fs::write(&pair.key, "").unwrap();
    assert!(read().unwrap_err().contains("tls.key"));
}

/// A command of the program with that certificate.
fn command(database: &TestDatabase, pair: &Pair) -> Command {
    let mut command = program::command(database);
    command
        .env("PORTICO_TLS_CERTIFICATE", &pair.certificate)
        .env("PORTICO_TLS_KEY", &pair.key)
        .env("PORTICO_BASE_URL", "https://localhost")
        .env("PORTICO_AUTH_URL", "https://localhost:8443")
        .env("PORTICO_LISTEN_MQTTS", "127.0.0.1:0");
    command
}

#[tokio::test]
async fn a_server_needs_no_proxy() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let pair = Pair::new(database.folder.path());
    let server = Server::start_as(command(&database, &pair));
    for address in [&server.api, &server.auth] {
        let stream = connect(address.parse().unwrap(), pair.der(), &["h2"], BOTH).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    }
    // MQTT 5, by a client that is nobody: it is refused in the words of the protocol.
    let mqtts = server.mqtts.as_ref().unwrap().parse().unwrap();
    let mut mqtt = connect(mqtts, pair.der(), &[], BOTH).await.unwrap();
    mqtt.write_all(b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03abc").await.unwrap();
    let mut answer = [0; 1];
    soon("an answer", mqtt.read_exact(&mut answer)).await.unwrap();
    assert_eq!(answer, [0x20]);
    // It looks at the files by itself.
    pair.renew("localhost", 2091);
    let api = server.api.parse().unwrap();
    until("the new certificate", async || Box::pin(health(api, &pair)).await.is_ok()).await;
    server.kill();
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_found_before_and_at_the_start() {
    let database = TestDatabase::create(Database::Sqlite).await;
    let pair = Pair::new(database.folder.path());
    let output = |arguments: &[&str]| {
        let output = command(&database, &pair).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (good, text) = output(&["doctor"]);
    assert!(good && text.contains("certificate of the API") && text.contains("ends on 2090-01-02"), "{text}");
    let (good, text) = output(&["config", "check"]);
    assert!(good && text.contains("tls_certificate = ") && text.contains("tls.pem"), "{text}");
    pair.renew("other.example", 2090);
    let (good, text) = output(&["doctor"]);
    assert!(!good && text.contains("it does not name localhost"), "{text}");
    fs::write(&pair.certificate, "").unwrap();
    let (good, text) = output(&["doctor"]);
    assert!(!good && text.contains("tls.pem"), "{text}");
    let (good, text) = output(&["serve"]);
    assert!(!good && text.contains("tls.pem"), "{text}");
}
