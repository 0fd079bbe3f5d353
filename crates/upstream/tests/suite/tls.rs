//! Targets behind TLS, and behind sockets of the system.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use portico_egress::TrustedRoots;
use portico_upstream::{Failure, Target, Upstream, UpstreamConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Fake, GOOD, ask, config, get, post, read_request, upstream, whole};

/// Speaks TLS with a certificate for this name, and the roots with which it is believed.
fn acceptor(name: &str, protocols: &[&[u8]]) -> (TlsAcceptor, TrustedRoots) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([name.to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root.pem");
    std::fs::write(&file, cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der()).into();
    let mut tls =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    (Arc::new(tls).into(), TrustedRoots::read(&file).unwrap())
}

fn target(fake: &Fake) -> Target {
    Target::parse(&format!("https://localhost:{}", fake.address.port())).unwrap()
}

fn believing(fake: &Fake, roots: TrustedRoots) -> Arc<Upstream> {
    Upstream::new(UpstreamConfig { roots, ..config(&[target(fake)]) }).unwrap()
}

/// A target that speaks HTTP/1.1 behind TLS, and says this to each request.
async fn saying(acceptor: TlsAcceptor, answer: &'static [u8], closes: bool) -> Fake {
    Fake::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            while read_request(&mut stream).await.is_some() {
                stream.write_all(answer).await.unwrap();
                stream.flush().await.unwrap();
                if closes {
                    // Not as TLS ends, but as a crash does.
                    return;
                }
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_target_behind_tls_is_asked() {
    for protocols in [&[&b"http/1.1"[..]][..], &[]] {
        let (acceptor, roots) = acceptor("localhost", protocols);
        let fake = saying(acceptor, GOOD, false).await;
        let upstream = believing(&fake, roots);
        for _ in 0..3 {
            assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
        }
        let large = upstream.send(post(vec![b'a'; 1 << 20])).await.unwrap();
        assert_eq!(whole(large).await.unwrap(), "good");
        assert_eq!(fake.connections(), 1);
    }
}

#[tokio::test]
async fn a_target_behind_tls_chooses_http2() {
    let (acceptor, roots) = acceptor("localhost", &[b"h2", b"http/1.1"]);
    let fake = Fake::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                assert_eq!(request.uri().scheme_str(), Some("https"));
                let mut stream = respond.send_response(Response::new(()), false).unwrap();
                stream.send_data(Bytes::from("good"), true).unwrap();
            }
        }
    })
    .await;
    let upstream = believing(&fake, roots);
    for _ in 0..3 {
        assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    }
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn a_target_that_cannot_prove_its_name_is_not_asked() {
    let (of_another, roots) = acceptor("elsewhere.example", &[]);
    let (unknown, _) = acceptor("localhost", &[]);
    for (acceptor, roots) in [(of_another, roots), (unknown, TrustedRoots::default())] {
        let fake = saying(acceptor, GOOD, false).await;
        let failure = ask(&believing(&fake, roots)).await.unwrap_err();
        assert!(matches!(failure, Failure::Connect { .. }), "{failure}");
    }
}

#[tokio::test]
async fn a_target_that_speaks_no_tls_is_not_asked() {
    let fake = Fake::start(|mut stream, _| async move {
        let _ = stream.write_all(GOOD).await;
        let _ = stream.read_u8().await;
    })
    .await;
    let failure = ask(&believing(&fake, TrustedRoots::default())).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect { .. }), "{failure}");
}

/// Without its end in TLS, somebody on the way may have cut the answer off.
#[tokio::test]
async fn an_answer_without_a_length_ends_as_tls_does() {
    let (acceptor, roots) = acceptor("localhost", &[]);
    let fake = saying(acceptor, b"HTTP/1.1 200 OK\r\n\r\nhalf", true).await;
    ask(&believing(&fake, roots)).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_socket_of_the_system_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("invoices.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hosts = Vec::new();
        for _ in 0..2 {
            hosts.push(read_request(&mut stream).await.unwrap().contains("\r\nhost: localhost\r\n"));
            stream.write_all(GOOD).await.unwrap();
        }
        hosts
    });
    let upstream = upstream(&[Target::parse(&format!("unix:{}", path.display())).unwrap()]);
    let answer = upstream.send(get()).await.unwrap();
    assert_eq!(&*answer.target, format!("unix:{}", path.display()));
    assert_eq!(whole(answer).await.unwrap(), "good");
    assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    assert_eq!(serving.await.unwrap(), [true, true]);
    let failure = ask(&self::upstream(&[Target::parse("unix:/nowhere").unwrap()])).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect { .. }), "{failure}");
}
