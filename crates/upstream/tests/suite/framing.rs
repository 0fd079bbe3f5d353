//! Answers that can be understood in two ways, or that are not whole.

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Collected};
use hyper_util::rt::TokioIo;
use portico_upstream::Failure;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::fixture::{Fake, SOON, ask, counted, read_request, upstream, whole, with_method};

/// Heads that nobody may believe. Each is followed by what would be a whole answer.
const BROKEN_HEADS: [&str; 33] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4, 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4,\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: +4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 0x4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length : 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: xchunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding:\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: \"chunked\"\r\n\r\n",
    "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\ncontent-length: 4\n\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\n",
    "HTTP/1.1 200 OK\r\nx: a\rcontent-length: 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx: a\r\n content-length: 4\r\n\r\n",
    "HTTP/1.1 200 OK\r\n x: a\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
    "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    "HTTP/1.1 200 OK\r\n: no name\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 600 OK\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
];

/// Bodies in chunks that are not.
const BROKEN_CHUNKS: [&str; 22] = [
    "",
    "4",
    "4\r\nbo",
    "4\r\nbody\r\n",
    "4\r\nbody\r\n0",
    "4\r\nbody\r\n0\r\n",
    "4\r\nbody\r\n0\r\nx: y\r\n",
    "4\nbody\n0\n\n",
    "4\r\nbody0\r\n\r\n",
    "3\r\nbody\r\n0\r\n\r\n",
    "5\r\nbody\r\n0\r\n\r\n",
    "x\r\nbody\r\n0\r\n\r\n",
    "-4\r\nbody\r\n0\r\n\r\n",
    "0x4\r\nbody\r\n0\r\n\r\n",
    " 4\r\nbody\r\n0\r\n\r\n",
    "4\r\r\nbody\r\n0\r\n\r\n",
    "4\x0b\r\nbody\r\n0\r\n\r\n",
    "4;a\rb\r\nbody\r\n0\r\n\r\n",
    "4 4\r\nbody\r\n0\r\n\r\n",
    "00000000000000004\r\nbody\r\n0\r\n\r\n",
    "4\r\nbody\r\n0\r\nx: y\n\r\n",
    "4\r\nbody\r\n0\r\n folded: y\r\n\r\n",
];

#[tokio::test]
async fn a_head_that_can_be_understood_in_two_ways_is_none() {
    for head in BROKEN_HEADS {
        for body in ["body", "4\r\nbody\r\n0\r\n\r\n"] {
            let fake = Fake::saying(format!("{head}{body}")).await;
            let failure = ask(&upstream(&[fake.target()])).await.expect_err(head);
            assert!(matches!(failure, Failure::BrokenHead { .. }), "{head:?}: {failure}");
        }
    }
}

#[tokio::test]
async fn a_chunk_that_is_none_breaks_the_answer_off() {
    for chunks in BROKEN_CHUNKS {
        let fake =
            Fake::saying(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")).await;
        let upstream = upstream(&[fake.target()]);
        ask(&upstream).await.unwrap().expect_err(chunks);
        assert_eq!(counted(&upstream).1, 0);
    }
}

#[tokio::test]
async fn nothing_endless_is_kept() {
    let long = "a".repeat(1 << 20);
    let many = "a: b\r\n".repeat(200);
    for head in [
        format!("HTTP/1.1 200 OK\r\nx: {long}\r\ncontent-length: 4\r\n\r\nbody"),
        format!("HTTP/1.1 200 {long}\r\ncontent-length: 4\r\n\r\nbody"),
        format!("HTTP/1.1 200 OK\r\n{many}content-length: 4\r\n\r\nbody"),
        "HTTP/1.1 102 Processing\r\n\r\n".repeat(10_000),
        format!("HTTP/1.1 {long}"),
    ] {
        let fake = Fake::saying(head).await;
        let failure = ask(&upstream(&[fake.target()])).await.unwrap_err();
        assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}");
    }
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for body in [
        format!("4;{long}\r\nbody\r\n0\r\n\r\n"),
        format!("4\r\nbody\r\n0\r\nx: {long}\r\n\r\n"),
        format!("4\r\nbody\r\n0\r\n{many}\r\n"),
        format!("4\r\nbody\r\n0\r\n{}\r\n", "x: y\r\n".repeat(100_000)),
    ] {
        let fake = Fake::saying(format!("{chunked}{body}")).await;
        ask(&upstream(&[fake.target()])).await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn an_answer_that_can_be_understood_passes() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody", "body"),
        ("HTTP/1.1 200 OK\r\nContent-Length:   0004  \r\n\r\nbody", "body"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody and more", "body"),
        ("HTTP/1.1 200\r\ncontent-length: 4\r\n\r\nbody", "body"),
        ("HTTP/1.1 200 \r\ncontent-length: 4\r\n\r\nbody", "body"),
        ("HTTP/1.1 200 \u{fc}ber\r\ncontent-length: 4\r\nx:\r\ny: \u{fc}\t.\r\n\r\nbody", "body"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", "body"),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0004;a\r\nbody\r\n000;b=\"c\"\r\n\r\n",
            "body",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nbody", "body"),
        ("HTTP/1.0 200 OK\r\n\r\nbody", "body"),
        ("HTTP/1.1 200 OK\r\n\r\n", ""),
        ("HTTP/1.1 204 No Content\r\n\r\nbody", ""),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\n", ""),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nx: y\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody",
            "body",
        ),
        ("HTTP/1.1 599 Own\r\ncontent-length: 4\r\n\r\nbody", "body"),
    ] {
        let fake = Fake::saying(answer).await;
        let body = ask(&upstream(&[fake.target()])).await.expect(answer);
        assert_eq!(body.expect(answer), expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_head_request_hears_the_length_and_no_body() {
    for (answer, said) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx: y\r\n\r\n", Some("4")),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx: y\r\n\r\n", None),
        ("HTTP/1.1 200 OK\r\nx: y\r\n\r\n", None),
    ] {
        let fake = Fake::keeping(answer.as_bytes()).await;
        let upstream = upstream(&[fake.target()]);
        for _ in 0..2 {
            let answer = upstream.send(with_method(Method::HEAD)).await.unwrap();
            assert_eq!(answer.response.headers()["x"], "y");
            let length = answer.response.headers().get("content-length");
            assert_eq!(length.map(|length| length.to_str().unwrap()), said);
            assert_eq!(whole(answer).await.unwrap(), "");
        }
        assert_eq!(fake.connections(), 1);
    }
}

/// Whole answers, of which none may be whole once something is missing at their end.
const FRAMED: [&str; 4] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 12\r\nx: y\r\n\r\ntwelve bytes",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nc\r\ntwelve bytes\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\ntwelve\r\n6;e=f\r\n bytes\r\n0\r\nx: y\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\ncontent-length: 12\r\n\r\ntwelve bytes",
];

/// Is this said on one connection taken for a whole answer? Any end must come soon.
async fn is_whole(said: Bytes) -> Option<Bytes> {
    let fake = Fake::saying(said).await;
    let upstream = upstream(&[fake.target()]);
    let answer = timeout(SOON, ask(&upstream)).await.unwrap();
    assert_eq!(counted(&upstream).1, 0);
    answer.ok()?.ok()
}

#[tokio::test]
async fn an_answer_that_lacks_its_end_is_never_whole() {
    for framed in FRAMED {
        assert_eq!(is_whole(framed.into()).await.unwrap(), "twelve bytes");
        for end in 0..framed.len() {
            assert_eq!(is_whole(framed[..end].into()).await, None, "{:?}", &framed[..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a target says, the call ends; and what we take for whole, a widely used client takes for the same.
    #[test]
    fn every_answer_has_an_end(
        which in 0..FRAMED.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..PARTS.len(), 0..4_usize), 1..4),
    ) {
        let mut said = FRAMED[which].as_bytes().to_vec();
        for (at, part, replaced) in changes {
            let at = at.index(said.len() + 1);
            said.splice(at..(at + replaced).min(said.len()), PARTS[part].bytes());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = Bytes::from(said);
        let ours = runtime.block_on(is_whole(said.clone()));
        if ours.is_some() {
            prop_assert_eq!(ours, runtime.block_on(is_whole_for_hyper(said)));
        }
    }
}

/// What changes matter.
const PARTS: [&str; 12] = [
    "\r\n",
    "\r",
    "\n",
    " ",
    ":",
    ";",
    "0",
    "f",
    "content-length: 3\r\n",
    "transfer-encoding: chunked\r\n",
    "HTTP/1.1 ",
    "\r\n\r\n",
];

async fn is_whole_for_hyper(said: Bytes) -> Option<Bytes> {
    let (client, mut target) = tokio::io::duplex(1 << 16);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
    tokio::spawn(connection);
    tokio::spawn(async move {
        read_request(&mut target).await;
        let _ = target.write_all(&said).await;
    });
    let answer = sender.send_request(crate::fixture::get()).await.ok()?;
    answer.into_body().collect().await.ok().map(Collected::to_bytes)
}
