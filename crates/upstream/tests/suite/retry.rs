//! What is sent a second time, and what is not.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use portico_upstream::{Failure, Timing, Upstream, UpstreamConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::fixture::{Fake, GOOD, ask, config, post, read_request, upstream, whole, with_method};

/// A target that reads a request, says this much, and hangs up.
async fn hanging_up(said: &'static [u8]) -> Fake {
    Fake::start(move |mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(said).await.unwrap();
    })
    .await
}

#[tokio::test]
async fn a_get_and_a_head_go_to_another_target_once() {
    for method in [Method::GET, Method::HEAD] {
        let (bad, worse, good) = (hanging_up(b"").await, hanging_up(b"").await, Fake::keeping(GOOD).await);
        let upstream = upstream(&[bad.target(), good.target()]);
        let answer = upstream.send(with_method(method.clone())).await.unwrap();
        assert_eq!(&answer.target, good.target().name());
        assert_eq!(whole(answer).await.unwrap(), if method == Method::GET { "good" } else { "" });
        assert_eq!((bad.connections(), good.connections()), (1, 1));

        let upstream = self::upstream(&[bad.target(), worse.target(), good.target()]);
        let failure = upstream.send(with_method(method)).await.unwrap_err();
        assert!(
            matches!(&failure, Failure::Unanswered { target } if target == worse.target().name()),
            "{failure}"
        );
        assert_eq!((bad.connections(), worse.connections(), good.connections()), (2, 1, 1));
    }
}

#[tokio::test]
async fn there_is_no_second_try_at_the_same_target() {
    let bad = hanging_up(b"").await;
    let failure = ask(&upstream(&[bad.target()])).await.unwrap_err();
    assert!(matches!(failure, Failure::Unanswered { .. }), "{failure}");
    assert_eq!(bad.connections(), 1);
}

#[tokio::test]
async fn nothing_else_is_sent_twice() {
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
        let (bad, good) = (hanging_up(b"").await, Fake::keeping(GOOD).await);
        let failure = upstream(&[bad.target(), good.target()]).send(with_method(method)).await.unwrap_err();
        assert!(matches!(failure, Failure::Unanswered { .. }), "{failure}");
        let failure = upstream(&[Fake::dead().await, good.target()]).send(post("a")).await.unwrap_err();
        assert!(matches!(failure, Failure::Connect { .. }), "{failure}");
        assert_eq!(good.connections(), 0);
    }
}

#[tokio::test]
async fn a_byte_of_an_answer_is_enough() {
    for said in [&b"H"[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"] {
        let (bad, good) = (hanging_up(said).await, Fake::keeping(GOOD).await);
        let failure = ask(&upstream(&[bad.target(), good.target()])).await.unwrap_err();
        assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}");
        assert_eq!(good.connections(), 0);
    }
}

#[tokio::test]
async fn a_get_with_a_body_is_sent_once() {
    let (bad, good) = (hanging_up(b"").await, Fake::keeping(GOOD).await);
    let request = Request::get("/").body(Full::new(Bytes::from("body"))).unwrap();
    let failure = upstream(&[bad.target(), good.target()]).send(request).await.unwrap_err();
    assert!(matches!(failure, Failure::Unanswered { .. }), "{failure}");
    assert_eq!(good.connections(), 0);
}

/// Nothing of the request was written, so it may go over a new connection whatever it is.
#[tokio::test]
async fn a_connection_that_was_closed_while_it_waited_costs_nothing() {
    let (sender, mut closed) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, at| {
        let sender = sender.clone();
        async move {
            read_request(&mut stream).await;
            stream.write_all(GOOD).await.unwrap();
            if at == 0 {
                drop(stream);
                sender.send(()).unwrap();
            } else {
                let _ = stream.read_u8().await;
            }
        }
    })
    .await;
    let upstream = upstream(&[fake.target()]);
    assert_eq!(whole(upstream.send(post("a")).await.unwrap()).await.unwrap(), "good");
    closed.recv().await.unwrap();
    // The reactor hears of it.
    tokio::task::yield_now().await;
    assert_eq!(whole(upstream.send(post("a")).await.unwrap()).await.unwrap(), "good");
    assert_eq!(fake.connections(), 2);
}

/// It may have come before the target said that: whoever took it for an answer would give one caller's to another.
#[tokio::test]
async fn what_a_target_says_unasked_is_no_answer() {
    let (sender, mut said) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, at| {
        let sender = sender.clone();
        async move {
            read_request(&mut stream).await;
            stream.write_all(GOOD).await.unwrap();
            if at == 0 {
                // As a server that answers a HEAD with a body, or more than it announced.
                sender.send(()).unwrap();
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await.unwrap();
                sender.send(()).unwrap();
            }
            let _ = stream.read_u8().await;
        }
    })
    .await;
    let upstream = upstream(&[fake.target()]);
    assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    for _ in 0..2 {
        said.recv().await.unwrap();
    }
    tokio::task::yield_now().await;
    assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    assert_eq!(fake.connections(), 2);
}

#[tokio::test]
async fn a_connection_is_kept_as_long_as_both_want() {
    for (answer, idle, connections) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 4, 1),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=60, max=100\r\n\r\n", 4, 1),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=1\r\n\r\n", 4, 2),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x, Close\r\n\r\n", 4, 2),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", 4, 2),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", 4, 2),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n", 4, 1),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0, 2),
    ] {
        let fake = Fake::keeping(answer.as_bytes()).await;
        let timing = Timing { idle: std::time::Duration::from_secs(idle), ..Timing::default() };
        let upstream = Upstream::new(UpstreamConfig { timing, ..config(&[fake.target()]) }).unwrap();
        for _ in 0..2 {
            assert_eq!(ask(&upstream).await.unwrap().unwrap(), "");
        }
        assert_eq!(fake.connections(), connections, "{answer:?}");
    }
}
