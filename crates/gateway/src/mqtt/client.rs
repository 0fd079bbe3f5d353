//! The state of a client that was let in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use portico_events::limits::PING_EVERY;
use portico_events::{Feed, Frame};
use portico_kernel::{Sleep, Timestamp};
use tokio::task::JoinSet;

use super::AdmittedClient;
use super::encode::Connack;
use super::filters::Filters;
use super::session::ActiveSession;
use super::wire::Wire;
use crate::calls::Calls;
use crate::client_ids::ClientIdLease;
use crate::connections::{Connection, EndReason};
use crate::on_wake::OnWake;
use portico_mqtt::codec::DisconnectReasonCode as Reason;
use portico_mqtt::packets::Version;
use portico_mqtt::window::Window;

/// Calls of one client under way at once.
pub(super) const CALLS_MAX: usize = 32;

/// A client that is known.
pub(super) struct Client {
    pub(super) calls: Arc<Calls>,
    pub(super) connection: Connection,
    pub(super) version: Version,
    /// The largest packet that it takes.
    pub(super) packet_max: usize,
    pub(super) wire: Wire,
    pub(super) input: BytesMut,
    /// Does `input` hold a packet that was not looked at yet?
    pub(super) more: bool,
    pub(super) out: BytesMut,
    pub(super) filters: Filters,
    /// The events that it subscribed, if any.
    pub(super) feed: Option<Feed>,
    /// Events that were read and that the window has no room for yet.
    pub(super) waiting: VecDeque<Arc<Frame>>,
    pub(super) window: Window,
    /// The number of the last event that was sent, by an earlier connection too.
    pub(super) sent: i64,
    /// Highest event acknowledged when the send buffer was last empty; with quality of service 0, unsent means
    /// unacknowledged.
    pub(super) settled: i64,
    pub(super) lease: ClientIdLease,
    /// Resolves when another connection takes its name.
    pub(super) taken: OnWake<BoxFuture<'static, ()>>,
    pub(super) session: Option<ActiveSession>,
    /// Calls under way, and answers that the window has no room for yet.
    pub(super) running: JoinSet<RpcReply>,
    pub(super) replies: VecDeque<RpcReply>,
    /// How long it may be silent; `None` means for ever.
    pub(super) silence_max: Option<Duration>,
    pub(super) silence: Option<Sleep>,
    pub(super) heard: Timestamp,
    /// Resolves when the client has taken nothing for long.
    pub(super) stalled: Option<Sleep>,
    /// When to ping a WebSocket.
    pub(super) ping: Option<Sleep>,
}

/// The answer to a call.
pub(super) struct RpcReply {
    pub(super) topic: String,
    pub(super) correlation: Option<Bytes>,
    /// With quality of service 1, as the call was?
    pub(super) assured: bool,
    pub(super) is_answer: bool,
    /// Did the call take anything of the caller's minute?
    pub(super) counted: bool,
    pub(super) payload: Bytes,
}

impl RpcReply {
    /// Makes it a refusal: a `Problem` as JSON.
    pub(super) fn refuse(&mut self, problem: Bytes) {
        (self.is_answer, self.payload) = (false, problem);
    }
}

/// Why a connection ends: the server closes it, or the client has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientEnd {
    Close(Reason),
    Gone,
}

impl From<Reason> for ClientEnd {
    fn from(reason: Reason) -> Self {
        Self::Close(reason)
    }
}

impl From<EndReason> for ClientEnd {
    fn from(reason: EndReason) -> Self {
        Self::Close(match reason {
            EndReason::Revoked | EndReason::Expired => Reason::NotAuthorized,
            EndReason::Old => Reason::MaximumConnectTime,
            EndReason::Drain => Reason::ServerShuttingDown,
        })
    }
}

impl Client {
    pub(super) fn new(wire: Wire, input: BytesMut, calls: Arc<Calls>, admitted: AdmittedClient) -> Self {
        let AdmittedClient { connect, connection, assigned, client_id, session, left } = admitted;
        let (keep_alive, told) = connect.keep_alive();
        let silence_max = (keep_alive > 0).then(|| Duration::from_millis(1500 * u64::from(keep_alive)));
        let connack = Connack {
            session_present: left.is_some(),
            session_expiry: u32::try_from(connect.session_life.as_secs()).unwrap_or(u32::MAX),
            assigned: assigned.as_deref(),
            keep_alive: told.then_some(keep_alive),
            receive_max: u16::try_from(CALLS_MAX).unwrap_or(u16::MAX),
            packet_max: u32::try_from(wire.packet_max()).unwrap_or(u32::MAX),
        };
        let mut out = BytesMut::new();
        connack.put(&mut out, connect.version);
        let clock = &calls.engine.clock;
        let ping = clock.sleep(PING_EVERY);
        let (silence, heard) = (silence_max.map(|span| clock.sleep(span)), clock.now());
        Self {
            calls,
            connection,
            version: connect.version,
            packet_max: connect.packet_max,
            wire,
            input,
            more: false,
            out,
            filters: Filters::kept(left.as_ref().map(|left| left.filters.clone()).unwrap_or_default()),
            feed: None,
            waiting: VecDeque::new(),
            window: Window::new(connect.receive_max),
            sent: left.as_ref().map_or(0, |left| left.sent),
            settled: left.as_ref().map_or(0, |left| left.taken),
            taken: OnWake::new(Box::pin(client_id.taken())),
            lease: client_id,
            session,
            running: JoinSet::new(),
            replies: VecDeque::new(),
            silence_max,
            silence,
            heard,
            stalled: None,
            ping: Some(ping),
        }
    }
}
