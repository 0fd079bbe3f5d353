//! A receiver of webhooks on this machine.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

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
    /// Its address without a path.
    origin: String,
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

/// A certificate for `localhost` that nobody but tests trusts, and its key.
const CERTIFICATE: &[u8] = include_bytes!("../../egress/fixtures/localhost.cert.der");
const KEY: &[u8] = include_bytes!("../../egress/fixtures/localhost.key.der");

/// Proves to be `localhost`.
fn localhost_tls() -> TlsAcceptor {
    let key = PrivatePkcs8KeyDer::from(KEY).into();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .unwrap();
    Arc::new(config).into()
}

/// Answers what comes over a connection.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(answer(request, state).await) }
    });
    // Whoever hangs up has heard enough.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Receiver {
    /// Begins to listen.
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    /// Begins to listen, with TLS. Who trusts the root of [`Receiver::root`] can call it.
    pub async fn start_tls() -> Self {
        Self::listen(Some(localhost_tls())).await
    }

    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let origin = match tls {
            None => format!("http://{address}"),
            Some(_) => format!("https://localhost:{}", address.port()),
        };
        let receiver = Self { origin, state: Arc::default() };
        let state = receiver.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, tls) = (state.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, state).await,
                        Some(tls) => {
                            // Whoever does not trust it hangs up.
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, state).await;
                            }
                        }
                    }
                });
            }
        });
        receiver
    }

    /// The root certificate of receivers with TLS, as PEM.
    pub fn root() -> String {
        let text = BASE64_STANDARD.encode(CERTIFICATE);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    /// The address of that path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
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
