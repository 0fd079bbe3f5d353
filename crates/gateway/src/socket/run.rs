//! A socket at work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use futures_util::{FutureExt, SinkExt, StreamExt};
use portico_engine::input::Fields;
use portico_events::limits::{IDLE_MAX, PING_EVERY, STREAM_LIFE_MAX};
use portico_events::{Cursor, Feed, Filter, Frame, Shape, Start};
use portico_kernel::{Code, Problem, Sleep, Timestamp};
use portico_store::StoreError;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::frames::{self, CallFrame, InboundFrame, Ready, ServerFrame, Subscribe};
use super::{CLOSE_TIME_MAX, Close, broken, closing, text};
use crate::calls::{Calls, RpcAnswer, RpcCall, too_many_calls};
use crate::connections::{Connection, log_unreadable};
use crate::message::parse;
use crate::transport::Refusals;
use crate::websocket::{FRAME_BYTES_MAX, Ws};

/// Calls of one socket under way at once.
const CALLS_MAX: usize = 16;
/// Frames that are taken before other connections have their turn.
const FRAMES_AT_ONCE: usize = 16;
/// How long a client may take to take an answer, as over REST.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long calls under way may take to end when the socket is about to be closed.
const FINISH_TIME_MAX: Duration = Duration::from_secs(31);

/// A socket whose client is known.
struct Socket {
    ws: Ws,
    calls: Arc<Calls>,
    connection: Connection,
    subscription: Option<Subscription>,
    /// Calls under way.
    running: JoinSet<CallEnd>,
    names: HashMap<String, AbortHandle>,
    ping: Sleep,
    heard: Timestamp,
    /// Frames that were taken since others had their turn.
    taken: usize,
}

struct Subscription {
    id: String,
    feed: Feed,
}

/// How a call ends.
struct CallEnd {
    frame: Bytes,
    /// Did it take anything of the caller's minute?
    counted: bool,
}

/// A call that has ended, and its task.
type FinishedCall = Result<(Id, CallEnd), JoinError>;

/// What happened next.
enum SocketEvent {
    Received(Option<Result<Message, Error>>),
    Events(Result<Vec<Arc<Frame>>, StoreError>),
    Finished(FinishedCall),
    Ping,
    Close(Close),
}

/// Why a socket ends: the server closes it, or the client has gone.
enum SocketEnd {
    Close(Close),
    Gone,
}

/// Serves a socket until either side ends it.
pub(crate) async fn serve(ws: Ws, calls: Arc<Calls>, connection: Connection) {
    let clock = &calls.engine.clock;
    let (ping, heard) = (clock.sleep(PING_EVERY), clock.now());
    let (running, names) = (JoinSet::new(), HashMap::new());
    let mut socket =
        Socket { ws, calls, connection, subscription: None, running, names, ping, heard, taken: 0 };
    if let SocketEnd::Close(close) = socket.serve().await {
        if close.retry() {
            socket.finish_calls().await;
        }
        closing(&mut socket.ws, close).await;
    }
}

impl Socket {
    async fn serve(&mut self) -> SocketEnd {
        let ready = ServerFrame::Ready(Ready {
            account_id: self.connection.account(),
            ping_seconds: PING_EVERY.as_secs(),
            idle_seconds: IDLE_MAX.as_secs(),
            life_seconds: STREAM_LIFE_MAX.as_secs(),
            calls_max: CALLS_MAX,
            frame_bytes_max: self.ws.get_config().max_frame_size.unwrap_or(FRAME_BYTES_MAX),
        });
        let mut sent = self.send([text(ready.text())]).await;
        loop {
            if let Err(end) = sent {
                return end;
            }
            if self.connection.refusals.are_too_many() {
                return SocketEnd::Close(Close::TooMany);
            }
            sent = match self.next().await {
                SocketEvent::Received(received) => Box::pin(self.received(received)).await,
                SocketEvent::Events(events) => self.events(events).await,
                SocketEvent::Finished(ended) => self.ended(ended).await,
                SocketEvent::Ping => self.ping().await,
                SocketEvent::Close(close) => Err(SocketEnd::Close(close)),
            };
        }
    }

    async fn next(&mut self) -> SocketEvent {
        let engine = &self.calls.engine;
        let feed = self.subscription.as_mut().map(|subscription| &mut subscription.feed);
        let events = OptionFuture::from(feed.map(|feed| feed.next(engine)));
        let (ws, running, ping) = (&mut self.ws, &mut self.running, &mut self.ping);
        let other = async {
            tokio::select! {
                received = ws.next() => SocketEvent::Received(received),
                Some(events) = events => SocketEvent::Events(events),
                Some(ended) = running.join_next_with_id() => SocketEvent::Finished(ended),
                () = ping.as_mut() => SocketEvent::Ping,
            }
        };
        tokio::select! {
            biased;
            end = self.connection.ended() => SocketEvent::Close(Close::of_end(end)),
            next = other => next,
        }
    }

    /// Sends all of it. While the client takes nothing nothing else is done for it; only an end is not waited for.
    async fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Result<(), SocketEnd> {
        let ws = &mut self.ws;
        let messages = messages.into_iter();
        let sending = async {
            for message in messages {
                ws.feed(message).await?;
            }
            ws.flush().await
        };
        // In this order: what leaves at once, which is nearly everything, needs no clock.
        tokio::select! {
            biased;
            sent = sending => sent.map_err(|_| SocketEnd::Gone),
            end = self.connection.ended() => Err(SocketEnd::Close(Close::of_end(end))),
            () = self.calls.engine.clock.sleep(IDLE_MAX) => Err(SocketEnd::Gone),
        }
    }

    /// Answers a call that has ended. One that was cancelled has its answer already, and its id may be reused by now.
    async fn ended(&mut self, ended: FinishedCall) -> Result<(), SocketEnd> {
        let (task, end) = match ended {
            Ok((task, end)) => (task, Some(end)),
            Err(error) => (error.id(), None),
        };
        let known = self.names.iter().find(|(_, call)| call.id() == task).map(|(id, _)| id.clone());
        let Some(id) = known else { return Ok(()) };
        self.names.remove(&id);
        let end = end.unwrap_or_else(|| {
            let problem = Problem::internal("a call that panicked");
            CallEnd { frame: frames::error(&id, &problem.to_json("")), counted: true }
        });
        self.connection.refusals.note(!end.counted);
        let sending = text(end.frame);
        // Whoever asks takes the answer: many that wait would cost more than events do.
        tokio::time::timeout(ANSWER_TIME_MAX, self.send([sending])).await.unwrap_or(Err(SocketEnd::Gone))
    }

    /// Lets the calls under way end, and answers them.
    async fn finish_calls(&mut self) {
        let finishing = async {
            while let Some(ended) = self.running.join_next_with_id().await {
                let Ok((task, end)) = ended else { continue };
                if self.names.values().any(|call| call.id() == task)
                    && self.ws.send(text(end.frame)).await.is_err()
                {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(FINISH_TIME_MAX, finishing).await;
    }

    async fn events(&mut self, events: Result<Vec<Arc<Frame>>, StoreError>) -> Result<(), SocketEnd> {
        match events {
            Ok(events) => {
                let frames: Vec<_> =
                    events.iter().map(|frame| text(frame.shape(Shape::Socket, frames::event))).collect();
                self.send(frames).await
            }
            Err(error) => {
                let id = self.subscription.take().map(|subscription| subscription.id).unwrap_or_default();
                self.send([text(frames::error(&id, &log_unreadable(&error).to_json("")))]).await?;
                Err(SocketEnd::Close(Close::Unavailable))
            }
        }
    }

    async fn ping(&mut self) -> Result<(), SocketEnd> {
        let clock = &self.calls.engine.clock;
        self.ping = clock.sleep(PING_EVERY);
        if clock.now().since(self.heard) >= IDLE_MAX {
            // Whatever else would have ended it counts for more.
            let other = self.connection.ended().now_or_never().map(Close::of_end);
            return Err(SocketEnd::Close(other.unwrap_or(Close::Idle)));
        }
        self.send([Message::Ping(Bytes::new())]).await
    }

    async fn received(&mut self, received: Option<Result<Message, Error>>) -> Result<(), SocketEnd> {
        self.heard = self.calls.engine.clock.now();
        self.taken += 1;
        if self.taken >= FRAMES_AT_ONCE {
            // Many may have come at once.
            self.taken = 0;
            tokio::task::yield_now().await;
        }
        match received {
            Some(Ok(Message::Text(frame))) => self.read(frame.into()).await,
            Some(Ok(Message::Binary(_))) => {
                let problem = Problem::new(Code::BadRequest, "Frames are text: JSON in UTF-8.");
                self.refuse("", &problem).await
            }
            // The library answers pings by itself, with what is sent next; we send it now.
            Some(Ok(Message::Ping(_))) => self.send([]).await,
            Some(Ok(Message::Pong(_) | Message::Frame(_))) => Ok(()),
            Some(Ok(Message::Close(_))) => {
                // The answer to it is there already; it only has to leave.
                let _ = tokio::time::timeout(CLOSE_TIME_MAX, self.ws.flush()).await;
                Err(SocketEnd::Gone)
            }
            Some(Err(error)) => {
                broken(&mut self.ws, &error).await;
                Err(SocketEnd::Gone)
            }
            None => Err(SocketEnd::Gone),
        }
    }

    async fn read(&mut self, frame: Bytes) -> Result<(), SocketEnd> {
        let read = parse(self.connection.credential().caller(), frame, InboundFrame::read).await;
        match read {
            Ok(Ok(frame)) => self.take(frame).await,
            Ok(Err(error)) => self.refuse(&error.id, &error.problem).await,
            Err(problem) => self.refuse("", &problem).await,
        }
    }

    /// Refuses a frame that nothing counts.
    async fn refuse(&mut self, id: &str, problem: &Problem) -> Result<(), SocketEnd> {
        self.connection.refusals.note(true);
        self.send_problem(id, problem).await
    }

    async fn send_problem(&mut self, id: &str, problem: &Problem) -> Result<(), SocketEnd> {
        self.send([text(frames::error(id, &problem.to_json("")))]).await
    }

    async fn take(&mut self, frame: InboundFrame) -> Result<(), SocketEnd> {
        match frame {
            InboundFrame::Auth(_) => {
                let message = "The client is known already.";
                let problem = Problem::failed_precondition("AUTHENTICATED", "gateway", message, []);
                self.refuse("", &problem).await
            }
            InboundFrame::Call(call, params) => self.call(call, params).await,
            InboundFrame::Cancel(cancel) => match self.names.remove(&cancel.id) {
                Some(call) => {
                    call.abort();
                    let problem = Problem::new(Code::Cancelled, "The call was taken back.");
                    self.refuse(&cancel.id, &problem).await
                }
                // It has ended just now; its answer is under way.
                None => Ok(()),
            },
            InboundFrame::Subscribe(subscribe) => {
                let id = subscribe.id.clone();
                match self.subscribe(subscribe).await {
                    Ok(frames) => self.send(frames).await,
                    Err(problem) if Refusals::is_one(problem.code().status()) => {
                        self.refuse(&id, &problem).await
                    }
                    Err(problem) => self.send_problem(&id, &problem).await,
                }
            }
            InboundFrame::Unsubscribe(unsubscribe) => {
                let known = self.subscription.take_if(|subscription| subscription.id == unsubscribe.id);
                if known.is_some() {
                    return self.send([text(frames::answer(&unsubscribe.id, b"{}"))]).await;
                }
                let problem = Problem::not_found("subscription", &unsubscribe.id);
                self.refuse(&unsubscribe.id, &problem).await
            }
        }
    }

    async fn subscribe(&mut self, subscribe: Subscribe) -> Result<Vec<Message>, Problem> {
        let account = self.connection.account();
        self.calls.count_subscription(self.connection.credential(), account).await?;
        self.connection.refusals.note(false);
        if self.subscription.is_some() {
            let message = "The socket has a subscription already; end it first.";
            return Err(Problem::failed_precondition("SUBSCRIBED", "gateway", message, []));
        }
        let filter = Filter::parse(&self.calls.engine.registry, &subscribe.types)?;
        let start = match subscribe.after.as_deref() {
            None | Some("") => Start::Now,
            Some(after) => after.parse().map_err(|message: String| Problem::field("after", message))?,
        };
        let (hub, engine) = (&self.calls.connections.events.hub, &self.calls.engine);
        let (feed, resync) = Feed::open(hub, engine, self.connection.account(), &start, filter).await?;
        let cursor = match (&start, &resync) {
            (Start::After(cursor), None) => cursor.clone(),
            _ => Cursor::at(feed.position()),
        };
        let result = format!(r#"{{"cursor":"{cursor}"}}"#);
        let mut frames = vec![text(frames::answer(&subscribe.id, result.as_bytes()))];
        frames.extend(resync.map(|resync| text(ServerFrame::Resync(resync).text())));
        self.subscription = Some(Subscription { id: subscribe.id, feed });
        Ok(frames)
    }

    async fn call(&mut self, call: CallFrame, params: Fields) -> Result<(), SocketEnd> {
        if self.names.contains_key(&call.id) {
            let problem = Problem::new(Code::Conflict, "A call of this id is under way.");
            return self.refuse(&call.id, &problem).await;
        }
        if self.names.len() >= CALLS_MAX {
            return self.refuse(&call.id, &too_many_calls(CALLS_MAX, "socket")).await;
        }
        let (calls, credential) = (self.calls.clone(), self.connection.credential().clone());
        let id = call.id.clone();
        let running = self.running.spawn(async move {
            let idempotency_key = call.idempotency_key.as_deref();
            let rpc = RpcCall { method: &call.method, fields: params, idempotency_key };
            match calls.call(&credential, rpc).await {
                RpcAnswer::Answer(answer) => {
                    CallEnd { frame: frames::answer(&call.id, &answer), counted: true }
                }
                RpcAnswer::Refusal { problem, counted } => {
                    CallEnd { frame: frames::error(&call.id, &problem), counted }
                }
            }
        });
        self.names.insert(id, running);
        Ok(())
    }
}
