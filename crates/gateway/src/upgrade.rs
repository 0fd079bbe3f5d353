//! Opening connections that stay: server-sent events, and HTTP that becomes a WebSocket.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::Response;
use http::header::AUTHORIZATION;
use http::request::Parts;
use hyper::upgrade::OnUpgrade;
use portico_engine::input::Fields;
use portico_engine::{Entry, Protocol, Reply};
use portico_identity::verify::refused;
use portico_kernel::{Code, Problem};
use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

use crate::calls::{Calls, opening};
use crate::client_stream::ClientStream;
use crate::connections::Connection;
use crate::credential::Credential;
use crate::incoming::IncomingRequest;
use crate::on_wake::OnWake;
use crate::outgoing::HttpAnswer;
use crate::preauth::first_frame;
use crate::transport::Transport;
use crate::websocket::{FRAME_BYTES_MAX, Handshake, is_upgrade, upgraded, websocket};
use crate::{mqtt, socket, sse};

/// Is it a connection whose client authenticates later? A browser cannot in the request, and MQTT has its own way.
pub(crate) fn is_preauth(entry: &Entry, parts: &Parts) -> bool {
    match entry.spec.protocol {
        Some(Protocol::Socket) => is_upgrade(parts) && !parts.headers.contains_key(AUTHORIZATION),
        Some(Protocol::Mqtt) => is_upgrade(parts),
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
pub(crate) enum SocketPeer {
    /// A client whose connection is open.
    Authenticated(Connection),
    /// A client that has yet to authenticate.
    Unauthenticated,
}

/// The subprotocol that the operation's connection speaks.
fn subprotocol(entry: &Entry) -> &'static str {
    if entry.spec.protocol == Some(Protocol::Mqtt) { "mqtt" } else { "platform.v1" }
}

/// Goes on with a stream that may be opened.
pub(crate) async fn open<B>(
    calls: &Arc<Calls>,
    entry: &Entry,
    incoming: &mut IncomingRequest<B>,
    reply: Reply,
    credential: &Credential,
) -> Result<HttpAnswer, Problem> {
    let opening = opening(reply)?;
    if entry.spec.protocol == Some(Protocol::Sse) {
        return sse::open(calls, credential, &opening, &incoming.parts, &incoming.request_id).await;
    }
    // Before the slot is taken: what cannot be upgraded needs none.
    Handshake::check(&incoming.parts, subprotocol(entry))?;
    let connection = calls.connections.open(&calls.engine, credential, opening.account_id, None).await?;
    let response = upgrade(calls, entry, &mut incoming.parts, SocketPeer::Authenticated(connection))?;
    Ok(response.into())
}

/// Turns the request into a WebSocket; refuses one that does not ask for it.
pub(crate) fn upgrade(
    calls: &Arc<Calls>,
    entry: &Entry,
    parts: &mut Parts,
    peer: SocketPeer,
) -> Result<Response<Bytes>, Problem> {
    let protocol = entry.spec.protocol;
    let handshake = Handshake::check(parts, subprotocol(entry))?;
    let upgrade = parts.extensions.remove::<OnUpgrade>();
    let upgrade =
        upgrade.ok_or_else(|| Problem::new(Code::BadRequest, "The connection cannot become a WebSocket."))?;
    let calls = calls.clone();
    // It counts as a connection for as long as the WebSocket lasts.
    let transport = parts.extensions.get::<Transport>().cloned().unwrap_or_default();
    tokio::spawn(async move {
        let Some((stream, read)) = upgraded(upgrade).await else { return };
        let ended = pin!(transport.ended_for_room());
        tokio::select! {
            biased;
            () = serve(protocol, peer, stream, read, calls, &transport) => {}
            () = OnWake::new(ended) => {}
        }
    });
    Ok(handshake.response())
}

/// Serves the WebSocket until either side ends it.
async fn serve(
    protocol: Option<Protocol>,
    peer: SocketPeer,
    stream: ClientStream,
    read: BytesMut,
    calls: Arc<Calls>,
    transport: &Transport,
) {
    // Each in a box of its own: what is small would take the room of the largest otherwise.
    match (protocol, peer) {
        (_, SocketPeer::Authenticated(connection)) => {
            transport.set_lasting();
            let ws = websocket(stream, read, FRAME_BYTES_MAX).await;
            Box::pin(socket::serve(ws, calls, connection)).await;
        }
        (Some(Protocol::Mqtt), SocketPeer::Unauthenticated) => {
            if let Ok(client) = Box::pin(first_frame(stream, read, Data::Binary)).await {
                Box::pin(mqtt::serve_websocket(client, calls, transport)).await;
            }
        }
        (_, SocketPeer::Unauthenticated) => match Box::pin(first_frame(stream, read, Data::Text)).await {
            Ok(client) => Box::pin(socket::authenticate_and_serve(client, calls, transport)).await,
            Err(mut ws) => {
                let close = socket::Close::Unauthenticated;
                Box::pin(socket::refuse(&mut ws, &refused(), close)).await;
            }
        },
    }
}
