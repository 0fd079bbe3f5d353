//! How an answer is understood must not depend on the pieces in which it comes.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request};
use http_body_util::{Empty, Full};
use proptest::prelude::*;

use super::body::{Decoded, Decoder};
use super::head::HeadReader;
use super::*;

/// A status, a body, and what came behind it.
type Understood = (u16, Vec<u8>, Option<HeaderMap>);

/// Reads an answer that comes in pieces of this size, and then the end of the connection.
fn understood(said: &[u8], step: usize) -> Result<Understood, &'static str> {
    let (mut buf, mut reader) = (BytesMut::new(), HeadReader::default());
    let mut body: Option<(u16, Framing, Decoder)> = None;
    let mut read = Vec::new();
    for piece in said.chunks(step) {
        buf.extend_from_slice(piece);
        if body.is_none() {
            let head = reader.read(&mut buf, Asked::default())?;
            body = head.map(|head| (head.status.as_u16(), head.framing, Decoder::new(head.framing)));
        }
        while let Some((status, _, decoder)) = &mut body {
            match decoder.decode(&mut buf)? {
                Decoded::NeedsMore => break,
                Decoded::Data(data) => read.extend_from_slice(&data),
                Decoded::End(trailers) => return Ok((*status, read, trailers)),
            }
        }
    }
    match body {
        Some((status, Framing::UntilClose, _)) => Ok((status, read, None)),
        _ => Err("it is not whole"),
    }
}

/// Answers whose changes lead into every corner.
const ANSWERS: [&str; 5] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 12\r\nx: y\r\n\r\ntwelve bytes",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nc\r\ntwelve bytes\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\ntwelve\r\n6 ;e=f\r\n bytes\r\n0\r\nx: y\r\nz: \r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nx: y\r\n\r\nHTTP/1.0 503 No\r\nconnection: close\r\n\r\ntwelve",
    "HTTP/1.1 304 Not Modified\r\ncontent-length: 12\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
];
/// What changes matter.
const PARTS: [&str; 14] = [
    "\r\n",
    "\r",
    "\n",
    "\0",
    " ",
    "\t",
    ":",
    ";",
    "0",
    "f",
    "content-length: 3\r\n",
    "transfer-encoding: chunked\r\n",
    "HTTP/1.1 ",
    "\r\n\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_make_no_difference(
        which in 0..ANSWERS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..PARTS.len(), 0..4_usize), 0..4),
        step in 1..9_usize,
    ) {
        let mut said = ANSWERS[which].as_bytes().to_vec();
        for (at, part, replaced) in changes {
            let at = at.index(said.len() + 1);
            said.splice(at..(at + replaced).min(said.len()), PARTS[part].bytes());
        }
        let whole = understood(&said, said.len().max(1));
        for step in [1, step] {
            let pieces = understood(&said, step);
            prop_assert_eq!(whole.is_err(), pieces.is_err(), "{:?} {:?}", whole, pieces);
            if whole.is_ok() {
                prop_assert_eq!(&whole, &pieces);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is taken from a body ends up whole and in order, however little the connection takes at once.
    #[test]
    fn a_request_is_written_whole(length in 0..40_000_usize, room in 1..5_000_usize) {
        let body: Bytes = (0..=u8::MAX).cycle().take(length).collect();
        let (parts, body) = Request::post("/a?b").header("x", "y").body(Full::new(body)).unwrap().into_parts();
        let mut sent = body.clone();
        let mut writer = Writer::new(&parts, &"host".parse().unwrap(), &sent, false);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let written = runtime.block_on(async {
            let (mut io, mut target) = tokio::io::duplex(room);
            let reading = tokio::spawn(async move {
                let mut read = Vec::new();
                tokio::io::AsyncReadExt::read_to_end(&mut target, &mut read).await.unwrap();
                read
            });
            std::future::poll_fn(|cx| writer.poll(cx, &mut io, &mut sent)).await.unwrap();
            drop(io);
            reading.await.unwrap()
        });
        prop_assert_eq!(writer.written(), written.len() as u64);
        prop_assert!(writer.is_done());
        let body = runtime.block_on(http_body_util::BodyExt::collect(body)).unwrap().to_bytes();
        let head = format!(
            "POST /a?b HTTP/1.1\r\nhost: host\r\nx: y\r\nte: trailers\r\nconnection: te\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        prop_assert!(written == [head.as_bytes(), &body].concat());
    }
}

#[test]
fn a_request_without_a_body_says_so_where_one_is_usual() {
    for (method, says) in
        [(Method::GET, false), (Method::DELETE, false), (Method::POST, true), (Method::PUT, true)]
    {
        let (parts, body) =
            Request::builder().method(&method).body(Empty::<Bytes>::new()).unwrap().into_parts();
        let writer = Writer::new(&parts, &"a".parse().unwrap(), &body, false);
        let expected = format!(
            "{method} / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n{}\r\n",
            if says { "content-length: 0\r\n" } else { "" }
        );
        assert_eq!(writer.gathered(), expected.as_bytes());
    }
}
