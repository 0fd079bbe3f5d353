//! The edge over real sockets: what never reaches a handler, and how connections end.

use portico_kernel::Code;
use portico_testkit::{Answer, Database, TestApp, TestServer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn serve() -> TestServer {
    TestServer::new(TestApp::new(Database::Sqlite).await).await
}

fn parse(bytes: &[u8]) -> Answer {
    Answer::from_wire(bytes).unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(bytes)))
}

/// Writes `bytes` and reads until the server closes.
async fn talk(served: &TestServer, bytes: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    parse(&answer)
}

#[tokio::test]
async fn what_is_not_http_gets_the_envelope_all_the_same() {
    let served = serve().await;
    for garbage in [
        &b"NOT HTTP AT ALL\r\n\r\n"[..],
        b"GET /v1/me HTTP/9.9\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nbad header line\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n",
        b"POST /v1/me HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /v1/me HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
        b"POST /v1/me HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/me HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\nhost: a\n\n",
        b"GET /healthz HTTP/1.1\r\nhost: a\nconnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /\x01 HTTP/1.1\r\n\r\n",
    ] {
        let answer = talk(&served, garbage).await;
        answer.refused(Code::BadRequest);
    }
    let many = format!("GET /v1/me HTTP/1.1\r\n{}\r\n", "x-a: b\r\n".repeat(500));
    talk(&served, many.as_bytes()).await.refused(Code::BadRequest);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    talk(&served, long.as_bytes()).await.refused(Code::BadRequest);
}

/// Everything that the server answers to `bytes`, which are sent in pieces of that size.
async fn answers_to(served: &TestServer, bytes: &[u8], piece: usize) -> String {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in bytes.chunks(piece) {
        // The server may have closed already.
        if stream.write_all(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut answers = Vec::new();
    // Or even reset the connection, after its answer.
    let _ = stream.read_to_end(&mut answers).await;
    String::from_utf8_lossy(&answers).into_owned()
}

#[tokio::test]
async fn nothing_is_smuggled_behind_a_request() {
    let served = serve().await;
    let good = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let post = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n",
        served.app.things(),
        served.app.token
    );
    let chunked = format!("{post}transfer-encoding: chunked\r\n\r\n");
    let whole = format!("{chunked}c;a=b\r\n{{\"name\":\"a\"}}\r\n0\r\nx: y\r\n\r\n");
    let counted = format!("{post}content-length: 12\r\n\r\n{{\"name\":\"\n\"}}");
    for bad in [
        // In the head of a request, behind others on the same connection.
        format!("{post}content-length: 12\r\ncontent-length: 12\r\n\r\n{{\"name\":\"a\"}}"),
        format!("{post}content-length: 12\r\nx: y\r\nContent-Length: 12\r\n\r\n{{\"name\":\"a\"}}"),
        format!("{post}transfer-encoding: chunked\r\ncontent-length: 12\r\n\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}transfer-encoding: chunked\r\n identity\r\n\r\n0\r\n\r\n"),
        format!("{post}content-length:\r\n 12\r\n\r\n{{\"name\":\"a\"}}"),
        format!("{post}content-length : 12\r\n\r\n{{\"name\":\"a\"}}"),
        format!("{post}content-length: 12\n\r\n{{\"name\":\"a\"}}"),
        format!("{post}transfer-encoding: chunked\r\n\n0\r\n\r\n"),
        // In a body.
        format!("{chunked}c\n{{\"name\":\"a\"}}\r\n0\r\n\r\n"),
        format!("{chunked}c;a\n{{\"name\":\"a\"}}\r\n0\r\n\r\n"),
        format!("{chunked}{}c;a=b\r\n{{\"name\":\"a\"}}\r\n0\r\n\r\n", "0".repeat(70)),
        format!("{chunked}c;{good}\r\n"),
        format!("{chunked}c\r\n{{\"name\":\"a\"}}\n0\r\n\r\n"),
        format!("{chunked}c\r\n{{\"name\":\"a\"}}\r\n0\r\nx: y\n\r\n"),
    ] {
        for before in ["", good, &whole, &counted] {
            let sent = [before, &bad, good].concat();
            for piece in [1, 7, sent.len()] {
                let answers = answers_to(&served, sent.as_bytes(), piece).await;
                // The sentence of a refusal names the protocol, too.
                let statuses = answers.split("HTTP/1.1 ").filter_map(|rest| rest.get(..3));
                let statuses: Vec<_> = statuses.filter(|status| status.parse::<u16>().is_ok()).collect();
                let last = statuses.last().copied();
                assert_eq!(statuses.len(), 1 + usize::from(!before.is_empty()), "{bad:?}: {answers}");
                assert_eq!(last, Some("400"), "{bad:?}: {answers}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_arrives_although_the_body_was_not_read() {
    let served = serve().await;
    let body = vec![b'x'; 6 << 20];
    for (path, code) in [
        ("/v1/nothing", Code::NotFound),
        ("/v1/me", Code::MethodNotAllowed),
        (&served.app.things(), Code::Unauthenticated),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
        let answer = talk(&served, &[head.as_bytes(), &body].concat()).await;
        answer.refused(code);
        assert_eq!(answer.header("connection"), "close");
    }
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n",
        served.app.things(),
        served.app.token
    );
    let declared = format!("{head}content-length: {}\r\n\r\n", body.len());
    talk(&served, &[declared.as_bytes(), &body].concat()).await.refused(Code::PayloadTooLarge);
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len());
    talk(&served, &[chunked.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat())
        .await
        .refused(Code::PayloadTooLarge);
}

#[tokio::test]
async fn a_request_names_one_host() {
    let served = serve().await;
    for head in [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a@b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        parse(&answer[..read]).refused(Code::BadRequest);
    }
    talk(&served, b"GET /healthz HTTP/1.0\r\n\r\n").await.ok();
}

#[tokio::test]
async fn a_chunked_body_that_was_read_leaves_the_connection_open() {
    let served = serve().await;
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n",
        served.app.things(),
        served.app.token
    );
    let one =
        format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n{{\"nam\r\n7\r\ne\":\"a\"}}\r\n0\r\n\r\n");
    let last = one.replacen("host: a", "host: a\r\nconnection: close", 1);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all([one.repeat(2), last].concat().as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 200 OK").count(), 3);
}

#[tokio::test]
async fn a_stranger_cannot_hold_a_stopping_server() {
    let served = serve().await;
    let mut half_a_head = TcpStream::connect(served.address).await.unwrap();
    half_a_head.write_all(b"GET /heal").await.unwrap();
    let mut half_a_body = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{",
        served.app.things(),
        served.app.token
    );
    half_a_body.write_all(head.as_bytes()).await.unwrap();
    // Both are known to be connected once a third, later one has been answered.
    talk(&served, b"GET /healthz HTTP/1.0\r\n\r\n").await.ok();
    let watch = portico_engine::clock::Stopwatch::start();
    served.stop.send_replace(true);
    served.server.await.unwrap();
    assert!(
        watch.elapsed() < std::time::Duration::from_secs(20),
        "it would have been held for half a minute"
    );
}

#[tokio::test]
async fn a_refused_body_is_not_asked_for() {
    let served = serve().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\nexpect: 100-continue\r\n\r\n",
        served.app.things()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.unwrap();
    parse(&answer[..read]).refused(Code::Unauthenticated);
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let served = serve().await;
    let request =
        format!("GET /v1/me HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\n\r\n", served.app.token);
    let last = format!(
        "GET /v1/me HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer {}\r\n\r\n",
        served.app.token
    );
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all([request.repeat(9), last].concat().as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answers).matches("HTTP/1.1 200 OK").count(), 10);
}

#[tokio::test]
async fn calls_under_way_end_when_the_server_stops() {
    let served = serve().await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    let mut busy = TcpStream::connect(served.address).await.unwrap();
    let body = json!({ "name": "wait", "id": "late" }).to_string();
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        served.app.things(),
        served.app.token,
        body.len()
    );
    busy.write_all(request.as_bytes()).await.unwrap();
    served.app.lab.waiting.notified().await;
    served.stop.send_replace(true);
    let mut nothing = Vec::new();
    idle.read_to_end(&mut nothing).await.unwrap();
    assert!(nothing.is_empty(), "an idle connection is closed");
    assert!(!served.server.is_finished(), "the call under way holds the server");
    served.app.lab.go_on.notify_one();
    let mut answer = Vec::new();
    busy.read_to_end(&mut answer).await.unwrap();
    assert_eq!(parse(&answer).ok()["thing"]["id"], "late");
    served.server.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody listens any more");
}
