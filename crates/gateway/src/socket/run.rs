//! A socket at work.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use portico_engine::input::Fields;
use portico_events::limits::{IDLE_MAX, PING_EVERY, STREAM_LIFE_MAX};
use portico_events::{Cursor, Feed, Filter, Frame, Shape, Start};
use portico_kernel::{Code, Problem, Sleep, Timestamp};
use portico_store::StoreError;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::frames::{self, CallFrame, Ready, Received, ServerFrame, Subscribe};
use super::{CLOSE_TIME_MAX, Close, broken, closing, text};
use crate::calls::{Calls, Named, Outcome};
use crate::carried::{FRAME_BYTES_MAX, Ws};
use crate::lines::{Line, Lines, log_unreadable};

/// Calls of one socket under way at once.
const CALLS_MAX: usize = 16;
/// How long a client may take to take an answer, as over REST.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How long calls under way may take to end when the socket is about to be closed.
const FINISH_TIME_MAX: Duration = Duration::from_secs(31);

/// A socket whose client is known.
struct Socket {
    ws: Ws,
    calls: Arc<Calls>,
    lines: Arc<Lines>,
    line: Line,
    subscription: Option<Subscription>,
    /// Calls under way: each ends with its frame.
    running: JoinSet<Bytes>,
    names: HashMap<String, AbortHandle>,
    ping: Sleep,
    heard: Timestamp,
}

struct Subscription {
    id: String,
    feed: Feed,
}

/// A call that has ended: its task and its frame.
type Ended = Result<(Id, Bytes), JoinError>;

/// What happened next.
enum Next {
    Received(Option<Result<Message, Error>>),
    Events(Result<Vec<Arc<Frame>>, StoreError>),
    Ended(Ended),
    Ping,
    Close(Close),
}

/// Why a socket ends: the server closes it, or the client has gone.
enum Over {
    Close(Close),
    Gone,
}

pub(super) async fn run(ws: Ws, calls: Arc<Calls>, lines: Arc<Lines>, line: Line) {
    let clock = &calls.engine.clock;
    let (ping, heard) = (clock.sleep(PING_EVERY), clock.now());
    let (running, names) = (JoinSet::new(), HashMap::new());
    let mut socket = Socket { ws, calls, lines, line, subscription: None, running, names, ping, heard };
    if let Over::Close(close) = socket.serve().await {
        if close.retry() {
            socket.finish_calls().await;
        }
        closing(&mut socket.ws, close).await;
    }
}

impl Socket {
    async fn serve(&mut self) -> Over {
        let ready = ServerFrame::Ready(Ready {
            account_id: self.line.account(),
            ping_seconds: PING_EVERY.as_secs(),
            idle_seconds: IDLE_MAX.as_secs(),
            life_seconds: STREAM_LIFE_MAX.as_secs(),
            calls_max: CALLS_MAX,
            frame_bytes_max: self.ws.get_config().max_frame_size.unwrap_or(FRAME_BYTES_MAX),
        });
        let mut sent = self.send([text(ready.text())]).await;
        loop {
            if let Err(over) = sent {
                return over;
            }
            sent = match self.next().await {
                Next::Received(received) => Box::pin(self.received(received)).await,
                Next::Events(events) => self.events(events).await,
                Next::Ended(ended) => self.ended(ended).await,
                Next::Ping => self.ping().await,
                Next::Close(close) => Err(Over::Close(close)),
            };
        }
    }

    async fn next(&mut self) -> Next {
        let engine = &self.calls.engine;
        let subscription = &mut self.subscription;
        let events = async {
            match subscription {
                Some(subscription) => subscription.feed.next(engine).await,
                None => std::future::pending().await,
            }
        };
        let (ws, running, ping) = (&mut self.ws, &mut self.running, &mut self.ping);
        let other = async {
            tokio::select! {
                received = ws.next() => Next::Received(received),
                events = events => Next::Events(events),
                Some(ended) = running.join_next_with_id() => Next::Ended(ended),
                () = ping.as_mut() => Next::Ping,
            }
        };
        tokio::select! {
            biased;
            end = self.line.ended() => Next::Close(Close::of_end(end)),
            next = other => next,
        }
    }

    /// Sends all of it. While the client takes nothing nothing else is done for it; only an end is not waited for.
    async fn send(&mut self, messages: impl IntoIterator<Item = Message>) -> Result<(), Over> {
        let ws = &mut self.ws;
        let messages = messages.into_iter();
        let sending = async {
            for message in messages {
                ws.feed(message).await?;
            }
            ws.flush().await
        };
        tokio::select! {
            sent = sending => sent.map_err(|_| Over::Gone),
            end = self.line.ended() => Err(Over::Close(Close::of_end(end))),
            () = self.calls.engine.clock.sleep(IDLE_MAX) => Err(Over::Gone),
        }
    }

    /// Answers a call that has ended. One that was taken back has its answer already, and its id may be another's by now.
    async fn ended(&mut self, ended: Ended) -> Result<(), Over> {
        let (task, frame) = match ended {
            Ok((task, frame)) => (task, Some(frame)),
            Err(error) => (error.id(), None),
        };
        let known = self.names.iter().find(|(_, call)| call.id() == task).map(|(id, _)| id.clone());
        let Some(id) = known else { return Ok(()) };
        self.names.remove(&id);
        let frame = frame.unwrap_or_else(|| frames::error(&id, &Problem::internal("a call that panicked")));
        let sending = text(frame);
        // Whoever asks takes the answer: many that wait would cost more than events do.
        tokio::time::timeout(ANSWER_TIME_MAX, self.send([sending])).await.unwrap_or(Err(Over::Gone))
    }

    /// Lets the calls under way end, and answers them.
    async fn finish_calls(&mut self) {
        let finishing = async {
            while let Some(ended) = self.running.join_next_with_id().await {
                let Ok((task, frame)) = ended else { continue };
                if self.names.values().any(|call| call.id() == task)
                    && self.ws.send(text(frame)).await.is_err()
                {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(FINISH_TIME_MAX, finishing).await;
    }

    async fn events(&mut self, events: Result<Vec<Arc<Frame>>, StoreError>) -> Result<(), Over> {
        match events {
            Ok(events) => {
                let frames: Vec<_> =
                    events.iter().map(|frame| text(frame.shape(Shape::Socket, frames::event))).collect();
                self.send(frames).await
            }
            Err(error) => {
                let id = self.subscription.take().map(|subscription| subscription.id).unwrap_or_default();
                self.send([text(frames::error(&id, &log_unreadable(&error)))]).await?;
                Err(Over::Close(Close::Unavailable))
            }
        }
    }

    async fn ping(&mut self) -> Result<(), Over> {
        let clock = &self.calls.engine.clock;
        self.ping = clock.sleep(PING_EVERY);
        if clock.now().since(self.heard) >= IDLE_MAX {
            // Whatever else would have ended it counts for more.
            let other = self.line.ended().now_or_never().map(Close::of_end);
            return Err(Over::Close(other.unwrap_or(Close::Idle)));
        }
        self.send([Message::Ping(Bytes::new())]).await
    }

    async fn received(&mut self, received: Option<Result<Message, Error>>) -> Result<(), Over> {
        self.heard = self.calls.engine.clock.now();
        match received {
            Some(Ok(Message::Text(frame))) => match Received::read(frame.as_bytes()) {
                Ok(frame) => self.take(frame).await,
                Err(unread) => self.refuse(&unread.id, &unread.problem).await,
            },
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
                Err(Over::Gone)
            }
            Some(Err(error)) => {
                broken(&mut self.ws, &error).await;
                Err(Over::Gone)
            }
            None => Err(Over::Gone),
        }
    }

    async fn refuse(&mut self, id: &str, problem: &Problem) -> Result<(), Over> {
        self.send([text(frames::error(id, problem))]).await
    }

    async fn take(&mut self, frame: Received) -> Result<(), Over> {
        match frame {
            Received::Auth(_) => {
                let words = "The client is known already.";
                let problem = Problem::failed_precondition("AUTHENTICATED", "gateway", words, []);
                self.refuse("", &problem).await
            }
            Received::Call(call, params) => self.call(call, params).await,
            Received::Cancel(cancel) => match self.names.remove(&cancel.id) {
                Some(call) => {
                    call.abort();
                    let problem = Problem::new(Code::Cancelled, "The call was taken back.");
                    self.refuse(&cancel.id, &problem).await
                }
                // It has ended just now; its answer is under way.
                None => Ok(()),
            },
            Received::Subscribe(subscribe) => {
                let id = subscribe.id.clone();
                match self.subscribe(subscribe).await {
                    Ok(frames) => self.send(frames).await,
                    Err(problem) => self.refuse(&id, &problem).await,
                }
            }
            Received::Unsubscribe(unsubscribe) => {
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
        if self.subscription.is_some() {
            let words = "The socket has a subscription already; end it first.";
            return Err(Problem::failed_precondition("SUBSCRIBED", "gateway", words, []));
        }
        let filter = Filter::types(&subscribe.types)?;
        let start = match subscribe.after.as_deref() {
            None | Some("") => Start::Now,
            Some(after) => after.parse().map_err(|words: String| Problem::field("after", words))?,
        };
        let (hub, engine) = (&self.lines.events.hub, &self.calls.engine);
        let (feed, resync) = Feed::open(hub, engine, self.line.account(), &start, filter).await?;
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

    async fn call(&mut self, call: CallFrame, params: Fields) -> Result<(), Over> {
        if self.names.contains_key(&call.id) {
            let problem = Problem::new(Code::Conflict, "A call of this id is under way.");
            return self.refuse(&call.id, &problem).await;
        }
        if self.names.len() >= CALLS_MAX {
            let words = format!("There are {CALLS_MAX} calls under way on this socket.");
            let metadata = [("limit", CALLS_MAX.to_string())];
            let problem = Problem::new(Code::RateLimited, words).with_info("CALL_LIMIT", "gateway", metadata);
            return self.refuse(&call.id, &problem).await;
        }
        let (calls, bearer) = (self.calls.clone(), self.line.bearer().clone());
        let id = call.id.clone();
        let running = self.running.spawn(async move {
            let idempotency_key = call.idempotency_key.as_deref();
            let named = Named { method: &call.method, fields: params, idempotency_key };
            match calls.call(&bearer, named).await {
                Ok(Outcome::Answer(answer)) => frames::answer(&call.id, &answer),
                Ok(Outcome::Refusal(problem)) => frames::error_text(&call.id, &problem),
                Err(problem) => frames::error(&call.id, &problem),
            }
        });
        self.names.insert(id, running);
        Ok(())
    }
}
