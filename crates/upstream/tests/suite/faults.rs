//! Targets that fail in every way there is.

use std::time::Duration;

use http::Method;
use portico_upstream::{AnswerError, Failure, Target};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

use crate::fixture::{
    Fake, GOOD, SHORT, SOON, ask, counted, get, hasty, post, read_request, upstream, whole, with_method,
};

/// Ends the connection as a crash does.
fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
}

#[tokio::test]
async fn a_good_target_is_asked_and_its_connection_used_again() {
    let (sender, mut heads) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, _| {
        let sender = sender.clone();
        async move {
            while let Some(head) = read_request(&mut stream).await {
                sender.send(head).unwrap();
                stream.write_all(GOOD).await.unwrap();
            }
        }
    })
    .await;
    let upstream = upstream(&[fake.target()]);
    for _ in 0..3 {
        assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
    }
    let answer = upstream.send(post("a body")).await.unwrap();
    assert_eq!(&answer.target, fake.target().name());
    assert_eq!(whole(answer).await.unwrap(), "good");
    assert_eq!((fake.connections(), counted(&upstream)), (1, ([0, 4, 0, 0, 0, 0], 0)));
    let expected = "GET /v1/invoices?a=b HTTP/1.1\r\nhost: 127.0.0.1:";
    assert!(heads.recv().await.unwrap().starts_with(expected));
    for _ in 0..2 {
        heads.recv().await.unwrap();
    }
    let sent = heads.recv().await.unwrap();
    assert!(sent.starts_with("POST /v1/invoices HTTP/1.1\r\n"), "{sent}");
    assert!(sent.ends_with("\r\ncontent-length: 6\r\n\r\na body"), "{sent}");
}

#[tokio::test]
async fn what_frames_a_request_is_its_body_alone() {
    let (sender, mut heads) = mpsc::unbounded_channel();
    let fake = Fake::start(move |mut stream, _| {
        let sender = sender.clone();
        async move {
            sender.send(read_request(&mut stream).await.unwrap()).unwrap();
            let _ = stream.write_all(GOOD).await;
        }
    })
    .await;
    let mut request = post("abc");
    for (name, value) in [
        ("content-length", "99"),
        ("transfer-encoding", "chunked"),
        ("host", "elsewhere"),
        ("connection", "close"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    upstream(&[fake.target()]).send(request).await.unwrap();
    let expected = format!(
        "POST /v1/invoices HTTP/1.1\r\nhost: {}\r\nte: trailers\r\nconnection: te\r\ncontent-length: 3\r\n\r\nabc",
        fake.address
    );
    assert_eq!(heads.recv().await.unwrap(), expected);
}

#[tokio::test]
async fn nobody_listens() {
    let upstream = upstream(&[Fake::dead().await]);
    let failure = ask(&upstream).await.unwrap_err();
    assert!(matches!(failure, Failure::Connect { .. }), "{failure}");
    assert_eq!(counted(&upstream), ([0, 0, 0, 0, 0, 1], 0));
}

#[tokio::test]
async fn a_target_that_hangs_is_too_slow_and_no_other_is_asked() {
    for method in [Method::GET, Method::POST] {
        let hanging = Fake::start(|mut stream, _| async move {
            read_request(&mut stream).await;
            stream.read_u8().await.unwrap_err();
        })
        .await;
        let other = Fake::keeping(GOOD).await;
        let upstream = hasty(&[hanging.target(), other.target()]);
        let failure = timeout(SOON, upstream.send(with_method(method))).await.unwrap().unwrap_err();
        assert!(
            matches!(&failure, Failure::TimedOut { target } if target == hanging.target().name()),
            "{failure}"
        );
        assert_eq!((other.connections(), counted(&upstream)), (0, ([0, 0, 0, 0, 0, 1], 0)));
    }
}

#[tokio::test]
async fn a_target_that_takes_nothing_is_too_slow() {
    let hanging = Fake::start(|stream, _| async move {
        // Nothing is read, and the connection stays.
        let _stream = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let failure =
        timeout(SOON, hasty(&[hanging.target()]).send(post(vec![0; 64 << 20]))).await.unwrap().unwrap_err();
    assert!(matches!(failure, Failure::TimedOut { .. }), "{failure}");
}

#[tokio::test]
async fn a_head_that_comes_in_drops_has_the_same_time_as_any() {
    for (pause, is_in_time) in [(1, true), (20, false)] {
        let fake = Fake::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            let mut turns = interval(Duration::from_millis(pause));
            for byte in GOOD {
                turns.tick().await;
                if stream.write_u8(*byte).await.is_err() {
                    return;
                }
            }
            let _ = stream.read_u8().await;
        })
        .await;
        let upstream = if is_in_time { upstream(&[fake.target()]) } else { hasty(&[fake.target()]) };
        match ask(&upstream).await {
            Ok(body) => assert_eq!((body.unwrap(), is_in_time), ("good".into(), true)),
            Err(failure) => assert!(matches!(failure, Failure::TimedOut { .. }) && !is_in_time, "{failure}"),
        }
    }
}

#[tokio::test]
async fn a_body_that_comes_in_drops_has_all_the_time_it_needs() {
    let fake = Fake::start(|mut stream, _| async move {
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n").await.unwrap();
        let mut turns = interval(SHORT / 4);
        for byte in *b"drip" {
            turns.tick().await;
            turns.tick().await;
            stream.write_all(&[byte, b'.']).await.unwrap();
        }
    })
    .await;
    assert_eq!(ask(&hasty(&[fake.target()])).await.unwrap().unwrap(), "d.r.i.p.");
}

#[tokio::test]
async fn half_a_head_is_none() {
    let fake = Fake::saying(&b"HTTP/1.1 200 OK\r\ncontent-le"[..]).await;
    let failure = ask(&upstream(&[fake.target()])).await.unwrap_err();
    assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}");
}

#[tokio::test]
async fn garbage_is_refused_at_once() {
    for garbage in [
        &b"\0\x01\x02"[..],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"<html>",
        b"HTTP/2 200\r\n\r\n",
        b"\r\nHTTP/1.1 200",
    ] {
        let fake = Fake::start(move |mut stream, _| async move {
            read_request(&mut stream).await;
            stream.write_all(garbage).await.unwrap();
            // It does not hang up, so that only what it said can be why.
            let _ = stream.read_u8().await;
        })
        .await;
        let failure = ask(&upstream(&[fake.target()])).await.unwrap_err();
        assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_ends_with_an_error() {
    for answer in ["content-length: 8\r\n\r\nhalf", "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        for is_reset in [false, true] {
            let fake = Fake::start(move |mut stream, _| async move {
                read_request(&mut stream).await;
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{answer}").as_bytes()).await.unwrap();
                if is_reset { reset(stream) } else { drop(stream) }
            })
            .await;
            let upstream = upstream(&[fake.target()]);
            match ask(&upstream).await {
                Ok(body) => assert_eq!(body.unwrap_err(), AnswerError::BrokeOff),
                // A reset may overtake what was said before it.
                Err(failure) => assert!(is_reset && failure.target().is_some(), "{failure}"),
            }
            assert_eq!(counted(&upstream).1, 0);
        }
    }
}

#[tokio::test]
async fn one_bad_target_of_three_spoils_no_get() {
    let good = [Fake::keeping(GOOD).await, Fake::keeping(GOOD).await];
    let closing = Fake::start(|mut stream, _| async move {
        read_request(&mut stream).await;
    })
    .await;
    for bad in [Fake::dead().await, closing.target()] {
        let targets: [Target; 3] = [good[0].target(), bad, good[1].target()];
        let upstream = upstream(&targets);
        for _ in 0..60 {
            assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
        }
        let figures = upstream.figures();
        assert_eq!((figures[1].classes, figures[1].is_left_out), ([0, 0, 0, 0, 0, 5], true));
        assert_eq!(figures[0].classes[1] + figures[2].classes[1], 60);
    }
}

#[tokio::test]
async fn a_caller_who_leaves_ends_the_call_at_the_target() {
    for has_answered in [false, true] {
        let (sender, mut ended) = mpsc::unbounded_channel();
        let fake = Fake::start(move |mut stream, _| {
            let sender = sender.clone();
            async move {
                read_request(&mut stream).await;
                if has_answered {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nfirst").await.unwrap();
                }
                sender.send("asked").unwrap();
                stream.read_u8().await.unwrap_err();
                sender.send("left").unwrap();
            }
        })
        .await;
        let upstream = upstream(&[fake.target()]);
        let calling = upstream.clone();
        let mut call = Box::pin(async move { calling.send(get()).await });
        let answer = tokio::select! {
            answer = &mut call => Some(answer.unwrap()),
            asked = ended.recv(), if !has_answered => {
                assert_eq!(asked, Some("asked"));
                None
            }
        };
        assert_eq!((answer.is_some(), counted(&upstream).1), (has_answered, 1));
        drop((answer, call));
        let next = async { while ended.recv().await.unwrap() != "left" {} };
        timeout(Duration::from_secs(1), next).await.unwrap();
        // Nothing was shown about the target.
        assert_eq!(counted(&upstream), ([0, u64::from(has_answered), 0, 0, 0, 0], 0));
    }
}
