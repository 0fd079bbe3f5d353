//! Many calls at once to targets that fail in turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use portico_upstream::{Failure, Timing, Upstream, UpstreamConfig};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fixture::{Fake, SOON, config, read_request, whole};

const CALLERS: usize = 32;
const CALLS: usize = 80;

/// Answers with the path and the body of the request, or does something else. Has the connection ended?
async fn answer(stream: &mut TcpStream, request: &str, turn: usize) -> bool {
    let path = request.split(' ').nth(1).unwrap();
    let said = request.split_once("\r\n\r\n").unwrap().1;
    let body = format!("{path} {said}");
    let whole = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let (first, second) = body.split_at(body.len() / 2);
    let (is_over, said) = match turn % 16 {
        0 => (true, String::new()),
        1 => (true, whole[..20].to_owned()),
        2 => (true, whole[..whole.len() - 1].to_owned()),
        3 => (true, format!("{chunked}{:x}\r\n{body}\r\n", body.len())),
        4 => (true, "garbage".to_owned()),
        5 => (true, format!("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n{whole}")),
        // Another caller must not be given the second one.
        6 => (false, format!("{whole}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")),
        7 => (false, "HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nevil".to_owned()),
        8 => {
            SockRef::from(&*stream).set_linger(Some(Duration::ZERO)).unwrap();
            (true, whole[..whole.len() / 2].to_owned())
        }
        9 | 10 => {
            let (one, two) = (first.len(), second.len());
            (false, format!("{chunked}{one:x}\r\n{first}\r\n{two:x};x\r\n{second}\r\n0\r\nx: y\r\n\r\n"))
        }
        11 => (false, format!("HTTP/1.1 102 Processing\r\n\r\n{whole}")),
        12 => (true, format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}")),
        _ => (false, whole),
    };
    let _ = stream.write_all(said.as_bytes()).await;
    is_over
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_what_is_anothers() {
    let turns = Arc::new(AtomicUsize::new(0));
    let mut fakes = Vec::new();
    for _ in 0..3 {
        let turns = turns.clone();
        let fake = Fake::start(move |mut stream, _| {
            let turns = turns.clone();
            async move {
                while let Some(request) = read_request(&mut stream).await {
                    if answer(&mut stream, &request, turns.fetch_add(1, Ordering::SeqCst)).await {
                        return;
                    }
                }
            }
        });
        fakes.push(fake.await);
    }
    let targets: Vec<_> = fakes.iter().map(Fake::target).collect();
    let timing = Timing { left_out: Duration::from_millis(5), ..Timing::default() };
    let upstream = Upstream::new(UpstreamConfig { timing, ..config(&targets) }).unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let upstream = upstream.clone();
        callers.spawn(async move {
            let mut answered = 0;
            for call in 0..CALLS {
                let (method, body) = if call % 2 == 0 { ("GET", "") } else { ("POST", "a body") };
                let path = format!("/v1/{caller}/{call}");
                let request = Request::builder().method(method).uri(&path);
                let request = request.body(Full::new(Bytes::from(body))).unwrap();
                match timeout(SOON, upstream.send(request)).await.unwrap() {
                    Ok(answer) if answer.response.status() == 204 => {
                        assert_eq!(whole(answer).await.unwrap(), "");
                    }
                    Ok(answer) => {
                        if let Ok(whole) = whole(answer).await {
                            assert_eq!(whole, format!("{path} {body}"));
                            answered += 1;
                        }
                    }
                    Err(Failure::NoTarget { wait }) => {
                        let _ =
                            timeout(wait.min(Duration::from_millis(5)), std::future::pending::<()>()).await;
                    }
                    Err(_) => {}
                }
            }
            answered
        });
    }
    let answered: usize = callers.join_all().await.into_iter().sum();
    assert!(answered > CALLERS * CALLS / 3, "{answered}");
    assert!(upstream.figures().iter().all(|figures| figures.in_flight == 0));
}
