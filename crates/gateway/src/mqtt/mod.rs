//! MQTT 3.1.1 and 5, over TCP, TLS and WebSocket.
//!
//! There is no broker: a connection reads its account's log, like any other stream. Its client may subscribe to events
//! and, in MQTT 5, call operations; it reaches no other client. What a client leaves is a position in the log, so
//! nothing is queued for it. The crate `mqtt` reads packets, and counts what is under way (`Window`).

mod calls;
mod client;
mod connect;
mod encode;
mod filters;
mod run;
mod session;
mod subscriptions;
mod tcp;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use portico_engine::Protocol;
use portico_engine::input::Fields;
use portico_events::SessionState;
use portico_identity::verify::refused;
use portico_kernel::Problem;

use crate::calls::Calls;
use crate::client_ids::ClientIdLease;
use crate::connections::Connection;
use crate::incoming::new_request_id;
use crate::preauth::Unauthenticated;
use crate::transport::{Transport, wait};

use connect::{Connect, ConnectRefusal};
use portico_mqtt::codec::ConnectReasonCode;
use portico_mqtt::packets::find;
use session::ActiveSession;

pub(crate) use tcp::serve_tcp;
use wire::Wire;

/// How long a client has to say who it is.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// The largest packet of somebody who is not known yet.
const CONNECT_BYTES_MAX: usize = 64 << 10;
/// How long the last packets may take to leave.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);
/// The first byte of a CONNECT.
const CONNECT: u8 = 0x10;

/// A client that was let in.
struct AdmittedClient {
    connect: Connect,
    connection: Connection,
    /// The name that the server gave it.
    assigned: Option<String>,
    client_id: ClientIdLease,
    session: Option<ActiveSession>,
    /// What an earlier connection left.
    left: Option<SessionState>,
}

/// Serves MQTT over a WebSocket until either side ends it.
pub(crate) async fn serve_websocket(client: Unauthenticated, calls: Arc<Calls>, transport: &Transport) {
    let first = client.first.as_ref().map(|(frame, _)| find(frame, CONNECT_BYTES_MAX));
    if !matches!(first, Some(Ok(Some(_)))) {
        // It says who it is in pieces: it gets little room for as long as it stays.
        let (ws, input) = client.into_limited().await;
        return serve(ws.into(), input, None, calls, transport).await;
    }
    let Unauthenticated { ws, first } = client;
    let (input, rest) = first.unwrap_or_default();
    serve(ws.into(), input, Some(rest), calls, transport).await;
}

/// Serves a client that has sent `input` already. `unread` is what came after its first frame on a WebSocket that nothing
/// was read through: once the client is known, it gets the usual limits.
async fn serve(
    mut wire: Wire,
    mut input: BytesMut,
    unread: Option<BytesMut>,
    calls: Arc<Calls>,
    transport: &Transport,
) {
    let admitted = authenticate(&mut wire, &mut input, &calls).await;
    match admitted {
        Ok(Some(admitted)) => {
            transport.set_lasting();
            if let Some(unread) = unread {
                wire = wire.widened(unread).await;
            }
            Box::pin(run::run(wire, input, calls, admitted)).await;
        }
        // It went away before it said who it is, or does not speak MQTT.
        Ok(None) => {}
        Err(refusal) => {
            transport.wait_with_refusal(None).await;
            let mut out = BytesMut::new();
            if let Some(version) = refusal.version {
                encode::refusal(&mut out, version, refusal.code, &refusal.message);
            }
            Box::pin(wire.close(out)).await;
        }
    }
}

/// Waits for the client to say who it is, and lets it in; `None` when it says nothing in time.
async fn authenticate(
    wire: &mut Wire,
    input: &mut BytesMut,
    calls: &Calls,
) -> Result<Option<Box<AdmittedClient>>, ConnectRefusal> {
    let connect = tokio::select! {
        () = wait(CONNECT_TIME_MAX) => None,
        connect = first_packet(wire, input) => connect,
    };
    let Some(connect) = connect.transpose()? else { return Ok(None) };
    let version = connect.version;
    // Boxed, because letting in is large and soon over; a client that says nothing should not carry it along.
    match Box::pin(admit(connect, calls)).await {
        Ok(admitted) => Ok(Some(Box::new(admitted))),
        Err(problem) => Err(ConnectRefusal::of_problem(version, &problem)),
    }
}

/// The first packet, which must be a CONNECT; `None` when none comes.
async fn first_packet(wire: &mut Wire, input: &mut BytesMut) -> Option<Result<Connect, ConnectRefusal>> {
    let mut out = BytesMut::new();
    loop {
        match find(input, CONNECT_BYTES_MAX) {
            Ok(Some(found)) if found.head == CONNECT => {
                let end = found.body.end;
                let connect = Connect::read(&input[found.body]);
                input.advance(end);
                return Some(connect);
            }
            Ok(Some(_)) => return None,
            Ok(None) if input.first().is_some_and(|head| *head != CONNECT) => return None,
            Ok(None) => {}
            Err(_) => return Some(Err(ConnectRefusal::silent(ConnectReasonCode::PacketTooLarge))),
        }
        if wire.transfer(&mut out, input, true).await.ok()?.ended {
            return None;
        }
    }
}

/// Token, scope, rate and slot, in this order; then the session.
async fn admit(connect: Connect, calls: &Calls) -> Result<AdmittedClient, Problem> {
    let engine = &calls.engine;
    let credential = calls.authenticate(connect.token.as_deref().ok_or_else(refused)?).await?;
    let assigned = connect.client_id.is_empty().then(|| format!("client-{}", new_request_id(engine)));
    let name = assigned.as_deref().unwrap_or(&connect.client_id);
    // A person's apps are strangers to each other.
    let actor = &*credential.caller().actor();
    // After the client was admitted and before the slot is taken: whoever comes back needs no second one.
    let take_over = async || calls.connections.client_ids.take(actor, name).await;
    let (connection, client_id) = calls.open(Protocol::Mqtt, &credential, Fields::new(), take_over).await?;
    let (session, left) = ActiveSession::begin(engine, connection.account(), actor, &connect, name).await?;
    Ok(AdmittedClient { connect, connection, assigned, client_id, session, left })
}
