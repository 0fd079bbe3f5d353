//! Bodies as they come, in both directions.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, StreamBody};
use portico_upstream::{AnswerError, Failure, UNITS, units};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::fixture::{Fake, SHORT, SOON, ask, counted, get, read_request, upstream, whole};

const PIECE: usize = 64 << 10;
static SEVENS: [u8; PIECE] = [7; PIECE];
const PIECES: usize = 1024;
/// The system's buffers on both sides, and ours, hold less.
const HELD_MAX: usize = 24 << 20;

/// A body of many pieces, which counts those that were asked for.
struct Pieces {
    left: usize,
    taken: Arc<AtomicUsize>,
    is_sized: bool,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.taken.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&SEVENS)))))
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_sized { SizeHint::with_exact((self.left * PIECE) as u64) } else { SizeHint::default() }
    }
}

/// Bytes that come one after the other, when the test sends them.
fn channel()
-> (mpsc::UnboundedSender<&'static str>, impl Body<Data = Bytes, Error = Infallible> + Unpin + Send) {
    let (sender, receiver) = mpsc::unbounded_channel::<&str>();
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        let piece = receiver.recv().await?;
        Some((Ok(Frame::data(Bytes::from_static(piece.as_bytes()))), receiver))
    });
    (sender, StreamBody::new(Box::pin(pieces)))
}

#[tokio::test]
async fn an_upload_waits_for_its_target() {
    for is_sized in [true, false] {
        let reading = Arc::new(Semaphore::new(0));
        let (sender, mut totals) = mpsc::unbounded_channel();
        let fake = Fake::start({
            let reading = reading.clone();
            move |mut stream, _| {
                let (reading, sender) = (reading.clone(), sender.clone());
                async move {
                    reading.acquire().await.unwrap().forget();
                    let (mut total, mut buf, mut tail) = (0, vec![0; PIECE], Vec::new());
                    while !tail.ends_with(b"\x07\x07\r\n0\r\n\r\n") && total < PIECES * PIECE {
                        let read = stream.read(&mut buf).await.unwrap();
                        total += buf[..read].iter().map(|byte| usize::from(*byte == 7)).sum::<usize>();
                        tail.extend_from_slice(&buf[..read]);
                        tail.drain(..tail.len().saturating_sub(16));
                    }
                    sender.send(total).unwrap();
                    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                    let _ = stream.read_u8().await;
                }
            }
        })
        .await;
        let taken = Arc::new(AtomicUsize::new(0));
        let body = Pieces { left: PIECES, taken: taken.clone(), is_sized };
        let upstream = upstream(&[fake.target()]);
        let mut call = Box::pin(upstream.send(Request::post("/").body(body).unwrap()));
        assert!(timeout(SHORT, &mut call).await.is_err());
        let held = taken.load(Ordering::SeqCst) * PIECE;
        assert!((1..HELD_MAX).contains(&held), "{held}");
        reading.add_permits(1);
        assert_eq!(timeout(SOON, call).await.unwrap().unwrap().response.status(), 204);
        assert_eq!((totals.recv().await, taken.load(Ordering::SeqCst)), (Some(PIECES * PIECE), PIECES));
    }
}

#[tokio::test]
async fn an_answer_waits_for_its_caller() {
    let written = Arc::new(AtomicUsize::new(0));
    let fake = Fake::start({
        let written = written.clone();
        move |mut stream, _| {
            let written = written.clone();
            async move {
                while read_request(&mut stream).await.is_some() {
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", PIECES * PIECE);
                    stream.write_all(head.as_bytes()).await.unwrap();
                    for _ in 0..PIECES {
                        if stream.write_all(&SEVENS).await.is_err() {
                            return;
                        }
                        written.fetch_add(PIECE, Ordering::SeqCst);
                    }
                }
            }
        }
    })
    .await;
    let upstream = upstream(&[fake.target()]);
    let mut answer = upstream.send(get()).await.unwrap();
    assert_eq!(answer.response.body().size_hint().exact(), Some((PIECES * PIECE) as u64));
    let first = answer.response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(timeout(SHORT, std::future::pending::<()>()).await.is_err());
    assert!(written.load(Ordering::SeqCst) < HELD_MAX);
    let mut total = first.len();
    while let Some(frame) = answer.response.body_mut().frame().await {
        let data = frame.unwrap().into_data().unwrap();
        assert!(data.len() <= 2 * PIECE && data.iter().all(|byte| *byte == 7));
        total += data.len();
    }
    assert_eq!((total, counted(&upstream)), (PIECES * PIECE, ([0, 1, 0, 0, 0, 0], 0)));
    // The connection is of use again.
    upstream.send(get()).await.unwrap();
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn both_directions_go_on_at_once() {
    let fake = Fake::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let (mut reading, mut writing) = stream.split();
        let _ = tokio::io::copy(&mut reading, &mut writing).await;
    })
    .await;
    let (sender, body) = channel();
    let upstream = upstream(&[fake.target()]);
    let mut answer = upstream.send(Request::post("/").body(body).unwrap()).await.unwrap();
    for text in ["one", "two", "three"] {
        sender.send(text).unwrap();
        let mut echo = Vec::new();
        while !echo.ends_with(format!("{text}\r\n").as_bytes()) {
            let frame = timeout(SOON, answer.response.body_mut().frame()).await.unwrap().unwrap().unwrap();
            echo.extend_from_slice(&frame.into_data().unwrap());
        }
    }
    drop(sender);
    let rest = timeout(SOON, answer.response.body_mut().frame()).await.unwrap().unwrap().unwrap();
    assert_eq!(rest.into_data().unwrap(), "0\r\n\r\n");
}

#[tokio::test]
async fn a_target_may_refuse_a_body_that_it_has_not_read() {
    for is_closing in [false, true] {
        let (sender, mut ended) = mpsc::unbounded_channel();
        let fake = Fake::start(move |mut stream, _| {
            let sender = sender.clone();
            async move {
                let mut head = [0; 16];
                stream.read_exact(&mut head).await.unwrap();
                let answer = b"HTTP/1.1 413 Too Much\r\ncontent-length: 4\r\n\r\nmuch";
                stream.write_all(answer).await.unwrap();
                if is_closing {
                    stream.shutdown().await.unwrap();
                }
                // The rest of the request is cut off.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                sender.send(()).unwrap();
            }
        })
        .await;
        let (pieces, body) = channel();
        pieces.send("the first of many").unwrap();
        let upstream = upstream(&[fake.target()]);
        let answer = upstream.send(Request::post("/").body(body).unwrap()).await.unwrap();
        assert_eq!(answer.response.status(), 413);
        assert_eq!(whole(answer).await.unwrap(), "much");
        timeout(SOON, ended.recv()).await.unwrap().unwrap();
        assert!(timeout(SOON, pieces.closed()).await.is_ok());
        assert_eq!(counted(&upstream), ([0, 0, 0, 1, 0, 0], 0));
    }
}

/// What the target reads of a request, whole or not.
async fn reading_all() -> (Fake, mpsc::UnboundedReceiver<String>) {
    let (sender, read) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, _| {
        let sender = sender.clone();
        async move {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).await;
            sender.send(String::from_utf8(all).unwrap()).unwrap();
        }
    })
    .await;
    (fake, read)
}

#[tokio::test]
async fn a_request_that_breaks_off_is_cut_for_the_target() {
    let (fake, mut read) = reading_all().await;
    let body = StreamBody::new(stream::iter([Ok(Frame::data(Bytes::from("half"))), Err("gone")]));
    let upstream = upstream(&[fake.target()]);
    let failure = upstream.send(Request::post("/").body(body).unwrap()).await.unwrap_err();
    assert!(matches!(failure, Failure::RequestBroke { .. }), "{failure}");
    let all = read.recv().await.unwrap();
    assert!(!all.ends_with("0\r\n\r\n"), "{all}");
}

#[tokio::test]
async fn a_request_that_breaks_off_during_the_answer_ends_both() {
    let fake = Fake::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let (sender, receiver) = mpsc::unbounded_channel::<&str>();
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        let next = receiver.recv().await.ok_or("gone");
        Some((next.map(|piece| Frame::data(Bytes::from(piece))), receiver))
    });
    let body = StreamBody::new(Box::pin(pieces));
    let upstream = upstream(&[fake.target()]);
    let answer = upstream.send(Request::post("/").body(body).unwrap()).await.unwrap();
    drop(sender);
    assert_eq!(whole(answer).await.unwrap_err(), AnswerError::RequestBroke);
    assert_eq!(counted(&upstream).1, 0);
}

#[tokio::test]
async fn a_body_that_lies_about_its_length_is_no_request() {
    /// Says one thing and does another.
    struct Liar(usize, u64);
    impl Body for Liar {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let data = std::mem::take(&mut self.0);
            Poll::Ready((data > 0).then(|| Ok(Frame::data(Bytes::from(vec![b'a'; data])))))
        }
        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.1)
        }
    }
    for (real, said) in [(3, 4), (5, 4), (0, 4), (100_000, 4)] {
        let (fake, mut read) = reading_all().await;
        let upstream = upstream(&[fake.target()]);
        let failure = upstream.send(Request::post("/").body(Liar(real, said)).unwrap()).await.unwrap_err();
        assert!(matches!(failure, Failure::RequestBroke { .. }), "{failure}");
        let all = read.recv().await.unwrap();
        assert!(!all.ends_with("aaaa"), "{all}");
    }
}

#[tokio::test]
async fn trailers_come_behind_the_body() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;ext=\"a\"\r\nabc\r\n2  \r\nde\r\n\
                  0\r\nPortico-Units: 12\r\nx-sum: 5 \r\n\r\n";
    // In one piece, and byte by byte.
    for step in [1, answer.len()] {
        let fake = Fake::start(move |mut stream, _| async move {
            while read_request(&mut stream).await.is_some() {
                for piece in answer.as_bytes().chunks(step) {
                    stream.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        })
        .await;
        let upstream = upstream(&[fake.target()]);
        for _ in 0..2 {
            let answer = upstream.send(get()).await.unwrap();
            assert!(!answer.response.headers().contains_key("transfer-encoding"));
            let body = answer.response.into_body().collect().await.unwrap();
            let trailers = body.trailers().unwrap();
            assert_eq!(
                (units(trailers), &trailers[UNITS], &trailers["x-sum"]),
                (Some(12), &"12".parse().unwrap(), &"5".parse().unwrap())
            );
            assert_eq!(body.to_bytes(), "abcde");
        }
        assert_eq!((fake.connections(), counted(&upstream).1), (1, 0));
    }
}

#[tokio::test]
async fn the_call_ends_with_its_last_byte() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    ] {
        let fake = Fake::keeping(answer.as_bytes()).await;
        let upstream = upstream(&[fake.target()]);
        let mut answer = upstream.send(get()).await.unwrap();
        assert!(!answer.response.body().is_end_stream());
        assert_eq!(answer.response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "body");
        assert!(answer.response.body().is_end_stream());
        assert_eq!(counted(&upstream).1, 0);
        ask(&upstream).await.unwrap().unwrap();
        assert_eq!(fake.connections(), 1);
    }
}

#[tokio::test]
async fn events_come_one_by_one() {
    let (sender, receiver) = mpsc::unbounded_channel::<&str>();
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let fake = Fake::start(move |mut stream, _| {
        let receiver = receiver.clone();
        async move {
            read_request(&mut stream).await;
            let head =
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await.unwrap();
            while let Some(event) = receiver.lock().await.recv().await {
                stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await.unwrap();
            }
            stream.write_all(b"0\r\n\r\n").await.unwrap();
            let _ = stream.read_u8().await;
        }
    })
    .await;
    let mut answer = upstream(&[fake.target()]).send(get()).await.unwrap();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.send(event).unwrap();
        let frame = timeout(SOON, answer.response.body_mut().frame()).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), event);
    }
    drop(sender);
    assert!(answer.response.body_mut().frame().await.is_none());
}
