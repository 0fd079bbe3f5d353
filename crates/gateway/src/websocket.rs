//! A WebSocket: the handshake that HTTP becomes one by, and the limits of its frames.

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use portico_kernel::{Code, Problem};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::client_stream::ClientStream;
use crate::edge::EdgeIo;

/// What is read from a socket at once, and kept for each: most of them are quiet.
const READ_BYTES: usize = 1 << 10;
/// What is gathered before it is written.
const WRITE_BYTES: usize = 16 << 10;
/// The largest body of a call (SPEC.md, Limits), and what a frame may hold beside it.
pub(crate) const FRAME_BYTES_MAX: usize = (2 << 20) + (16 << 10);

/// A WebSocket, once HTTP is over.
pub(crate) type Ws = WebSocketStream<ClientStream>;

/// Is that word among the values of the header?
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
}

/// Does the request ask to become a WebSocket?
pub(crate) fn is_upgrade(parts: &Parts) -> bool {
    let headers = &parts.headers;
    parts.method == Method::GET
        && lists(headers, &UPGRADE, "websocket")
        && lists(headers, &CONNECTION, "upgrade")
}

/// A request to become a WebSocket that can be granted (RFC 6455, section 4.2).
pub(crate) struct Handshake {
    accept: HeaderValue,
    /// The subprotocol, if the client asks for one.
    subprotocol: Option<&'static str>,
}

impl Handshake {
    pub(crate) fn check(parts: &Parts, ours: &'static str) -> Result<Self, Problem> {
        let headers = &parts.headers;
        if !is_upgrade(parts) {
            let message = "This path serves a WebSocket: the request must ask for the upgrade.";
            return Err(Problem::new(Code::BadRequest, message));
        }
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(Problem::field("Sec-WebSocket-Version", "must be 13"));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
        let key = key.ok_or_else(|| Problem::field("Sec-WebSocket-Key", "must be 16 bytes in base64"))?;
        let asked = headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
        if asked && !lists(headers, &SEC_WEBSOCKET_PROTOCOL, ours) {
            return Err(Problem::field("Sec-WebSocket-Protocol", format!("must offer `{ours}`")));
        }
        let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Problem::internal)?;
        Ok(Self { accept, subprotocol: asked.then_some(ours) })
    }

    pub(crate) fn response(self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if let Some(subprotocol) = self.subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
        }
        response
    }
}

/// The connection beneath, without anything of HTTP, and what was read of it already; `None` when its peer has gone.
pub(crate) async fn upgraded(upgrade: OnUpgrade) -> Option<(ClientStream, BytesMut)> {
    let upgraded = upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<EdgeIo<ClientStream>>>().ok()?;
    Some((parts.io.into_inner().into_inner(), BytesMut::from(parts.read_buf)))
}

/// A WebSocket that takes frames of at most so many bytes.
pub(crate) async fn websocket(stream: ClientStream, read: BytesMut, frame_max: usize) -> Ws {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_message_size(Some(frame_max))
        .max_frame_size(Some(frame_max));
    WebSocketStream::from_partially_read(stream, read.to_vec(), Role::Server, Some(config)).await
}
