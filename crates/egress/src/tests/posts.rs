//! Posts, and the connections that wait for the next.

use rustls::pki_types::CertificateDer;

use super::receiver::{Does, OK, Receiver};
use super::*;

fn call(url: &str) -> Post<'_> {
    Post { url, headers: HeaderMap::new(), body: Bytes::from_static(b"{}"), limits: LIMITS }
}

async fn status(egress: &Egress, url: &str) -> Result<u16, EgressError> {
    egress.post(call(url)).await.map(|response| response.status.as_u16())
}

#[tokio::test]
async fn a_post_arrives_whole() {
    let mut receiver =
        Receiver::saying("HTTP/1.1 202 Accepted\r\nx-a: b\r\ncontent-length: 2\r\n\r\nok").await;
    let egress = egress(LOOPBACK);
    let url = receiver.url();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/json"),
        ("webhook-id", "msg_1"),
        ("user-agent", "somebody else"),
        ("host", "example.com"),
        ("connection", "upgrade"),
        ("content-length", "9"),
        ("transfer-encoding", "chunked"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let post = Post { headers, body: Bytes::from_static(b"{\"a\":1}"), ..call(&url) };
    let response = egress.post(post).await.unwrap();
    assert_eq!((response.status, &response.headers["x-a"]), (StatusCode::ACCEPTED, &"b".parse().unwrap()));
    let (_, request) = receiver.requests.recv().await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, "{\"a\":1}");
    let mut lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /hook?a=b HTTP/1.1");
    lines.sort_unstable();
    let host = format!("host: {}", receiver.address);
    assert_eq!(
        lines,
        [
            "content-length: 7",
            "content-type: application/json",
            &host,
            "user-agent: Portico",
            "webhook-id: msg_1"
        ]
    );
}

#[tokio::test]
async fn a_connection_serves_one_post_after_another() {
    for answer in [
        OK,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ] {
        let mut receiver = Receiver::saying(answer).await;
        let egress = egress(LOOPBACK);
        for turn in 0..5 {
            let response = egress.post(call(&receiver.url())).await.unwrap();
            assert!(response.status.as_u16() >= 200, "what comes before the answer is none: {answer}");
            assert_eq!(receiver.requests.recv().await.unwrap().0, (0, turn), "{answer}");
        }
        assert_eq!((receiver.connections(), egress.pool.waiting()), (1, 1), "{answer}");
    }
}

#[tokio::test]
async fn a_secure_connection_is_kept_too() {
    let tls = localhost_tls();
    let receiver = Receiver::start_at("127.0.0.1:0".parse().unwrap(), Some(tls), |_| Does::Answer(OK)).await;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
    let egress = Egress::with_roots(roots, LOOPBACK.parse().unwrap(), Resolver::of_system());
    let url = format!("https://localhost:{}/", receiver.address.port());
    for _ in 0..3 {
        assert_eq!(status(&egress, &url).await, Ok(200));
    }
    assert_eq!(receiver.connections(), 1);
    let by_number = format!("https://{}/", receiver.address);
    assert_eq!(
        status(&egress, &by_number).await,
        Err(EgressError::Tls),
        "a name that was proven is no other's"
    );
    let plain = format!("http://localhost:{}/", receiver.address.port());
    assert!(status(&egress, &plain).await.is_err(), "nor is it plain");
    assert_eq!(egress.pool.waiting(), 1);
}

/// It is noticed before anything is sent, so that nothing is lost or said twice.
#[tokio::test]
async fn whoever_hangs_up_in_between_is_called_again() {
    let mut receiver = Receiver::saying(OK).await;
    let egress = egress(LOOPBACK);
    for turn in 0..50 {
        assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
        assert_eq!(receiver.requests.recv().await.unwrap().0, (turn, 0));
        assert_eq!(egress.pool.waiting(), 1);
        receiver.hang_up().await;
    }
    assert!(receiver.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_message_that_never_left_comes_back() {
    let mut receiver = Receiver::saying(OK).await;
    let target = Target::parse(&receiver.url()).unwrap();
    let egress = egress(LOOPBACK);
    let (mut open, _) =
        connection::Connection::open(&egress.tls, &target, &[receiver.address], LIMITS.time).await.unwrap();
    let message = || message(&target, Method::POST, HeaderMap::new(), Bytes::from_static(b"{}"));
    let (_, body) = open.send(message()).await.ok().unwrap().into_parts();
    drop(body);
    receiver.hang_up().await;
    tokio::task::yield_now().await;
    let sent = open.send(message()).await;
    assert!(matches!(sent, Err(connection::SendError::NotSent(_))), "it may be sent again");
}

#[tokio::test]
async fn what_may_have_arrived_is_not_sent_again() {
    // The second request on a connection is read, and never answered.
    let does = |(_, turn)| if turn == 0 { Does::Answer(OK) } else { Does::HangUp };
    let mut receiver = Receiver::start(does).await;
    let egress = egress(LOOPBACK);
    assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
    assert_eq!(status(&egress, &receiver.url()).await, Err(EgressError::Connection));
    assert_eq!(receiver.requests.recv().await.unwrap().0, (0, 0));
    assert_eq!(receiver.requests.recv().await.unwrap().0, (0, 1));
    assert!(receiver.requests.try_recv().is_err(), "once, not twice");
    assert_eq!((receiver.connections(), egress.pool.waiting()), (1, 0));
}

#[tokio::test]
async fn half_a_head_is_no_answer_and_half_a_body_is_one() {
    for (half, answer) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel", Ok(200)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhel", Ok(200)),
        ("HTTP/1.1 20", Err(EgressError::Connection)),
        ("", Err(EgressError::Connection)),
    ] {
        let receiver = Receiver::start(move |_| Does::AnswerAndHangUp(half)).await;
        let egress = egress(LOOPBACK);
        assert_eq!(status(&egress, &receiver.url()).await, answer, "{half}");
        assert_eq!((receiver.connections(), egress.pool.waiting()), (1, 0), "{half}");
    }
}

#[tokio::test]
async fn whoever_wants_to_close_is_let_go() {
    for last in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let receiver = Receiver::saying(last).await;
        let egress = egress(LOOPBACK);
        for turn in 1..4 {
            assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
            assert_eq!((receiver.connections(), egress.pool.waiting()), (turn, 0), "{last}");
        }
    }
    let to_the_end = Receiver::start(|_| Does::AnswerAndHangUp("HTTP/1.1 200 OK\r\n\r\nto the end")).await;
    let egress = egress(LOOPBACK);
    assert_eq!(status(&egress, &to_the_end.url()).await, Ok(200));
    assert_eq!(egress.pool.waiting(), 0);
}

#[tokio::test]
async fn a_long_answer_counts_and_does_no_harm() {
    let limits = Limits { bytes: 5, ..LIMITS };
    for (answer, kept) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 1),
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello!", 0),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nhello", 0),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\nhello!\r\n", 0),
        ("HTTP/1.1 200 OK\r\n\r\nhello!", 0),
    ] {
        let mut receiver = Receiver::saying(answer).await;
        let egress = egress(LOOPBACK);
        for turn in 0..2 {
            let response = egress.post(Post { limits, ..call(&receiver.url()) }).await.unwrap();
            assert_eq!((response.status.as_u16(), egress.pool.waiting()), (200, kept), "{answer}");
            let at = if kept == 1 { (0, turn) } else { (turn, 0) };
            assert_eq!(receiver.requests.recv().await.unwrap().0, at, "{answer}");
        }
    }
}

/// More than one answer to one request: the second must not answer the next request.
#[tokio::test]
async fn nobody_answers_before_they_are_asked() {
    let twice =
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
    let receiver = Receiver::saying(twice).await;
    let egress = egress(LOOPBACK);
    for turn in 1..4 {
        assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
        assert_eq!(receiver.connections(), turn, "such a connection is of no further use");
    }
}

#[tokio::test]
async fn a_call_that_was_given_up_hangs_up() {
    // The first request of a connection is answered, and no other.
    let does = |(_, turn)| if turn == 0 { Does::Answer(OK) } else { Does::Nothing };
    let mut receiver = Receiver::start(does).await;
    let egress = egress(LOOPBACK);
    for connection in 0..3 {
        assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
        assert_eq!(receiver.requests.recv().await.unwrap().0, (connection, 0));
        let url = receiver.url();
        let given_up = egress.post(call(&url));
        tokio::select! {
            response = given_up => panic!("{response:?}"),
            request = receiver.requests.recv() => assert_eq!(request.unwrap().0, (connection, 1)),
        }
        assert_eq!(egress.pool.waiting(), 0);
        assert_eq!(receiver.ended.recv().await, Some(connection), "the other side sees it end");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let inner = Receiver::saying(OK).await;
    let to = format!("HTTP/1.1 307 Go\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", inner.url());
    let receiver = Receiver::saying(to.leak()).await;
    let response = egress(LOOPBACK).post(call(&receiver.url())).await.unwrap();
    assert_eq!(response.status, StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(response.headers["location"], inner.url());
    assert_eq!((receiver.connections(), inner.connections()), (1, 0));
}

#[tokio::test]
async fn nobody_changes_the_protocol() {
    let receiver =
        Receiver::saying("HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n").await;
    let egress = egress(LOOPBACK);
    let _ = status(&egress, &receiver.url()).await;
    assert_eq!(egress.pool.waiting(), 0);
}

/// Whatever trickles in, the limit is on the whole.
#[tokio::test]
async fn whoever_trickles_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let trickle = async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        let mut drops = tokio::time::interval(Duration::from_millis(10));
        loop {
            drops.tick().await;
            if stream.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let egress = egress(LOOPBACK);
    tokio::select! {
        () = trickle => {}
        response = egress.post(Post { limits: SHORT, ..call(&url) }) => {
            assert_eq!(response.map(|response| response.status), Err(EgressError::Timeout));
        }
    }
    assert_eq!(egress.pool.waiting(), 0);
    let silent = Receiver::start(|_| Does::Nothing).await;
    let response = egress.post(Post { limits: SHORT, ..call(&silent.url()) }).await;
    assert_eq!(response.map(|response| response.status), Err(EgressError::Timeout));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_leave_a_few_connections() {
    let receiver = Receiver::saying(OK).await;
    let egress = Arc::new(egress(LOOPBACK));
    for _ in 0..3 {
        let calls: Vec<_> = (0..40)
            .map(|_| {
                let (egress, url) = (egress.clone(), receiver.url());
                tokio::spawn(async move { status(&egress, &url).await })
            })
            .collect();
        for call in calls {
            assert_eq!(call.await.unwrap(), Ok(200));
        }
        assert!((1..=16).contains(&egress.pool.waiting()), "{}", egress.pool.waiting());
    }
}

#[tokio::test]
async fn whoever_waits_for_long_is_closed() {
    let mut receiver = Receiver::saying(OK).await;
    let egress = egress(LOOPBACK);
    assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
    for _ in 0..29 {
        egress.pool.sweep();
        assert_eq!(egress.pool.waiting(), 1);
    }
    assert_eq!(status(&egress, &receiver.url()).await, Ok(200));
    egress.pool.sweep();
    assert_eq!((receiver.connections(), egress.pool.waiting()), (1, 1), "a call makes it young");
    for _ in 0..29 {
        egress.pool.sweep();
    }
    assert_eq!(egress.pool.waiting(), 0);
    assert_eq!(receiver.ended.recv().await, Some(0), "and the other side is told");
}

#[tokio::test]
async fn who_calls_carries_little() {
    let egress = egress("");
    let call = egress.post(call("https://example.com/"));
    assert!(size_of_val(&call) <= 3 << 10, "{}", size_of_val(&call));
}
