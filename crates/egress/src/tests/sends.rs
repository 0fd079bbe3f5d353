//! Requests whose response is wanted whole, and what is known of those that got none.

use super::receiver::{Does, OK, Receiver};
use super::*;

fn call(url: &str, method: Method, limits: Limits) -> Request<'_> {
    let body = Bytes::from_static(b"{}");
    Request { url, method, headers: HeaderMap::new(), body, limits, connect_time: limits.time }
}

async fn failure(url: &str, limits: Limits) -> SendFailure {
    egress(LOOPBACK).send(call(url, Method::PATCH, limits)).await.unwrap_err()
}

#[tokio::test]
async fn a_request_comes_back_whole_and_its_connection_serves_the_next() {
    let mut receiver =
        Receiver::saying("HTTP/1.1 404 Not Found\r\nx-a: b\r\ncontent-length: 5\r\n\r\nhello").await;
    let (egress, url) = (egress(LOOPBACK), receiver.url());
    for (turn, method) in [Method::GET, Method::PUT, Method::DELETE].into_iter().enumerate() {
        let response = egress.send(call(&url, method.clone(), LIMITS)).await.unwrap();
        assert_eq!((response.status.as_u16(), &response.body[..]), (404, &b"hello"[..]));
        assert_eq!(response.headers["x-a"], "b");
        let (at, request) = receiver.requests.recv().await.unwrap();
        assert_eq!(at, (0, turn), "one connection for all");
        assert!(request.starts_with(&format!("{method} /hook?a=b HTTP/1.1\r\n")), "{request}");
    }
}

#[tokio::test]
async fn what_was_not_sent_did_not_arrive() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = format!("http://{}/", closed.local_addr().unwrap());
    drop(closed);
    for (url, error) in [
        (refused.as_str(), EgressError::Connection),
        ("http://10.0.0.1/", EgressError::Blocked),
        ("nowhere", EgressError::BadAddress),
    ] {
        let failed = failure(url, LIMITS).await;
        assert_eq!(failed, SendFailure { error, may_have_arrived: false }, "{url}");
    }
}

#[tokio::test]
async fn what_was_sent_may_have_arrived() {
    for (does, error) in [(Does::HangUp, EgressError::Connection), (Does::Nothing, EgressError::Timeout)] {
        let receiver = Receiver::start(move |_| does).await;
        let failed = failure(&receiver.url(), SHORT).await;
        assert_eq!(failed, SendFailure { error, may_have_arrived: true });
    }
    let long = Receiver::saying("HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n").await;
    let failed = failure(&long.url(), LIMITS).await;
    assert_eq!(failed, SendFailure { error: EgressError::TooLarge, may_have_arrived: true });
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_nothing() {
    let receiver =
        Receiver::start(|(_, turn)| if turn == 0 { Does::AnswerAndHangUp(OK) } else { Does::HangUp }).await;
    let egress = egress(LOOPBACK);
    for _ in 0..3 {
        let response = egress.send(call(&receiver.url(), Method::POST, LIMITS)).await.unwrap();
        assert_eq!(&response.body[..], b"ok");
    }
}
