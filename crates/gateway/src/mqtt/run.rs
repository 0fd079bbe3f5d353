//! A client at work.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::future::OptionFuture;
use portico_events::limits::{IDLE_MAX, PING_EVERY};
use portico_events::{Cursor, Frame, Start};
use portico_store::StoreError;

use super::AdmittedClient;
use super::client::{Client, ClientEnd, RpcReply};
use super::encode;
use super::session::ActiveSession;
use super::wire::{IoProgress, Wire};
use crate::calls::Calls;
use crate::connections::log_unreadable;
use crate::websocket::FRAME_BYTES_MAX;
use portico_mqtt::codec::DisconnectReasonCode as Reason;
use portico_mqtt::packets::{self, Packet};

/// Packets that are taken before anything else is looked at.
const PACKETS_AT_ONCE: usize = 16;
/// While so much waits to leave, nothing more is read.
const OUT_BYTES_MAX: usize = 64 << 10;

/// How long calls under way may take to end when the connection is about to be closed.
const FINISH_TIME_MAX: Duration = Duration::from_secs(31);

/// What happened next.
enum ClientEvent {
    Transferred(io::Result<IoProgress>),
    /// There is more that has come already.
    More,
    Events(Result<Vec<Arc<Frame>>, StoreError>),
    Replied(RpcReply),
    Silence,
    Ping,
    Due,
    End(ClientEnd),
}

/// Serves a client that was let in until either side ends it.
pub(super) async fn run(wire: Wire, input: BytesMut, calls: Arc<Calls>, admitted: Box<AdmittedClient>) {
    let mut client = Client::new(wire, input, calls, *admitted);
    let end = client.serve().await;
    Box::pin(client.finish(end)).await;
}

impl Client {
    async fn serve(&mut self) -> ClientEnd {
        // What an earlier connection left begins where that one ended.
        let mut step = self.refit(&Start::After(Cursor::at(self.settled))).await;
        if step.is_ok() {
            // Whoever did not wait for the answer to CONNECT has sent more already.
            step = self.received().await;
        }
        loop {
            if let Err(end) = step {
                return end;
            }
            self.fill();
            if let Err(end) = self.send_at_once().await {
                return end;
            }
            if self.connection.refusals.are_too_many() {
                return Reason::QuotaExceeded.into();
            }
            step = match self.next().await {
                ClientEvent::Transferred(progress) => self.transferred(progress).await,
                ClientEvent::More => {
                    // Others have their turn.
                    tokio::task::yield_now().await;
                    self.received().await
                }
                ClientEvent::Events(Ok(events)) => {
                    self.waiting = events.into();
                    Ok(())
                }
                ClientEvent::Events(Err(error)) => {
                    log_unreadable(&error);
                    Err(Reason::ServerBusy.into())
                }
                ClientEvent::Replied(reply) => {
                    self.replies.push_back(reply);
                    Ok(())
                }
                ClientEvent::Silence => self.silent(),
                ClientEvent::Ping => self.ping(),
                ClientEvent::Due => self.keep().await,
                ClientEvent::End(end) => Err(end),
            };
        }
    }

    /// Hands over what can be, without a look at anything else.
    async fn send_at_once(&mut self) -> Result<(), ClientEnd> {
        if self.out.is_empty() {
            return Ok(());
        }
        let sending = poll_fn(|cx| Poll::Ready(self.wire.poll_send(cx, &mut self.out)));
        if sending.await.map_err(|_| ClientEnd::Gone)? {
            self.stalled = None;
            self.note_taken();
        }
        Ok(())
    }

    async fn next(&mut self) -> ClientEvent {
        let clear = self.wire.is_clear(&self.out);
        let clock = &self.calls.engine.clock;
        let wants_events = clear && self.waiting.is_empty() && self.window.has_room();
        let feed = self.feed.as_mut().filter(|_| wants_events);
        let events = feed.map(|feed| feed.next(&self.calls.engine));
        let stalled = &mut self.stalled;
        let may_read = self.out.len() < OUT_BYTES_MAX;
        tokio::select! {
            biased;
            end = self.connection.ended() => ClientEvent::End(end.into()),
            () = &mut self.taken => ClientEvent::End(Reason::SessionTakenOver.into()),
            () = std::future::ready(()), if self.more && may_read => ClientEvent::More,
            progress = self.wire.transfer(&mut self.out, &mut self.input, may_read) => {
                ClientEvent::Transferred(progress)
            }
            Some(events) = OptionFuture::from(events) => ClientEvent::Events(events),
            Some(Ok(reply)) = self.running.join_next(), if !self.running.is_empty() => ClientEvent::Replied(reply),
            Some(()) = OptionFuture::from(self.silence.as_mut()) => ClientEvent::Silence,
            Some(()) = OptionFuture::from(self.ping.as_mut()) => ClientEvent::Ping,
            Some(()) = OptionFuture::from(self.session.as_mut().map(ActiveSession::due)) => ClientEvent::Due,
            // Only a write that waits needs the clock.
            () = async { stalled.get_or_insert_with(|| clock.sleep(IDLE_MAX)).await }, if !clear => {
                ClientEvent::End(ClientEnd::Gone)
            }
        }
    }

    async fn transferred(&mut self, progress: io::Result<IoProgress>) -> Result<(), ClientEnd> {
        let progress = progress.map_err(|_| ClientEnd::Gone)?;
        if progress.wrote {
            self.stalled = None;
            self.note_taken();
        }
        if progress.read {
            self.heard = self.calls.engine.clock.now();
            self.received().await?;
        }
        if progress.ended { Err(ClientEnd::Gone) } else { Ok(()) }
    }

    /// Pings a WebSocket, and gives up one of which nothing was heard for long.
    fn ping(&mut self) -> Result<(), ClientEnd> {
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
    fn silent(&mut self) -> Result<(), ClientEnd> {
        let Some(limit) = self.silence_max else { return Ok(()) };
        let clock = &self.calls.engine.clock;
        let span = clock.now().since(self.heard);
        if span >= limit {
            return Err(Reason::KeepAliveTimeout.into());
        }
        self.silence = Some(clock.sleep(limit.saturating_sub(span)));
        Ok(())
    }

    async fn received(&mut self) -> Result<(), ClientEnd> {
        for _ in 0..PACKETS_AT_ONCE {
            let Some(found) = packets::find(&self.input, FRAME_BYTES_MAX)? else {
                self.more = false;
                break;
            };
            // Many may have come at once; in between it is looked whether the connection is to be ended.
            self.more = true;
            let end = found.body.end;
            let packet = packets::read(self.version, found.head, &self.input[found.body])?;
            self.input.advance(end);
            match packet {
                Packet::Puback(id) => {
                    self.window.acknowledge(id);
                    self.note_taken();
                }
                Packet::Ping => encode::pong(&mut self.out),
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
                let rest = encode::event_rest(self.version, frame);
                let event = encode::event(frame, &rest);
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
    fn disconnected(&mut self, expiry: Option<u32>) -> ClientEnd {
        if self.session.is_none() && expiry.is_some_and(|seconds| seconds > 0) {
            return Reason::ProtocolError.into();
        }
        if let (Some(seconds), Some(session)) = (expiry, &mut self.session) {
            session.life = Duration::from_secs(seconds.into());
        }
        ClientEnd::Gone
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
    async fn finish(mut self, end: ClientEnd) {
        if matches!(end, ClientEnd::Close(Reason::ServerShuttingDown | Reason::MaximumConnectTime)) {
            self.finish_calls().await;
        }
        let state = self.state();
        if let Some(session) = self.session.take() {
            session.close(&self.calls.engine, &state).await;
        }
        let Self { wire, mut out, connection, lease, running, version, .. } = self;
        drop(running);
        match end {
            ClientEnd::Gone => {}
            ClientEnd::Close(reason) => {
                encode::disconnect(&mut out, version, reason);
                // Whoever took the client id waits for its session.
                let rest = (reason != Reason::SessionTakenOver).then_some((connection, lease));
                wire.close(out).await;
                drop(rest);
            }
        }
    }
}
