//! The call that an action makes, made by hyper's client and nothing else.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use portico_engine::clock::Stopwatch;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::http::load::Round;
use crate::http::process::own_cpu;
use crate::http::target::{FAR, NEAR};
use crate::http::{Measurement, ROUND};

/// An action, and the call that it makes.
pub(crate) struct BareCall {
    /// The connector.
    pub(crate) kind: &'static str,
    /// The action and its parameters.
    pub(crate) action: &'static str,
    pub(crate) params: Value,
    path: String,
    /// What the connector sends beside the path.
    headers: &'static [(&'static str, &'static str)],
}

impl BareCall {
    /// One at the provider that answers at once.
    pub(crate) fn near() -> Self {
        Self {
            kind: "github",
            action: "get_issue",
            params: json!({ "owner": "acme", "repo": "app", "number": 1 }),
            path: format!("{NEAR}/repos/acme/app/issues/1"),
            headers: &[
                ("authorization", "Bearer key-0"),
                ("accept", "application/vnd.github+json"),
                ("x-github-api-version", "2022-11-28"),
            ],
        }
    }

    /// One at the provider that is far away.
    pub(crate) fn far() -> Self {
        Self {
            kind: "gitlab",
            action: "list_issues",
            params: json!({ "project": "7" }),
            path: format!("{FAR}/api/v4/projects/7/issues"),
            headers: &[("private-token", "key-0"), ("accept", "application/json")],
        }
    }

    /// As it goes over the wire.
    pub(crate) fn request(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::get(&self.path).header("host", "provider");
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        request.body(Empty::new()).unwrap()
    }
}

/// One caller on a connection that stays open; how long each answer took.
async fn work(
    address: SocketAddr,
    request: Request<Empty<Bytes>>,
    watch: Stopwatch,
) -> Vec<std::time::Duration> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let (mut times, mut before) = (Vec::new(), watch.elapsed());
    while before < ROUND {
        let answer = sender.send_request(request.clone()).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body().collect().await.unwrap();
        let now = watch.elapsed();
        times.push(now.saturating_sub(before));
        before = now;
    }
    driver.abort();
    times
}

/// A round of so many callers, and the processor time that each call took of them.
pub(crate) async fn measured(
    callers: usize,
    address: SocketAddr,
    request: &Request<Empty<Bytes>>,
) -> Measurement {
    let (before, watch) = (own_cpu(), Stopwatch::start());
    let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(work(address, request.clone(), watch))).collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    let round = Round::new(times, watch.elapsed());
    let cpu_ns = own_cpu().saturating_sub(before).as_secs_f64() * 1e9 / f64::from(round.answers);
    Measurement { round, cpu_ns }
}
