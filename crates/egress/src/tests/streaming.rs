//! Answers that are read as they come.

use rustls::pki_types::CertificateDer;

use super::*;

fn call(url: &str) -> StreamingRequest<'_> {
    let (headers, body) = (HeaderMap::new(), Bytes::new());
    StreamingRequest { url, method: Method::GET, headers, body, time: LIMITS.time }
}

/// An answer that tells each of its pieces when it is told to, and never ends.
async fn dripping(mut stream: impl AsyncRead + AsyncWrite + Unpin, mut drops: mpsc::Receiver<&str>) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    while let Some(drop) = drops.recv().await {
        stream.write_all(format!("{:x}\r\n{drop}\r\n", drop.len()).as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
}

#[tokio::test]
async fn pieces_come_one_by_one_also_over_tls() {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
    let egress = Egress::with_roots(roots, LOOPBACK.parse().unwrap(), Resolver::of_system());
    for secure in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (say, drops) = mpsc::channel(1);
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            if secure {
                dripping(localhost_tls().accept(stream).await.unwrap(), drops).await;
            } else {
                dripping(stream, drops).await;
            }
        });
        let url = format!("{}://localhost:{port}/", if secure { "https" } else { "http" });
        let mut response = egress.open(call(&url)).await.unwrap();
        assert_eq!(response.headers["content-type"], "text/event-stream");
        for piece in ["one", "two"] {
            assert_eq!(
                response.chunk(SHORT.time).await,
                Err(EgressError::Timeout),
                "it has not been said yet"
            );
            say.send(piece).await.unwrap();
            assert_eq!(response.chunk(LIMITS.time).await.unwrap().unwrap(), piece);
        }
        drop(say);
        assert_eq!(
            response.chunk(LIMITS.time).await,
            Err(EgressError::Connection),
            "it ended without an end"
        );
    }
}

#[tokio::test]
async fn method_headers_and_body_arrive_and_the_rest_is_bounded() {
    let mut receiver = receiver::Receiver::saying("HTTP/1.1 404 No\r\ncontent-length: 5\r\n\r\nhello").await;
    let (egress, url) = (egress(LOOPBACK), receiver.url());
    let patch = || {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/plain"))]);
        StreamingRequest { method: Method::PATCH, headers, body: Bytes::from_static(b"{}"), ..call(&url) }
    };
    let response = egress.open(patch()).await.unwrap();
    assert_eq!(response.status, StatusCode::NOT_FOUND);
    assert_eq!(response.read_to_end(LIMITS).await.unwrap(), "hello");
    let (_, request) = receiver.requests.recv().await.unwrap();
    assert!(request.starts_with("PATCH /hook?a=b HTTP/1.1\r\n") && request.ends_with("\r\n\r\n{}"));
    for line in ["accept: text/plain\r\n", "content-length: 2\r\n", "connection: close\r\n"] {
        assert!(request.contains(line), "{line} in {request}");
    }
    let response = egress.open(patch()).await.unwrap();
    assert_eq!(response.read_to_end(Limits { bytes: 4, ..LIMITS }).await, Err(EgressError::TooLarge));
}

#[tokio::test]
async fn what_must_not_be_called_is_not_opened_either() {
    let server = Server::saying("HTTP/1.1 200 OK\r\n\r\n").await;
    for allow in ["", "10.0.0.0/8"] {
        let response = egress(allow).open(call(&server.url())).await;
        assert_eq!(response.map(|response| response.status).unwrap_err(), EgressError::Blocked);
    }
    assert_eq!(server.calls(), 0);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let response = egress(LOOPBACK).open(StreamingRequest { time: SHORT.time, ..call(&url) }).await;
    assert_eq!(response.map(|response| response.status).unwrap_err(), EgressError::Timeout);
}
