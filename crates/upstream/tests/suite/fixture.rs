//! Targets that do what a test wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Collected, Empty, Full};
use portico_upstream::{Answer, AnswerError, Failure, Target, Timing, Upstream, UpstreamConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// What a good target says.
pub(crate) const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood";
/// Enough for anything that happens at all.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// For what is to take too long.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

/// A target on a port of its own.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    /// How many connections it has accepted.
    connections: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Fake {
    /// A target that serves each connection so. It is told which one it is.
    pub(crate) async fn start<F, S>(serve: F) -> Self
    where
        F: Fn(TcpStream, usize) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, counted.fetch_add(1, Ordering::SeqCst)));
            }
        });
        Self { address, connections, task: task.abort_handle() }
    }

    /// A target that reads one request on each connection, says this, and hangs up.
    pub(crate) async fn saying(answer: impl Into<Bytes>) -> Self {
        let answer = answer.into();
        Self::start(move |mut stream, _| {
            let answer = answer.clone();
            async move {
                read_request(&mut stream).await;
                // Whoever has heard enough hangs up.
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
                // Nothing is unread, or the answer might be lost with the connection.
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        })
        .await
    }

    /// A target that answers every request so, and keeps its connections.
    pub(crate) async fn keeping(answer: &'static [u8]) -> Self {
        Self::start(move |mut stream, _| async move {
            while read_request(&mut stream).await.is_some() {
                stream.write_all(answer).await.unwrap();
            }
        })
        .await
    }

    /// A port where nobody listens.
    pub(crate) async fn dead() -> Target {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Target::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
    }

    pub(crate) fn target(&self) -> Target {
        self.target_of("http")
    }

    pub(crate) fn target_of(&self, scheme: &str) -> Target {
        Target::parse(&format!("{scheme}://{}", self.address)).unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The head of a request, and its body if it says how long that is; `None` at the end of the connection.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        read.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(read).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(head + std::str::from_utf8(&body).unwrap_or_default())
}

/// Times that a test need not wait for.
pub(crate) fn config(targets: &[Target]) -> UpstreamConfig {
    UpstreamConfig {
        name: "invoices".into(),
        targets: targets.to_vec(),
        health: None,
        timeout: SOON,
        roots: portico_egress::TrustedRoots::default(),
        timing: Timing::default(),
    }
}

pub(crate) fn upstream(targets: &[Target]) -> Arc<Upstream> {
    Upstream::new(config(targets)).unwrap()
}

/// As the others, but what takes long is given up soon.
pub(crate) fn hasty(targets: &[Target]) -> Arc<Upstream> {
    Upstream::new(UpstreamConfig { timeout: SHORT, ..config(targets) }).unwrap()
}

pub(crate) fn get() -> Request<Empty<Bytes>> {
    Request::get("/v1/invoices?a=b").body(Empty::new()).unwrap()
}

pub(crate) fn with_method(method: Method) -> Request<Empty<Bytes>> {
    Request::builder().method(method).uri("/v1/invoices").body(Empty::new()).unwrap()
}

pub(crate) fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/v1/invoices").body(Full::new(body.into())).unwrap()
}

/// The whole body of an answer.
pub(crate) async fn whole(answer: Answer) -> Result<Bytes, AnswerError> {
    tokio::time::timeout(SOON, answer.response.into_body().collect()).await.unwrap().map(Collected::to_bytes)
}

/// Asks, and reads the answer to its end.
pub(crate) async fn ask(upstream: &Upstream) -> Result<Result<Bytes, AnswerError>, Failure> {
    Ok(whole(tokio::time::timeout(SOON, upstream.send(get())).await.unwrap()?).await)
}

/// What is counted of the only target.
pub(crate) fn counted(upstream: &Upstream) -> ([u64; 6], usize) {
    let figures = upstream.figures();
    (figures[0].classes, figures[0].in_flight)
}
