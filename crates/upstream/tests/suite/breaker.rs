//! Targets that are left out, and how they come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use portico_upstream::{Failure, Timing, Upstream, UpstreamConfig};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fixture::{Fake, GOOD, SHORT, SOON, config, counted, get, post, read_request, whole};

fn with_pause(fake: &Fake, left_out: Duration) -> Arc<Upstream> {
    let timing = Timing { left_out, ..Timing::default() };
    Upstream::new(UpstreamConfig { timing, ..config(&[fake.target()]) }).unwrap()
}

/// Waits as long as a caller is told to, until the target may be asked again.
async fn until_tried(upstream: &Upstream) -> Result<portico_upstream::Answer, Failure> {
    loop {
        match upstream.send(get()).await {
            Err(Failure::NoTarget { wait }) => {
                assert!(wait <= Duration::from_secs(1), "{wait:?}");
                let _ = timeout(wait, std::future::pending::<()>()).await;
            }
            tried => return tried,
        }
    }
}

#[tokio::test]
async fn five_failures_in_a_row_leave_the_target_out_at_once() {
    let bad = Fake::start(|mut stream, _| async move {
        read_request(&mut stream).await;
    })
    .await;
    let upstream = with_pause(&bad, Duration::from_mins(1));
    for _ in 0..5 {
        assert!(upstream.is_ready());
        let failure = upstream.send(post("a")).await.unwrap_err();
        assert!(matches!(failure, Failure::Unanswered { .. }), "{failure}");
    }
    for _ in 0..3 {
        let failure = upstream.send(post("a")).await.unwrap_err();
        let Failure::NoTarget { wait } = failure else { panic!("{failure}") };
        assert!(wait > Duration::from_secs(50) && wait <= Duration::from_mins(1), "{wait:?}");
    }
    assert_eq!(
        (bad.connections(), counted(&upstream), upstream.is_ready()),
        (5, ([0, 0, 0, 0, 0, 5], 0), false)
    );
    assert!(upstream.figures()[0].is_left_out);
}

#[tokio::test]
async fn an_answer_in_between_counts_from_the_start_and_a_5xx_is_one() {
    let fake = Fake::start(|mut stream, at| async move {
        read_request(&mut stream).await;
        if at % 5 == 4 {
            stream
                .write_all(b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
        }
    })
    .await;
    let upstream = with_pause(&fake, Duration::from_mins(1));
    for at in 0..20 {
        assert_eq!(upstream.send(post("a")).await.is_ok(), at % 5 == 4, "{at}");
    }
    assert_eq!(counted(&upstream), ([0, 0, 0, 0, 4, 16], 0));
}

#[tokio::test]
async fn one_call_tries_a_target_that_was_left_out() {
    let asked = Arc::new(AtomicUsize::new(0));
    let answers = Arc::new(Semaphore::new(0));
    let (sender, mut tried) = mpsc::unbounded_channel();
    let fake = Fake::start({
        let (asked, answers) = (asked.clone(), answers.clone());
        move |mut stream, _| {
            let (asked, answers, sender) = (asked.clone(), answers.clone(), sender.clone());
            async move {
                while read_request(&mut stream).await.is_some() {
                    if asked.fetch_add(1, Ordering::SeqCst) < 5 {
                        return;
                    }
                    sender.send(()).unwrap();
                    answers.acquire().await.unwrap().forget();
                    stream.write_all(GOOD).await.unwrap();
                }
            }
        }
    })
    .await;
    let upstream = with_pause(&fake, SHORT);
    for _ in 0..5 {
        upstream.send(post("a")).await.unwrap_err();
    }
    let mut calls = JoinSet::new();
    let trying = upstream.clone();
    calls.spawn(async move { until_tried(&trying).await });
    tried.recv().await.unwrap();
    for _ in 0..10 {
        let failure = upstream.send(get()).await.unwrap_err();
        assert!(matches!(failure, Failure::NoTarget { .. }), "{failure}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 6, "one call is at the target");

    // Whoever tried it leaves: the next call tries it.
    calls.abort_all();
    while calls.join_next().await.is_some() {}
    let trying = upstream.clone();
    calls.spawn(async move { until_tried(&trying).await });
    tried.recv().await.unwrap();
    answers.add_permits(100);
    let answer = timeout(SOON, calls.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(whole(answer).await.unwrap(), "good");
    for _ in 0..10 {
        assert_eq!(whole(upstream.send(get()).await.unwrap()).await.unwrap(), "good");
    }
    assert!(upstream.is_ready());
}

#[tokio::test]
async fn a_request_that_breaks_off_says_nothing_about_the_target() {
    let fake = Fake::keeping(GOOD).await;
    let upstream = with_pause(&fake, Duration::from_mins(1));
    for _ in 0..10 {
        let body = http_body_util::StreamBody::new(futures_util::stream::iter([Err("gone")]));
        let request = http::Request::post("/").body(body).unwrap();
        let failure = upstream.send(request).await.unwrap_err();
        assert!(matches!(failure, Failure::RequestBroke { .. }), "{failure}");
    }
    assert_eq!(counted(&upstream), ([0; 6], 0));
    assert!(upstream.send(get()).await.is_ok());
}

#[tokio::test]
async fn a_caller_who_sends_slowly_does_not_keep_a_target_out() {
    let fake = Fake::start(|mut stream, at| async move {
        while read_request(&mut stream).await.is_some() && at >= 5 {
            stream.write_all(GOOD).await.unwrap();
        }
    })
    .await;
    let upstream = with_pause(&fake, SHORT);
    for _ in 0..5 {
        upstream.send(post("a")).await.unwrap_err();
    }
    // The first call that may try the target never sends its body.
    let trying = upstream.clone();
    let mut calls = JoinSet::new();
    let (sender, mut polled) = mpsc::unbounded_channel();
    calls.spawn(async move {
        loop {
            let sender = sender.clone();
            let never = futures_util::stream::poll_fn(move |_| {
                let _ = sender.send(());
                std::task::Poll::<Option<Result<_, &str>>>::Pending
            });
            let request = http::Request::post("/").body(http_body_util::StreamBody::new(never)).unwrap();
            if let Err(Failure::NoTarget { wait }) = trying.send(request).await {
                let _ = timeout(wait, std::future::pending::<()>()).await;
            }
        }
    });
    polled.recv().await.unwrap();
    let answer = timeout(SOON, until_tried(&upstream)).await.unwrap().unwrap();
    assert_eq!(whole(answer).await.unwrap(), "good");
}
