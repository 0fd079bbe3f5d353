//! The server to measure against: axum and nothing else, which sends what Portico would have sent.

use std::path::Path;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

/// The command that runs it.
pub(crate) const NAME: &str = "bare";
/// Headers that the HTTP library adds by itself, as it does for Portico.
const ADDED: [&str; 2] = ["content-length", "date"];

/// The fields of a head. They borrow for ever, so that a copy counts no references that two threads would fight over.
fn headers(head: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in head.lines().skip(1) {
        let (name, value) = line.split_once(": ").unwrap();
        if !ADDED.contains(&name) {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    headers
}

/// Serves the answer that the file holds, until it is killed.
pub(crate) async fn serve(answer: &Path) {
    let answer: &'static str = std::fs::read_to_string(answer).unwrap().leak();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let headers: &'static HeaderMap = Box::leak(Box::new(headers(head)));
    let me = move || async move {
        let mut response = Response::new(Body::from(Bytes::from_static(body.as_bytes())));
        headers.clone_into(response.headers_mut());
        response
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("ready api={}", listener.local_addr().unwrap());
    let listener = listener.tap_io(|stream| {
        // As Portico does.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, Router::new().route("/v1/me", get(me))).await.unwrap();
}
