//! Targets that speak HTTP/2.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Method, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, StreamBody};
use portico_upstream::{AnswerError, Failure, units};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fixture::{Fake, GOOD, SHORT, SOON, ask, counted, get, hasty, post, upstream, whole, with_method};

/// A target that handles each request so, at once with the others.
async fn serving<F, S>(handle: F) -> Fake
where
    F: Fn(Request<RecvStream>, SendResponse<Bytes>) -> S + Clone + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    Fake::start(move |stream, _| serve(stream, handle.clone())).await
}

async fn serve<F, S>(stream: TcpStream, handle: F)
where
    F: Fn(Request<RecvStream>, SendResponse<Bytes>) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(handle(request, respond));
    }
}

/// Says this, with an end or without.
fn say(respond: &mut SendResponse<Bytes>, response: Response<()>, body: &'static str) {
    let mut stream = respond.send_response(response, false).unwrap();
    stream.send_data(Bytes::from(body), true).unwrap();
}

async fn good() -> Fake {
    serving(|_, mut respond| async move { say(&mut respond, Response::new(()), "good") }).await
}

#[tokio::test]
async fn calls_share_a_connection() {
    let (sender, mut requests) = mpsc::unbounded_channel();
    let fake = serving(move |request, mut respond| {
        let sender = sender.clone();
        async move {
            let (head, mut body) = request.into_parts();
            let mut read = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                read.extend_from_slice(&data);
            }
            sender.send((head, read)).unwrap();
            say(&mut respond, Response::new(()), "good");
        }
    })
    .await;
    let upstream = upstream(&[fake.target_of("h2c")]);
    let mut request = post("a body");
    for (name, value) in [
        ("host", "elsewhere"),
        ("connection", "close"),
        ("content-length", "9"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "1"),
        ("proxy-connection", "close"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("x", "y"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    assert_eq!(whole(upstream.send(request).await.unwrap()).await.unwrap(), "good");
    let (head, body) = requests.recv().await.unwrap();
    assert_eq!(body, b"a body");
    assert_eq!(
        (head.method, head.uri.to_string()),
        (Method::POST, format!("http://{}/v1/invoices", fake.address))
    );
    let mut names: Vec<_> =
        head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    names.sort_unstable();
    assert_eq!(names, [("content-length", "6"), ("te", "trailers"), ("x", "y")]);
    let calls = futures_util::future::join_all((0..50).map(|_| ask(&upstream))).await;
    assert!(calls.into_iter().all(|body| body.unwrap().unwrap() == "good"));
    assert_eq!((fake.connections(), counted(&upstream)), (1, ([0, 51, 0, 0, 0, 0], 0)));
}

#[tokio::test]
async fn more_calls_than_a_connection_takes_get_another() {
    let fake = Fake::start(|stream, _| async move {
        let mut connection: Connection<_, Bytes> =
            h2::server::Builder::new().max_concurrent_streams(10).handshake(stream).await.unwrap();
        let mut open = Vec::new();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            open.push(respond.send_response(Response::new(()), false).unwrap());
        }
    })
    .await;
    let upstream = upstream(&[fake.target_of("h2c")]);
    let mut answers = Vec::new();
    for _ in 0..15 {
        answers.push(timeout(SOON, upstream.send(get())).await.unwrap().unwrap());
    }
    assert_eq!((fake.connections(), counted(&upstream).1), (2, 15));
    // At once, and before the target has said how many it takes.
    let upstream = self::upstream(&[fake.target_of("h2c")]);
    let calls = futures_util::future::join_all((0..40).map(|_| upstream.send(get())));
    let answers = timeout(SOON, calls).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(counted(&upstream).1, 40);
}

#[tokio::test]
async fn trailers_come_behind_the_body() {
    let fake = serving(|_, mut respond| async move {
        let mut stream = respond.send_response(Response::new(()), false).unwrap();
        stream.send_data("body".into(), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("portico-units", 7.into());
        stream.send_trailers(trailers).unwrap();
    })
    .await;
    let upstream = upstream(&[fake.target_of("h2c")]);
    let body = upstream.send(get()).await.unwrap().response.into_body().collect().await.unwrap();
    assert_eq!((units(body.trailers().unwrap()), body.to_bytes()), (Some(7), "body".into()));
    assert_eq!(counted(&upstream).1, 0);
}

#[tokio::test]
async fn an_answer_that_is_given_up_is_never_whole() {
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::NO_ERROR] {
        for length in [None, Some(8)] {
            let fake = serving(move |_, mut respond| async move {
                let mut response = Response::new(());
                if let Some(length) = length {
                    response.headers_mut().insert("content-length", length.into());
                }
                let mut stream = respond.send_response(response, false).unwrap();
                stream.send_data("half".into(), false).unwrap();
                // What was said before is on its way.
                stream.reserve_capacity(1 << 20);
                std::future::poll_fn(|cx| stream.poll_capacity(cx)).await;
                tokio::task::yield_now().await;
                stream.send_reset(reason);
            })
            .await;
            match ask(&upstream(&[fake.target_of("h2c")])).await {
                Ok(body) => assert_eq!(body.unwrap_err(), AnswerError::BrokeOff),
                Err(failure) => assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}"),
            }
        }
    }
}

#[tokio::test]
async fn heads_that_nobody_may_believe_are_none() {
    let long = "y".repeat(60 << 10);
    for (status, name, values) in [
        (200, "content-length", &["4", "4"][..]),
        (200, "content-length", &["+4"]),
        (200, "content-length", &["5"]),
        (200, "x", &["y"; 200]),
        (200, "x", &[long.as_str(); 3]),
        (700, "x", &["y"]),
        (101, "x", &["y"]),
    ] {
        let values: Vec<_> = values.iter().map(|value| (*value).to_owned()).collect();
        let fake = serving(move |_, mut respond| {
            let values = values.clone();
            async move {
                let mut response = Response::new(());
                *response.status_mut() = status.try_into().unwrap();
                for value in &values {
                    response.headers_mut().append(name, value.parse().unwrap());
                }
                if let Ok(mut stream) = respond.send_response(response, false) {
                    let _ = stream.send_data("good".into(), true);
                }
            }
        })
        .await;
        let answer = timeout(SOON, ask(&upstream(&[fake.target_of("h2c")]))).await.unwrap();
        assert!(!matches!(answer, Ok(Ok(_))), "{status} {name}");
    }
}

#[tokio::test]
async fn a_target_that_leaves_in_order_loses_no_call() {
    let fake = Fake::start(|stream, _| async move {
        let mut connection: Connection<_, Bytes> = h2::server::handshake(stream).await.unwrap();
        // One call a connection, and then it says that it goes.
        if let Some(Ok((_, mut respond))) = connection.accept().await {
            say(&mut respond, Response::new(()), "good");
            connection.graceful_shutdown();
        }
        while connection.accept().await.is_some() {}
    })
    .await;
    let upstream = upstream(&[fake.target_of("h2c")]);
    for _ in 0..10 {
        let answer = timeout(SOON, upstream.send(post("a"))).await.unwrap().unwrap();
        assert_eq!(whole(answer).await.unwrap(), "good");
    }
    assert_eq!(counted(&upstream).0, [0, 10, 0, 0, 0, 0]);
}

#[tokio::test]
async fn what_a_target_has_not_looked_at_is_sent_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let fake = serving({
        let asked = asked.clone();
        move |_, mut respond| {
            let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if is_first {
                    respond.send_reset(Reason::REFUSED_STREAM);
                } else {
                    say(&mut respond, Response::new(()), "good");
                }
            }
        }
    })
    .await;
    let upstream = upstream(&[fake.target_of("h2c")]);
    let answer = upstream.send(with_method(Method::DELETE)).await.unwrap();
    assert_eq!(whole(answer).await.unwrap(), "good");
    assert_eq!((asked.load(Ordering::SeqCst), counted(&upstream).0), (2, [0, 1, 0, 0, 0, 0]));
}

#[tokio::test]
async fn a_call_that_is_given_up_by_the_target_is_not_sent_again() {
    let bad = serving(|_, mut respond| async move { respond.send_reset(Reason::INTERNAL_ERROR) }).await;
    let other = good().await;
    let upstream = upstream(&[bad.target_of("h2c"), other.target_of("h2c")]);
    let failure = ask(&upstream).await.unwrap_err();
    assert!(matches!(failure, Failure::BrokenHead { .. }), "{failure}");
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_dead_connection_is_not_used_again() {
    let fake = Fake::start(|stream, at| async move {
        if at == 0 {
            // It takes everything, and says nothing.
            let (mut reading, _writing) = stream.into_split();
            let _ = tokio::io::copy(&mut reading, &mut tokio::io::sink()).await;
        } else {
            serve(stream, |_, mut respond| async move { say(&mut respond, Response::new(()), "good") }).await;
        }
    })
    .await;
    let upstream = hasty(&[fake.target_of("h2c")]);
    let failure = ask(&upstream).await.unwrap_err();
    assert!(matches!(failure, Failure::TimedOut { .. }), "{failure}");
    assert_eq!(ask(&upstream).await.unwrap().unwrap(), "good");
}

#[tokio::test]
async fn targets_that_speak_something_else_are_broken() {
    for said in [GOOD, b"garbage", b""] {
        let fake = Fake::start(move |mut stream, _| async move {
            let mut read = [0; 64];
            let _ = stream.read(&mut read).await;
            let _ = stream.write_all(said).await;
            let _ = stream.shutdown().await;
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        })
        .await;
        let failure = timeout(SOON, ask(&upstream(&[fake.target_of("h2c")]))).await.unwrap().unwrap_err();
        assert!(matches!(failure, Failure::BrokenHead { .. } | Failure::Unanswered { .. }), "{failure}");
    }
}

#[tokio::test]
async fn a_caller_who_leaves_resets_the_stream() {
    for has_answered in [false, true] {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let fake = serving(move |_, mut respond| {
            let sender = sender.clone();
            async move {
                let reset = if has_answered {
                    let mut stream = respond.send_response(Response::new(()), false).unwrap();
                    stream.send_data("first".into(), false).unwrap();
                    sender.send(None).unwrap();
                    std::future::poll_fn(|cx| stream.poll_reset(cx)).await
                } else {
                    sender.send(None).unwrap();
                    std::future::poll_fn(|cx| respond.poll_reset(cx)).await
                };
                sender.send(Some(reset.unwrap())).unwrap();
            }
        })
        .await;
        let upstream = upstream(&[fake.target_of("h2c")]);
        let answer = if has_answered {
            let answer = upstream.send(get()).await.unwrap();
            assert_eq!(heard.recv().await, Some(None));
            Some(answer)
        } else {
            tokio::select! {
                _ = upstream.send(get()) => unreachable!("nothing was said"),
                asked = heard.recv() => assert_eq!(asked, Some(None)),
            }
            None
        };
        drop(answer);
        let reset = timeout(std::time::Duration::from_secs(1), heard.recv()).await.unwrap();
        assert_eq!((reset, counted(&upstream).1), (Some(Some(Reason::CANCEL)), 0));
    }
}

#[tokio::test]
async fn uploads_and_answers_wait_for_each_other() {
    const PIECES: usize = 1024;
    static SEVENS: [u8; 64 << 10] = [7; 64 << 10];
    let (go, goes) = mpsc::channel::<()>(1);
    let goes = Arc::new(tokio::sync::Mutex::new(goes));
    let fake = serving(move |request, mut respond| {
        let goes = goes.clone();
        async move {
            goes.lock().await.recv().await;
            let mut body = request.into_body();
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            // An echo.
            while let Some(data) = body.data().await {
                let mut data = data.unwrap();
                body.flow_control().release_capacity(data.len()).unwrap();
                while !data.is_empty() {
                    stream.reserve_capacity(data.len());
                    if stream.capacity() == 0 {
                        std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap().unwrap();
                    }
                    let room = stream.capacity().min(data.len());
                    stream.send_data(data.split_to(room), false).unwrap();
                }
            }
            stream.send_data(Bytes::new(), true).unwrap();
        }
    })
    .await;
    let taken = Arc::new(AtomicUsize::new(0));
    let counting = taken.clone();
    let pieces = futures_util::stream::iter((0..PIECES).map(move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(&SEVENS)))
    }));
    let upstream = upstream(&[fake.target_of("h2c")]);
    let mut call = Box::pin(upstream.send(Request::post("/").body(StreamBody::new(pieces)).unwrap()));
    assert!(timeout(SHORT, &mut call).await.is_err());
    assert!(taken.load(Ordering::SeqCst) < 8);
    go.send(()).await.unwrap();
    let mut answer = timeout(SOON, call).await.unwrap().unwrap();
    assert!(timeout(SHORT, std::future::pending::<()>()).await.is_err());
    assert!(taken.load(Ordering::SeqCst) < 32, "nobody reads the answer");
    let mut total = 0;
    while let Some(frame) = timeout(SOON, answer.response.body_mut().frame()).await.unwrap() {
        total += frame.unwrap().into_data().unwrap().len();
    }
    assert_eq!((total, counted(&upstream).1), (PIECES * (64 << 10), 0));
    assert!(answer.response.body().is_end_stream());
}

#[tokio::test]
async fn a_request_that_breaks_off_is_cut_for_the_target() {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let fake = serving(move |request, _respond| {
        let sender = sender.clone();
        async move {
            let mut body = request.into_body();
            while let Some(data) = body.data().await {
                if let Err(error) = data {
                    return sender.send(error.reason()).unwrap();
                }
            }
        }
    })
    .await;
    let body =
        StreamBody::new(futures_util::stream::iter([Ok(Frame::data(Bytes::from("half"))), Err("gone")]));
    let upstream = upstream(&[fake.target_of("h2c")]);
    let failure = upstream.send(Request::post("/").body(body).unwrap()).await.unwrap_err();
    assert!(matches!(failure, Failure::RequestBroke { .. }), "{failure}");
    assert_eq!(timeout(SOON, heard.recv()).await.unwrap(), Some(Some(Reason::CANCEL)));
    assert_eq!(counted(&upstream), ([0; 6], 0));
}

#[tokio::test]
async fn a_head_request_hears_the_length_and_no_body() {
    let fake = serving(|_, mut respond| async move {
        let response = Response::builder().header("content-length", 4).body(()).unwrap();
        respond.send_response(response, true).unwrap();
    })
    .await;
    let answer = upstream(&[fake.target_of("h2c")]).send(with_method(Method::HEAD)).await.unwrap();
    assert_eq!(answer.response.headers()["content-length"], "4");
    assert!(answer.response.body().is_end_stream());
}
