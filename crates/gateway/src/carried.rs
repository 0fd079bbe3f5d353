//! Opening connections that stay: server-sent events, and HTTP that becomes a WebSocket.

use bytes::{Bytes, BytesMut};
use http::header::{
    AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use portico_engine::input::Fields;
use portico_engine::{Entry, Protocol, Reply};
use portico_events::Opening;
use portico_identity::verify::refused;
use portico_kernel::{Code, Problem};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::arrived::Arrived;
use crate::body::BODY_BYTES_MAX;
use crate::edge::EdgeIo;
use crate::lines::Line;
use crate::outgoing::HttpAnswer;
use crate::respond::Refusal;
use crate::rest::Gateway;
use crate::tokens::Bearer;
use crate::{Connection, mqtt, socket, sse, unnamed};

/// What is read from a socket at once, and kept for each: most of them are quiet.
const READ_BYTES: usize = 1 << 10;
/// What is gathered before it is written.
const WRITE_BYTES: usize = 16 << 10;
/// What a frame may hold beside the body of a call.
pub(crate) const FRAME_BYTES_MAX: usize = BODY_BYTES_MAX + (16 << 10);

/// A WebSocket, once HTTP is over.
pub(crate) type Ws = WebSocketStream<TcpStream>;

/// Are these words among the values of the header?
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    lists(headers, &UPGRADE, "websocket") && lists(headers, &CONNECTION, "upgrade")
}

/// Is it a connection whose holder is not named in the request? A browser cannot, and MQTT has its own way.
pub(crate) fn is_unnamed(entry: &Entry, parts: &Parts) -> bool {
    let asks = parts.method == Method::GET && is_upgrade(&parts.headers);
    match entry.spec.protocol {
        Some(Protocol::Socket) => asks && !parts.headers.contains_key(AUTHORIZATION),
        Some(Protocol::Mqtt) => asks,
        Some(Protocol::Sse | Protocol::Mcp) | None => false,
    }
}

/// Whoever is not known yet says in its first frame what it wants, and nowhere else.
pub(crate) fn no_fields(fields: Fields) -> Result<(), Problem> {
    match fields.into_keys().next() {
        Some(name) => {
            Err(Problem::field(name, "is given in the query; without a token it goes into the `auth` frame"))
        }
        None => Ok(()),
    }
}

/// Who is at the other end of a WebSocket.
pub(crate) enum Who {
    /// A line that is open.
    Known(Line),
    /// Somebody who has yet to say it, and holds one of the places for such.
    Unnamed(OwnedSemaphorePermit),
}

/// The subprotocol that the operation's connection speaks.
fn subprotocol(entry: &Entry) -> &'static str {
    if entry.spec.protocol == Some(Protocol::Mqtt) { "mqtt" } else { "platform.v1" }
}

impl Gateway {
    /// Goes on with a stream that may be opened.
    pub(crate) async fn open<B>(
        &self,
        entry: &Entry,
        arrived: &mut Arrived<B>,
        reply: &Reply,
        bearer: &Bearer,
    ) -> Result<HttpAnswer, Refusal> {
        let opening: Opening = serde_json::from_slice(&reply.body).map_err(Problem::internal)?;
        let engine = &self.calls.engine;
        if entry.spec.protocol == Some(Protocol::Sse) {
            let connection = arrived.parts.extensions.get::<Connection>().cloned();
            let beneath = (arrived.request_id.as_str(), connection);
            return Ok(sse::open(&self.lines, engine, bearer, &opening, beneath).await?);
        }
        // Before the place is taken: what cannot be upgraded needs none.
        check(&arrived.parts, subprotocol(entry))?;
        let line = self.lines.open(engine, bearer, opening.account_id, None).await?;
        self.upgrade(entry, &mut arrived.parts, Who::Known(line)).map(HttpAnswer::from)
    }

    /// Turns the request into a WebSocket; refuses one that does not ask for it.
    pub(crate) fn upgrade(
        &self,
        entry: &Entry,
        parts: &mut Parts,
        who: Who,
    ) -> Result<Response<Bytes>, Refusal> {
        let protocol = entry.spec.protocol;
        let (key, subprotocol) = check(parts, subprotocol(entry))?;
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or_else(|| not_a_websocket("The connection cannot become a WebSocket."))?;
        let (calls, lines) = (self.calls.clone(), self.lines.clone());
        tokio::spawn(async move {
            let Some((stream, read)) = upgraded(upgrade).await else { return };
            // Each in a box of its own: what is small would take the room of the largest otherwise.
            match (protocol, who) {
                (_, Who::Known(line)) => {
                    let ws = opened(stream, read).await;
                    Box::pin(socket::serve(ws, calls, lines, line)).await;
                }
                (Some(Protocol::Mqtt), Who::Unnamed(place)) => {
                    if let Ok(stranger) = Box::pin(unnamed::met(stream, read, Data::Binary)).await {
                        Box::pin(mqtt::over_websocket(stranger, calls, lines, place)).await;
                    }
                }
                (_, Who::Unnamed(place)) => match Box::pin(unnamed::met(stream, read, Data::Text)).await {
                    Ok(stranger) => Box::pin(socket::introduce(stranger, calls, lines, place)).await,
                    Err(mut ws) => {
                        let close = socket::Close::Unauthenticated;
                        Box::pin(socket::turn_away(&mut ws, &refused(), close)).await;
                    }
                },
            }
        });
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, key);
        if let Some(subprotocol) = subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
        }
        Ok(response)
    }
}

fn not_a_websocket(words: &'static str) -> Problem {
    Problem::new(Code::BadRequest, words)
}

/// The accepted key, and the subprotocol if the client asks for one (RFC 6455, section 4.2).
fn check(parts: &Parts, ours: &'static str) -> Result<(HeaderValue, Option<&'static str>), Problem> {
    let headers = &parts.headers;
    if parts.method != Method::GET || !is_upgrade(headers) {
        return Err(not_a_websocket("This path serves a WebSocket: the request must ask for the upgrade."));
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
    let accepted = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Problem::internal)?;
    Ok((accepted, asked.then_some(ours)))
}

/// The connection beneath, without anything of HTTP, and what was read of it already; nothing when its peer has gone.
async fn upgraded(upgrade: OnUpgrade) -> Option<(TcpStream, BytesMut)> {
    let upgraded = upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<EdgeIo<TcpStream>>>().ok()?;
    Some((parts.io.into_inner().into_inner(), BytesMut::from(parts.read_buf)))
}

/// A WebSocket of somebody who is known, or about to be.
pub(crate) async fn opened(stream: TcpStream, read: BytesMut) -> Ws {
    websocket(stream, read, FRAME_BYTES_MAX).await
}

/// A WebSocket that takes frames of at most so many bytes.
pub(crate) async fn websocket(stream: TcpStream, read: BytesMut, frame_max: usize) -> Ws {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_message_size(Some(frame_max))
        .max_frame_size(Some(frame_max));
    WebSocketStream::from_partially_read(stream, read.to_vec(), Role::Server, Some(config)).await
}
