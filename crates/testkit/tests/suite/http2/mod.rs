//! HTTP/2: the same answers and refusals as over HTTP/1, and clients that want to hurt.

pub(crate) mod client;

use futures_util::future::join_all;
use http::HeaderMap;
use portico::Environment;
use portico_gateway::ConnectionSettings;
use portico_kernel::Code;
use portico_testkit::{Answer, Database, TestApp, TestAppOptions, TestServer, soon};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use client::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2Client, PING, PREFACE, PRIORITY,
    RST_STREAM, RawClient, SETTINGS, WINDOW_UPDATE, fields, frame, get, head,
};

const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

async fn serve() -> TestServer {
    TestServer::new(TestApp::new(Database::Sqlite).await).await
}

/// Is a request on a new connection answered?
async fn goes_on(served: &TestServer) {
    let client = Http2Client::connect(served.address).await;
    assert_eq!(client.call("GET", "/healthz", &[], b"").await.unwrap().status, 200);
}

/// The same request over HTTP/1.
async fn over_http1(
    served: &TestServer,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let fields: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\n{}\r\n",
        body.len(),
        fields.concat()
    );
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    let mut bytes = Vec::new();
    soon("an answer", stream.read_to_end(&mut bytes)).await.unwrap();
    Answer::from_wire(&bytes).unwrap()
}

/// The headers that do not belong to the connection.
fn lasting(mut headers: HeaderMap) -> HeaderMap {
    // What is left of the minute is one less each time.
    for name in ["connection", "date", "x-ratelimit-remaining"] {
        headers.remove(name);
    }
    headers
}

/// Method, path, headers and body of a request, and the status of its answer.
type AskedRequest<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a [u8], u16);

#[tokio::test]
async fn answers_and_refusals_are_those_of_http_1() {
    let served = serve().await;
    let things = served.app.things();
    let bearer = format!("Bearer {}", served.app.token);
    let known = ("authorization", bearer.as_str());
    let json = ("content-type", "application/json");
    let large = vec![b' '; 70 << 10];
    let many: Vec<_> = std::iter::repeat_n(("x", "y"), 101).collect();
    let long = "y".repeat(66 << 10);
    let client = Http2Client::connect(served.address).await;
    let requests: [AskedRequest<'_>; 17] = [
        ("GET", "/healthz", &[], b"", 200),
        ("GET", "/openapi.json", &[], b"", 200),
        ("HEAD", "/openapi.json", &[], b"", 200),
        ("GET", "/v1/me", &[known], b"", 200),
        ("GET", "/v1/me?x=1", &[known], b"", 400),
        ("GET", "/v1/me", &[], b"", 401),
        ("GET", "/v1/me", &[("authorization", "Bearer x")], b"", 401),
        ("GET", "/nowhere", &[], b"", 404),
        ("DELETE", "/v1/me", &[known], b"", 405),
        ("OPTIONS", "/v1/me", &[], b"", 405),
        ("POST", &things, &[known], b"{\"name\":1}", 415),
        ("POST", &things, &[known, json], b"{\"name\":1}", 400),
        ("POST", &things, &[known, json], b"{", 400),
        ("POST", &things, &[known, json], &large, 400),
        ("GET", "/v1/socket", &[known], b"", 400),
        ("GET", "/v1/me", &many, b"", 400),
        ("GET", "/v1/me", &[("x", &long)], b"", 400),
    ];
    for (method, path, headers, body, status) in requests {
        let headers = [headers, &[("x-request-id", "same")]].concat();
        let answer = client.call(method, path, &headers, body).await.unwrap();
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        if method == "HEAD" || headers.len() > 100 || headers.iter().any(|(_, value)| value.len() > 1_000) {
            // The library refuses these heads over HTTP/1 before the request has an id.
            continue;
        }
        let before = over_http1(&served, method, path, &headers, body).await;
        assert_eq!(answer.status, before.status, "{method} {path}");
        assert_eq!(answer.body, before.body, "{method} {path}");
        assert_eq!(lasting(answer.headers), lasting(before.headers), "{method} {path}");
    }
}

#[tokio::test]
async fn a_write_happens_once() {
    let served = serve().await;
    let client = Http2Client::connect(served.address).await;
    let bearer = format!("Bearer {}", served.app.token);
    let headers =
        [("authorization", &*bearer), ("content-type", "application/json"), ("idempotency-key", "a")];
    let body = json!({ "name": "a" }).to_string();
    let things = served.app.things();
    let call = || client.call("POST", &things, &headers, body.as_bytes());
    let first = call().await.unwrap();
    let second = call().await.unwrap();
    assert_eq!(first.ok(), second.ok());
    assert_eq!(second.header("idempotency-replayed"), "true");
    // A body that its operation does not read ends with its stream, and not with the connection.
    let unread = client.call("POST", "/nowhere", &[], &vec![b'x'; 200_000]).await;
    assert!(unread.is_ok_and(|answer| answer.status == 404));
    assert_eq!(call().await.unwrap().status, 200);
}

#[tokio::test]
async fn a_thousand_calls_share_a_connection() {
    let served = serve().await;
    let client = Http2Client::connect(served.address).await;
    let bearer = format!("Bearer {}", served.app.token);
    let headers = [("authorization", &*bearer)];
    let calls = (0..1_000).map(|_| client.call("GET", "/v1/me", &headers, b""));
    for answer in join_all(calls).await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[tokio::test]
async fn streams_of_events_and_calls_share_a_connection() {
    let served = serve().await;
    let client = Http2Client::connect(served.address).await;
    let bearer = format!("Bearer {}", served.app.token);
    let mut streams = Vec::new();
    for _ in 0..30 {
        let request = http::Request::get("http://test/v1/events/stream").header("authorization", &bearer);
        let mut send = client.0.clone().ready().await.unwrap();
        let (answer, _) = send.send_request(request.body(()).unwrap(), true).unwrap();
        let answer = soon("a stream", answer).await.unwrap();
        assert_eq!(answer.status(), 200);
        streams.push(answer.into_body());
    }
    served.make("one").await;
    for stream in &mut streams {
        let mut text = String::new();
        while !text.contains("\"thing_id\":\"one\"") {
            let piece = soon("an event", stream.data()).await.unwrap().unwrap();
            stream.flow_control().release_capacity(piece.len()).unwrap();
            text.push_str(str::from_utf8(&piece).unwrap());
        }
    }
    let me = client.call("GET", "/v1/me", &[("authorization", &bearer)], b"").await.unwrap();
    assert_eq!(me.status, 200);
    let engine = served.app.app.engine.clone();
    let drained = soon("that streams are ended", served.app.app.connections.drain(&engine));
    let ((), ends) = tokio::join!(
        drained,
        join_all(streams.iter_mut().map(async |stream| {
            while let Some(Ok(piece)) = soon("the end", stream.data()).await {
                let _ = stream.flow_control().release_capacity(piece.len());
            }
        }))
    );
    assert_eq!(ends.len(), 30);
}

#[tokio::test]
async fn a_server_that_stops_says_so() {
    let served = serve().await;
    let mut client = RawClient::connect(served.address).await;
    client.settle().await;
    served.stop.send_replace(true);
    assert_eq!(client.next_of(GOAWAY).await.unwrap().error(), 0);
    assert_eq!(client.ended().await, None);
    soon("the end of the server", served.server).await.unwrap();
}

#[tokio::test]
async fn who_is_refused_again_and_again_is_told_to_go() {
    let served = serve().await;
    let mut client = RawClient::connect(served.address).await;
    for number in 0..99 {
        assert!(client.send(&get(number * 2 + 1, "/v1/me")).await);
        client.next_of(DATA).await.unwrap();
    }
    assert!(client.send(&get(199, "/v1/me")).await);
    let (mut answered, mut told) = (false, false);
    while !answered || !told {
        let frame = client.next().await.unwrap();
        answered |= (frame.kind, frame.stream) == (DATA, 199);
        told |= frame.kind == GOAWAY && frame.error() == 0;
    }
    // It does not listen, and goes on.
    assert!(client.send(&get(201, "/healthz")).await);
    let refused = client.next_of(RST_STREAM).await.unwrap();
    assert_eq!((refused.stream, refused.error()), (201, REFUSED_STREAM));
    client.ended().await;
    goes_on(&served).await;
}

/// The head of a request whose body never comes.
fn endless(stream: u32) -> Vec<u8> {
    let inbox = "/v1/webhooks/inboxes/inb_00000000000000000000000000/receive";
    frame(HEADERS, END_HEADERS, stream, &head("POST", inbox))
}

#[tokio::test]
async fn strangers_have_few_requests_handled_at_once() {
    let served = serve().await;
    let mut client = RawClient::connect(served.address).await;
    let requests = (0..4).flat_map(|number| endless(number * 2 + 1)).chain(get(9, "/healthz"));
    assert!(client.send(&requests.collect::<Vec<_>>()).await);
    for _ in 0..3 {
        let before = client.settle().await;
        assert!(!before.iter().any(|frame| frame.stream != 0), "{before:?}");
    }
    assert!(client.send(&frame(DATA, END_STREAM, 1, b"x")).await);
    let mut answered = Vec::new();
    while answered.len() < 2 {
        answered.push(client.next_of(HEADERS).await.unwrap().stream);
    }
    assert_eq!(answered, [1, 9]);
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_and_too_many_of_them_end_the_connection() {
    let served = serve().await;
    let mut client = RawClient::connect(served.address).await;
    let some: Vec<_> = (0..110).flat_map(|number| endless(number * 2 + 1)).collect();
    assert!(client.send(&some).await);
    for number in 100..110 {
        let refused = client.next_of(RST_STREAM).await.unwrap();
        assert_eq!((refused.stream, refused.error()), (number * 2 + 1, REFUSED_STREAM));
    }
    let many: Vec<_> = (110..4_000).flat_map(|number| endless(number * 2 + 1)).collect();
    client.send(&many).await;
    assert_eq!(client.ended().await, Some(ENHANCE_YOUR_CALM));
    goes_on(&served).await;
}

#[tokio::test]
async fn requests_that_are_reset_at_once_end_the_connection() {
    let served = serve().await;
    let reset = |number: u32| {
        let cancel = frame(RST_STREAM, 0, number * 2 + 1, &[0, 0, 0, 8]);
        [get(number * 2 + 1, "/healthz"), cancel].concat()
    };
    let mut client = RawClient::connect(served.address).await;
    client.send(&(0..10_000).flat_map(reset).collect::<Vec<_>>()).await;
    client.ended().await;
    // One after the other, each when the one before was seen: too slow for what the library counts.
    let mut client = RawClient::connect(served.address).await;
    let mut number = 0;
    loop {
        let stream = number * 2 + 1;
        assert!(client.send(&endless(stream)).await);
        if client.settle().await.iter().any(|frame| frame.kind == GOAWAY) {
            break;
        }
        assert!(client.send(&frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])).await);
        number += 1;
        assert!(number < 1_000, "it is never told to go");
    }
    assert!(number >= 100, "{number}");
    goes_on(&served).await;
}

#[tokio::test]
async fn heads_that_never_end_or_grow_beyond_measure_end_the_connection() {
    let served = serve().await;
    let part = fields(0, &[("x", &"y".repeat(16_000))]);
    for part in [&[][..], &part] {
        let mut client = RawClient::connect(served.address).await;
        client.send(&frame(HEADERS, 0, 1, &head("GET", "/healthz"))).await;
        let continuation = frame(CONTINUATION, 0, 1, part);
        while client.send(&continuation).await {}
        client.ended().await;
    }
    // A field in the table of the server, and after it a byte for each time that it is meant again.
    let mut bomb = head("GET", "/healthz");
    bomb.extend(fields(0x40, &[("x", &"y".repeat(4_000))]));
    bomb.resize(16_000, 0x80 | 0x3e);
    let mut client = RawClient::connect(served.address).await;
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)).await;
    assert_eq!(client.ended().await, Some(ENHANCE_YOUR_CALM));
    goes_on(&served).await;
}

#[tokio::test]
async fn floods_of_frames_that_carry_nothing_end_the_connection() {
    let served = serve().await;
    let floods = [
        frame(PING, 0, 0, b"12345678"),
        frame(PING, ACK, 0, b"12345678"),
        frame(SETTINGS, 0, 0, &[]),
        frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(DATA, 0, 1, &[]),
        frame(0xbe, 0, 0, &[]),
    ];
    join_all(floods.map(async |flood| {
        let mut client = RawClient::connect(served.address).await;
        client.send(&endless(1)).await;
        let flood = flood.repeat(1_000);
        while soon("the end of the connection", client.send(&flood)).await {}
        client.ended().await;
    }))
    .await;
    goes_on(&served).await;
}

#[tokio::test]
async fn what_is_not_the_protocol_is_refused_in_its_words() {
    let served = serve().await;
    for wrong in [
        frame(DATA, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 2, &head("GET", "/healthz")),
        frame(SETTINGS, 0, 1, &[]),
        frame(PING, 0, 0, &[]),
        frame(CONTINUATION, END_HEADERS, 1, &[]),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 20]),
        frame(HEADERS, END_HEADERS, 1, &fields(0, &[("X", "upper case")])),
        vec![0xff; 100],
    ] {
        let mut client = RawClient::connect(served.address).await;
        client.send(&wrong).await;
        assert!(client.ended().await.is_some_and(|error| error != 0), "{wrong:?}");
    }
    // What is wrong with one request ends that alone.
    for wrong in [
        fields(0, &[(":method", "GET"), (":scheme", "http"), (":path", "/healthz"), ("connection", "close")]),
        fields(0, &[(":scheme", "http"), (":path", "/healthz")]),
    ] {
        let mut client = RawClient::connect(served.address).await;
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &wrong)).await;
        assert_eq!(client.next_of(RST_STREAM).await.unwrap().stream, 1);
        client.send(&get(3, "/healthz")).await;
        assert_eq!(client.next_of(HEADERS).await.unwrap().stream, 3);
    }
    // A host is named over HTTP/2, too.
    let mut client = RawClient::connect(served.address).await;
    let nowhere = fields(0, &[(":method", "GET"), (":scheme", "http"), (":path", "/healthz")]);
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &nowhere)).await;
    let body = client.next_of(DATA).await.unwrap().payload;
    let refusal = serde_json::from_slice::<serde_json::Value>(&body).unwrap();
    assert_eq!(refusal["code"], Code::BadRequest.name());
}

#[tokio::test]
async fn half_a_preface_is_worth_no_more_than_silence() {
    let connections = ConnectionSettings { total: 20, per_network: 20, ..ConnectionSettings::default() };
    let environment = Environment { connections, ..Environment::default() };
    let options = TestAppOptions { environment, ..TestAppOptions::default() };
    let served = TestServer::new(TestApp::with(Database::Sqlite, options).await).await;
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(&PREFACE[..10]).await.unwrap();
        halves.push(stream);
    }
    let mut whole = Vec::new();
    for _ in 0..19 {
        whole.push(RawClient::connect(served.address).await);
    }
    goes_on(&served).await;
    for mut half in halves {
        let _ = soon("the end of the connection", half.read_to_end(&mut Vec::new())).await;
    }
    // One that begins like the preface, and is something else.
    let answer = over_http1(&served, "PRIZE", "/healthz", &[], b"").await;
    assert_eq!(answer.status, 405);
}
