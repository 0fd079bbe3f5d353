//! MQTT 3.1.1 and 5, over TCP, TLS and WebSocket.
//!
//! There is no broker: a connection reads its account's log, like any other stream. Its client may subscribe to events
//! and, in MQTT 5, call operations; it reaches no other client. What a client left is a place in the log, so nothing is
//! queued for it. The library reads packets; what is under way is counted in `window.rs`.

mod calls;
mod clients;
mod codec;
mod connect;
mod filters;
mod listener;
mod packets;
mod run;
mod session;
mod subscribed;
mod window;
mod wire;
mod written;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use portico_engine::Protocol;
use portico_engine::input::Fields;
use portico_events::SessionState;
use portico_identity::verify::refused;
use portico_kernel::{Problem, RequestId};
use tokio::sync::OwnedSemaphorePermit;

use crate::calls::Calls;
use crate::lines::{Line, Lines};
use crate::server::wait;
use crate::unnamed::Stranger;

pub(crate) use clients::Clients;
use clients::Name;
use codec::ConnectReasonCode;
use connect::{Connect, Refused};
pub use listener::{Tls, serve_mqtt};
use packets::find;
use session::Held;
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
struct Admitted {
    connect: Connect,
    line: Line,
    /// The name that the server gave it.
    assigned: Option<String>,
    name: Name,
    held: Option<Held>,
    left: Option<SessionState>,
}

/// Serves MQTT over a WebSocket until either side ends it.
pub(crate) async fn over_websocket(
    stranger: Stranger,
    calls: Arc<Calls>,
    lines: Arc<Lines>,
    unnamed: OwnedSemaphorePermit,
) {
    let first = stranger.first.as_ref().map(|(frame, _)| find(frame, CONNECT_BYTES_MAX));
    if !matches!(first, Some(Ok(Some(_)))) {
        // It says who it is in pieces: it gets little room for as long as it stays.
        let (ws, mut said) = stranger.slowly().await;
        let mut wire = Wire::from(ws);
        let known = Box::pin(introduced(&mut wire, &mut said, &calls, &lines)).await;
        drop(unnamed);
        return go_on(wire, said, calls, lines, known).await;
    }
    let mut said = stranger.first.as_ref().map(|(frame, _)| frame.clone()).unwrap_or_default();
    let Stranger { ws, first } = stranger;
    let mut wire = Wire::from(ws);
    let known = Box::pin(introduced(&mut wire, &mut said, &calls, &lines)).await;
    drop(unnamed);
    let wire = match first.filter(|_| matches!(known, Ok(Some(_)))) {
        // Nothing was read through the small one.
        Some((_, rest)) => wire.widened(rest).await,
        None => wire,
    };
    go_on(wire, said, calls, lines, known).await;
}

async fn serve(mut wire: Wire, calls: Arc<Calls>, lines: Arc<Lines>, unnamed: OwnedSemaphorePermit) {
    let mut input = BytesMut::new();
    // Boxed, because letting in is large and soon over.
    let known = Box::pin(introduced(&mut wire, &mut input, &calls, &lines)).await;
    drop(unnamed);
    go_on(wire, input, calls, lines, known).await;
}

async fn go_on(
    wire: Wire,
    input: BytesMut,
    calls: Arc<Calls>,
    lines: Arc<Lines>,
    known: Result<Option<Box<Admitted>>, Refused>,
) {
    match known {
        Ok(Some(admitted)) => Box::pin(run::run(wire, input, calls, lines, admitted)).await,
        // It went away before it said who it is, or does not speak MQTT.
        Ok(None) => {}
        Err(refused) => {
            let mut out = BytesMut::new();
            if let Some(version) = refused.version {
                written::refusal(&mut out, version, refused.code, &refused.words);
            }
            Box::pin(wire.close(out)).await;
        }
    }
}

/// Waits for the client to say who it is, and lets it in.
async fn introduced(
    wire: &mut Wire,
    input: &mut BytesMut,
    calls: &Arc<Calls>,
    lines: &Arc<Lines>,
) -> Result<Option<Box<Admitted>>, Refused> {
    let connect = tokio::select! {
        () = wait(CONNECT_TIME_MAX) => None,
        connect = first(wire, input) => connect,
    };
    let Some(connect) = connect.transpose()? else { return Ok(None) };
    let version = connect.version;
    let admitted = admit(connect, calls, lines).await;
    admitted
        .map(|admitted| Some(Box::new(admitted)))
        .map_err(|problem| Refused::of_problem(version, &problem))
}

/// The first packet, which must be a CONNECT; nothing when none comes.
async fn first(wire: &mut Wire, input: &mut BytesMut) -> Option<Result<Connect, Refused>> {
    let mut out = BytesMut::new();
    loop {
        let too_large =
            |_| Refused { version: None, code: ConnectReasonCode::PacketTooLarge, words: String::new() };
        match find(input, CONNECT_BYTES_MAX).map_err(too_large) {
            Ok(Some(found)) if found.head == CONNECT => {
                let connect = Connect::read(&input[found.body.0..found.body.1]);
                input.advance(found.body.1);
                return Some(connect);
            }
            Ok(Some(_)) => return None,
            Ok(None) if input.first().is_some_and(|head| *head != CONNECT) => return None,
            Ok(None) => {}
            Err(refused) => return Some(Err(refused)),
        }
        if wire.moved(&mut out, input, true).await.ok()?.ended {
            return None;
        }
    }
}

/// Token, scope, rate and place, in this order; then the session.
async fn admit(connect: Connect, calls: &Arc<Calls>, lines: &Arc<Lines>) -> Result<Admitted, Problem> {
    let engine = &calls.engine;
    let bearer = calls.holder(connect.token.as_deref().ok_or_else(refused)?).await?;
    let assigned = connect.client_id.is_empty().then(|| {
        let id: RequestId = engine.entropy.id(engine.clock.now());
        format!("client-{id}")
    });
    let client_id = assigned.as_deref().unwrap_or(&connect.client_id);
    // After the client was admitted and before the place is taken: whoever comes back needs no second one.
    let take_over = async || Name::take(lines, &bearer.caller().subject, client_id).await;
    let (line, name) = calls.open(lines, Protocol::Mqtt, &bearer, Fields::new(), take_over).await?;
    let owner = (line.account(), bearer.caller().subject.as_str());
    let (held, left) = Held::begin(engine, owner, &connect, client_id).await?;
    Ok(Admitted { connect, line, assigned, name, held, left })
}
