//! A receiver of webhooks on this machine.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

/// How a path answers.
#[derive(Debug, Clone)]
pub enum ReceiverReply {
    /// With this status.
    Status(u16),
    /// With this status and this header.
    With(u16, &'static str, String),
    /// With this status and this body.
    Body(u16, Bytes),
    /// Never.
    Never,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// Its path.
    pub path: String,
    /// Its method.
    pub method: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl ReceivedRequest {
    /// The header's value; empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct State {
    received: Vec<ReceivedRequest>,
    answers: HashMap<String, ReceiverReply>,
}

/// Takes what is posted, and answers 200 unless it was told otherwise.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let answering = {
        let mut state = state.lock().unwrap();
        let method = parts.method.to_string();
        state.received.push(ReceivedRequest { path: path.clone(), method, headers: parts.headers, body });
        state.answers.get(&path).cloned().unwrap_or(ReceiverReply::Status(200))
    };
    let (status, header, body) = match answering {
        ReceiverReply::Status(status) => (status, None, Bytes::new()),
        ReceiverReply::With(status, name, value) => (status, Some((name, value)), Bytes::new()),
        ReceiverReply::Body(status, body) => (status, None, body),
        ReceiverReply::Never => std::future::pending().await,
    };
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    response.body(Full::new(body)).unwrap()
}

impl Receiver {
    /// Begins to listen.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let state = receiver.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let state = state.clone();
                        async move { Ok::<_, Infallible>(answer(request, state).await) }
                    });
                    // Whoever hangs up has heard enough.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        receiver
    }

    /// The address of that path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on the path answers so.
    pub fn answer(&self, path: &str, answering: ReceiverReply) {
        self.state.lock().unwrap().answers.insert(path.to_owned(), answering);
    }

    /// What came to that path so far.
    pub fn received(&self, path: &str) -> Vec<ReceivedRequest> {
        let state = self.state.lock().unwrap();
        state.received.iter().filter(|received| received.path == path).cloned().collect()
    }

    /// Forgets what came so far.
    pub fn clear(&self) {
        self.state.lock().unwrap().received.clear();
    }
}
