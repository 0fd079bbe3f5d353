//! A client at work.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use portico_events::limits::{IDLE_MAX, PING_EVERY};
use portico_events::{Cursor, Feed, Frame, Start};
use portico_kernel::{Sleep, Timestamp};
use portico_store::StoreError;
use tokio::task::JoinSet;

use super::Admitted;
use super::calls::{CALLS_MAX, Reply};
use super::clients::Name;
use super::codec::DisconnectReasonCode as Reason;
use super::filters::Filters;
use super::packets::{self, Packet, Version};
use super::session::Held;
use super::window::Window;
use super::wire::{Moved, Wire};
use super::written::{self, Connack};
use crate::calls::Calls;
use crate::carried::FRAME_BYTES_MAX;
use crate::lines::{End, Line, Lines, log_unreadable};

/// Packets that are taken before anything else is looked at.
const PACKETS_AT_ONCE: usize = 16;
/// While so much waits to leave, nothing more is read.
const OUT_BYTES_MAX: usize = 64 << 10;

/// How long calls under way may take to end when the connection is about to be closed.
const FINISH_TIME_MAX: Duration = Duration::from_secs(31);

/// A client that is known.
pub(super) struct Client {
    pub(super) calls: Arc<Calls>,
    pub(super) lines: Arc<Lines>,
    pub(super) line: Line,
    pub(super) version: Version,
    /// The largest packet that it takes.
    pub(super) packet_max: usize,
    pub(super) wire: Wire,
    input: BytesMut,
    /// Does `input` hold a packet that was not looked at yet?
    more: bool,
    pub(super) out: BytesMut,
    pub(super) filters: Filters,
    /// The events that it subscribed, if any.
    pub(super) feed: Option<Feed>,
    /// Events that were read and that the window has no room for yet.
    pub(super) waiting: VecDeque<Arc<Frame>>,
    pub(super) window: Window,
    /// The number of the last event that was sent, by an earlier connection too.
    pub(super) sent: i64,
    /// What was taken when everything had last left: with quality of service 0, what has not left is not taken.
    pub(super) settled: i64,
    name: Name,
    pub(super) held: Option<Held>,
    /// Calls under way, and answers that the window has no room for yet.
    pub(super) running: JoinSet<Reply>,
    pub(super) replies: VecDeque<Reply>,
    /// How long it may be silent; nothing means for ever.
    silence_max: Option<Duration>,
    silence: Option<Sleep>,
    heard: Timestamp,
    /// Ends when the client has taken nothing for long.
    stalled: Option<Sleep>,
    /// When to ping a WebSocket.
    ping: Option<Sleep>,
}

/// What happened next.
enum Next {
    Moved(io::Result<Moved>),
    /// There is more that has come already.
    More,
    Events(Result<Vec<Arc<Frame>>, StoreError>),
    Replied(Reply),
    Silence,
    Ping,
    Due,
    Over(Over),
}

/// Why a connection ends: the server closes it, or the client has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Close(Reason),
    Gone,
}

impl From<Reason> for Over {
    fn from(reason: Reason) -> Self {
        Self::Close(reason)
    }
}

fn of_end(end: End) -> Over {
    Over::Close(match end {
        End::Revoked | End::Expired => Reason::NotAuthorized,
        End::Old => Reason::MaximumConnectTime,
        End::Drain => Reason::ServerShuttingDown,
    })
}

/// Serves a client that was let in until either side ends it.
pub(super) async fn run(
    wire: Wire,
    input: BytesMut,
    calls: Arc<Calls>,
    lines: Arc<Lines>,
    admitted: Box<Admitted>,
) {
    let mut client = Client::new(wire, input, calls, lines, *admitted);
    let over = client.serve().await;
    Box::pin(client.finish(over)).await;
}

impl Client {
    fn new(wire: Wire, input: BytesMut, calls: Arc<Calls>, lines: Arc<Lines>, admitted: Admitted) -> Self {
        let Admitted { connect, line, assigned, name, held, left } = admitted;
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
            lines,
            line,
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
            settled: 0,
            name,
            held,
            running: JoinSet::new(),
            replies: VecDeque::new(),
            silence_max,
            silence,
            heard,
            stalled: None,
            ping: Some(ping),
        }
    }

    async fn serve(&mut self) -> Over {
        // What an earlier connection left begins where that one ended.
        let taken = self.held.as_ref().map_or(0, |held| held.kept().taken);
        let mut step = self.refit(&Start::After(Cursor::at(taken))).await;
        if step.is_ok() {
            // Whoever did not wait for the answer to CONNECT has sent more already.
            step = self.received().await;
        }
        loop {
            if let Err(over) = step {
                return over;
            }
            self.fill();
            step = match self.next().await {
                Next::Moved(moved) => self.moved(moved).await,
                Next::More => self.received().await,
                Next::Events(Ok(events)) => {
                    self.waiting = events.into();
                    Ok(())
                }
                Next::Events(Err(error)) => {
                    log_unreadable(&error);
                    Err(Reason::ServerBusy.into())
                }
                Next::Replied(reply) => {
                    self.replies.push_back(reply);
                    Ok(())
                }
                Next::Silence => self.silent(),
                Next::Ping => self.ping(),
                Next::Due => self.keep().await,
                Next::Over(over) => Err(over),
            };
        }
    }

    async fn next(&mut self) -> Next {
        let clear = self.wire.is_clear(&self.out);
        let clock = &self.calls.engine.clock;
        let (feed, engine) = (&mut self.feed, &self.calls.engine);
        let wants_events = feed.is_some() && clear && self.waiting.is_empty() && self.window.has_room();
        let events = async {
            match feed {
                Some(feed) => feed.next(engine).await,
                None => std::future::pending().await,
            }
        };
        let (silence, held, stalled) = (&mut self.silence, &mut self.held, &mut self.stalled);
        let ping = &mut self.ping;
        let may_read = self.out.len() < OUT_BYTES_MAX;
        tokio::select! {
            biased;
            end = self.line.ended() => Next::Over(of_end(end)),
            () = self.name.taken() => Next::Over(Reason::SessionTakenOver.into()),
            () = std::future::ready(()), if self.more && may_read => Next::More,
            moved = self.wire.moved(&mut self.out, &mut self.input, may_read) => Next::Moved(moved),
            events = events, if wants_events => Next::Events(events),
            Some(Ok(reply)) = self.running.join_next(), if !self.running.is_empty() => Next::Replied(reply),
            () = sleeping(silence) => Next::Silence,
            () = sleeping(ping) => Next::Ping,
            () = async {
                match held {
                    Some(held) => held.due().await,
                    None => std::future::pending().await,
                }
            } => Next::Due,
            // Only a write that waits needs the clock.
            () = async { stalled.get_or_insert_with(|| clock.sleep(IDLE_MAX)).await }, if !clear => {
                Next::Over(Over::Gone)
            }
        }
    }

    async fn moved(&mut self, moved: io::Result<Moved>) -> Result<(), Over> {
        let moved = moved.map_err(|_| Over::Gone)?;
        if moved.wrote {
            self.stalled = None;
            self.note_taken();
        }
        if moved.read {
            self.heard = self.calls.engine.clock.now();
            self.received().await?;
        }
        if moved.ended { Err(Over::Gone) } else { Ok(()) }
    }

    /// Pings a WebSocket, and gives up one of which nothing was heard for long.
    fn ping(&mut self) -> Result<(), Over> {
        let clock = &self.calls.engine.clock;
        if !self.wire.ping() {
            self.ping = None;
            return Ok(());
        }
        if clock.now().since(self.heard) >= IDLE_MAX {
            return Err(Reason::KeepAliveTimeout.into());
        }
        self.ping = Some(clock.sleep(PING_EVERY));
        Ok(())
    }

    /// Was the client silent for longer than it said it would be?
    fn silent(&mut self) -> Result<(), Over> {
        let Some(most) = self.silence_max else { return Ok(()) };
        let clock = &self.calls.engine.clock;
        let span = clock.now().since(self.heard);
        if span >= most {
            return Err(Reason::KeepAliveTimeout.into());
        }
        self.silence = Some(clock.sleep(most.saturating_sub(span)));
        Ok(())
    }

    async fn received(&mut self) -> Result<(), Over> {
        for _ in 0..PACKETS_AT_ONCE {
            let Some(found) = packets::find(&self.input, FRAME_BYTES_MAX)? else {
                self.more = false;
                break;
            };
            // Many may have come at once; in between it is looked whether the connection is to be ended.
            self.more = true;
            let (begin, end) = found.body;
            let packet = packets::read(self.version, found.head, &self.input[begin..end])?;
            self.input.advance(end);
            match packet {
                Packet::Puback(id) => {
                    self.window.acknowledge(id);
                    self.note_taken();
                }
                Packet::Ping => written::pong(&mut self.out),
                Packet::Publish(publish) => self.published(*publish),
                Packet::Subscribe { id, filters } => Box::pin(self.subscribe(id, filters)).await?,
                Packet::Unsubscribe { id, filters } => Box::pin(self.unsubscribe(id, &filters)).await?,
                Packet::Disconnect { expiry } => return Err(self.disconnected(expiry)),
            }
        }
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        Ok(())
    }

    /// Sends what the window has room for.
    fn fill(&mut self) {
        // What nobody acknowledges needs no room.
        while self.replies.front().is_some_and(|reply| !reply.assured || self.window.has_room_for_answer()) {
            let Some(reply) = self.replies.pop_front() else { break };
            self.send_reply(reply);
        }
        while let Some(frame) = self.waiting.front() {
            let qos = self.filters.qos(&frame.event_type);
            if qos == Some(1) && !self.window.has_room() {
                return;
            }
            if let Some(qos) = qos {
                let rest = written::event_rest(self.version, frame);
                let event = written::event(frame, &rest);
                let size = event.size(qos);
                // What the client does not take is as good as taken.
                if size <= self.packet_max {
                    let id = (qos == 1).then(|| self.window.send(Some(frame.sequence), size));
                    // What was sent before, and may have come, says so.
                    let again = frame.sequence <= self.sent;
                    self.sent = self.sent.max(frame.sequence);
                    event.put(&mut self.out, id, again);
                }
            }
            self.waiting.pop_front();
        }
        if self.waiting.capacity() > 0 {
            self.waiting = VecDeque::new();
        }
    }

    /// The client says goodbye, and perhaps for how long to keep its session.
    fn disconnected(&mut self, expiry: Option<u32>) -> Over {
        if self.held.is_none() && expiry.is_some_and(|seconds| seconds > 0) {
            return Reason::ProtocolError.into();
        }
        if let (Some(seconds), Some(held)) = (expiry, &mut self.held) {
            if held.life.is_zero() && seconds > 0 {
                return Reason::ProtocolError.into();
            }
            held.life = Duration::from_secs(seconds.into());
        }
        Over::Gone
    }

    /// Lets the calls under way end, and answers them.
    async fn finish_calls(&mut self) {
        let finishing = async {
            while let Some(ended) = self.running.join_next().await {
                self.replies.extend(ended);
            }
        };
        let _ = tokio::time::timeout(FINISH_TIME_MAX, finishing).await;
        for mut reply in std::mem::take(&mut self.replies) {
            // Nobody would be there to acknowledge more than the window holds.
            reply.assured &= self.window.has_room_for_answer();
            self.send_reply(reply);
        }
    }

    /// Keeps what the session has come to, says why it ends, and closes.
    async fn finish(mut self, over: Over) {
        if matches!(over, Over::Close(Reason::ServerShuttingDown | Reason::MaximumConnectTime)) {
            self.finish_calls().await;
        }
        let state = self.state();
        if let Some(held) = self.held.take() {
            held.close(&self.calls.engine, &state).await;
        }
        let Self { wire, mut out, line, name, running, version, .. } = self;
        drop(running);
        match over {
            Over::Gone => {}
            Over::Close(reason) => {
                written::disconnect(&mut out, version, reason);
                // Whoever took the name waits for the place.
                let rest = (reason != Reason::SessionTakenOver).then_some((line, name));
                wire.close(out).await;
                drop(rest);
            }
        }
    }
}

async fn sleeping(sleep: &mut Option<Sleep>) {
    match sleep {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}
