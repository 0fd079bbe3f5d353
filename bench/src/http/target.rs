//! The service that is measured behind Portico and behind other proxies, and the providers that connections lead to: axum and
//! nothing else, in a process of its own.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use portico_engine::clock::SystemClock;
use portico_kernel::Clock as _;
use serde_json::json;
use tokio::net::TcpListener;

/// The command that runs it.
pub(crate) const NAME: &str = "target";
/// What it is called in the configuration.
pub(crate) const SERVICE: &str = "items";
/// The scope of its routes.
const SCOPE: &str = "items:read";
/// A kilobyte.
pub(crate) const ITEM: &str = "/v1/items/1";
/// A file that is read and written.
pub(crate) const FILE: &str = "/v1/files/1";
/// How large it is.
pub(crate) const FILE_BYTES: u64 = 1 << 30;
/// A stream that says one thing and never ends.
pub(crate) const STREAM: &str = "/v1/ticks";
/// What it says.
pub(crate) const TICK: &str = "data: 1\n\n";

/// Where a provider stands that answers at once,
pub(crate) const NEAR: &str = "/near";
/// and one that is as far away as providers are.
pub(crate) const FAR: &str = "/far";
/// What it takes to get there and back.
const FAR_TIME: Duration = Duration::from_millis(20);

const PIECE: &[u8] = &[b'x'; 64 << 10];

/// What a company would write of it.
pub(crate) fn document() -> String {
    let ok = json!({ "200": { "description": "It went well." } });
    let number = json!({ "name": "number", "in": "path", "required": true, "schema": { "type": "integer" } });
    let get = |id: &str| json!({ "operationId": id, "parameters": [number], "responses": ok });
    let bytes = json!({ "content": { "application/octet-stream": {} } });
    let scheme = json!({
        "type": "oauth2",
        "flows": { "clientCredentials": {
            "tokenUrl": "http://auth.bench/oauth2/token",
            "scopes": { SCOPE: "Read items." },
        } },
    });
    let put = json!({
        "operationId": "putFile", "parameters": [number], "requestBody": bytes, "responses": ok,
    });
    let document = json!({
        "openapi": "3.1.0",
        "info": { "title": "Items", "version": "1" },
        "security": [{ "items": [SCOPE] }],
        "paths": {
            "/v1/items/{number}": { "get": get("getItem") },
            "/v1/files/{number}": { "get": get("getFile"), "put": put },
            STREAM: { "get": { "operationId": "listTicks", "responses": ok } },
        },
        "components": { "securitySchemes": { "items": scheme } },
    });
    document.to_string()
}

/// So many bytes.
struct Fill(u64);

impl HttpBody for Fill {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = PIECE.len().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        self.0 -= size as u64;
        Poll::Ready((size > 0).then(|| Ok(Frame::data(Bytes::from_static(&PIECE[..size])))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

/// One event, and then nothing for ever.
struct Ticks(Bytes);

impl HttpBody for Ticks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let tick = std::mem::take(&mut self.0);
        if tick.is_empty() { Poll::Pending } else { Poll::Ready(Some(Ok(Frame::data(tick)))) }
    }
}

fn answer(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Reads all of it, and says how much that was.
async fn take(mut body: Body) -> String {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.unwrap().into_data().map_or(0, |data| data.len());
    }
    bytes.to_string()
}

/// The account that a key belongs to: each has one of its own.
async fn user(headers: HeaderMap) -> Response<Body> {
    let key = headers.get("private-token").or_else(|| headers.get(AUTHORIZATION));
    let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default().trim_start_matches("Bearer ");
    // The key itself would be scrubbed from the answer, and then all were one account.
    let number = key.rsplit('-').next().unwrap_or_default();
    let user =
        json!({ "login": format!("account{number}"), "username": format!("account{number}"), "id": number });
    answer("application/json", Body::from(user.to_string()))
}

/// The providers, with an answer of a kilobyte.
fn providers(item: &'static str) -> Router {
    let near =
        move || async move { answer("application/json", Body::from(Bytes::from_static(item.as_bytes()))) };
    let far = move || async move {
        SystemClock.sleep(FAR_TIME).await;
        near().await
    };
    Router::new()
        .route(&format!("{NEAR}/user"), get(user))
        .route(&format!("{NEAR}/repos/{{owner}}/{{repo}}/issues/{{number}}"), get(near))
        .route(&format!("{FAR}/api/v4/user"), get(user))
        .route(&format!("{FAR}/api/v4/projects/{{project}}/issues"), get(far))
}

/// Serves until it is killed.
pub(crate) async fn serve() {
    let item: &'static str = format!("{{\"text\":\"{}\"}}", "x".repeat(989)).leak();
    let json =
        move || async move { answer("application/json", Body::from(Bytes::from_static(item.as_bytes()))) };
    let file = || async { answer("application/octet-stream", Body::new(Fill(FILE_BYTES))) };
    let ticks =
        || async { answer("text/event-stream", Body::new(Ticks(Bytes::from_static(TICK.as_bytes())))) };
    let routes = Router::new()
        .route("/v1/items/{number}", get(json))
        .route("/v1/files/{number}", get(file).put(take))
        .route(STREAM, get(ticks))
        .merge(providers(item));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("ready api={}", listener.local_addr().unwrap());
    let listener = listener.tap_io(|stream| {
        // As Portico does.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, routes).await.unwrap();
}
