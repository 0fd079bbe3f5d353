//! Server-sent events.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::OptionFuture;
use futures_util::stream;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, Response};
use portico_engine::Engine;
use portico_engine::input::{Fields, Node};
use portico_events::limits::PING_EVERY;
use portico_events::{Cursor, Feed, Filter, Frame, Resync, Shape, Start, StreamParams};
use portico_kernel::{Problem, Sleep, Timestamp};

use crate::calls::Calls;
use crate::connections::{Connection, log_unreadable};
use crate::credential::Credential;
use crate::outgoing::{HttpAnswer, Outgoing};
use crate::response;
use crate::scope::CallScope;
use crate::transport::Transport;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// What may be on its way to the peer before the next events are taken.
const UNTAKEN_BYTES_MAX: u64 = 16 << 10;
/// How long a client waits before it comes back, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// A stream, from when it is opened to its end.
struct Sse {
    engine: Arc<Engine>,
    connection: Connection,
    feed: Feed,
    ping: Sleep,
    /// When anything was sent last: only a quiet connection is pinged.
    sent_at: Timestamp,
    /// What goes out before anything else.
    first: Option<Bytes>,
    /// The number up to which the client knows where it stands.
    told: i64,
    ended: bool,
    request_id: Box<str>,
    backlog: Option<Backlog>,
}

/// What was given to the connection, and its peer may not have taken yet.
struct Backlog {
    transport: Transport,
    /// How many bytes the connection had written when the stream began, and how many were given to it since.
    begun: u64,
    given: u64,
}

impl Backlog {
    fn new(transport: Transport) -> Self {
        transport.set_streaming(true);
        Self { begun: transport.written(), transport, given: 0 }
    }

    /// Waits until the peer has taken most of it. The library would buffer more than a stalled peer is worth.
    async fn drained(&self) {
        while self.given.saturating_sub(self.transport.written() - self.begun) > UNTAKEN_BYTES_MAX {
            self.transport.drained().await;
        }
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.transport.set_streaming(false);
    }
}

/// The header wins over the field, because a client that comes back repeats the address as it was.
pub(crate) fn resume_from_header(headers: &HeaderMap, fields: &mut Fields) -> Result<(), Problem> {
    let mut ids = headers.get_all(LAST_EVENT_ID).iter();
    let Some(id) = ids.next() else { return Ok(()) };
    let malformed =
        || Problem::field("Last-Event-ID", "must be one `id` that a stream gave, or the id of an event");
    let id = id.to_str().ok().filter(|_| ids.next().is_none()).ok_or_else(malformed)?;
    if !id.is_empty() {
        id.parse::<Start>().map_err(|_| malformed())?;
        fields.insert("after".to_owned(), Node::Texts(vec![id.to_owned()]));
    }
    Ok(())
}

/// Takes a slot and opens the stream.
pub(crate) async fn open(
    calls: &Calls,
    credential: &Credential,
    opening: &StreamParams,
    parts: &Parts,
    request_id: &str,
) -> Result<HttpAnswer, Problem> {
    let (engine, connections) = (&calls.engine, &calls.connections);
    let transport = parts.extensions.get::<Transport>().cloned();
    let connection = connections.open(engine, credential, opening.account_id, transport.clone()).await?;
    let filter = Filter::parse(&engine.registry, &opening.types)?;
    let start = match opening.after.as_str() {
        "" => Start::Now,
        after => after.parse().map_err(|message: String| Problem::field("after", message))?,
    };
    let (feed, resync) =
        Feed::open(&connections.events.hub, engine, opening.account_id, &start, filter).await?;
    let backlog = transport.map(Backlog::new);
    let told = feed.position();
    let first = Some(beginning(&start, told, resync.as_ref()));
    let (engine, ping, sent_at) = (engine.clone(), engine.clock.sleep(PING_EVERY), engine.clock.now());
    let request_id = request_id.into();
    let sse = Sse { engine, connection, feed, ping, sent_at, first, told, ended: false, request_id, backlog };
    let begin = |scope: CallScope| -> Outgoing {
        // The call is over: what follows is counted as a connection.
        scope.finish(200, None);
        Outgoing::Stream(Box::pin(stream::unfold(
            sse,
            |mut sse| async move { Some((sse.next().await?, sse)) },
        )))
    };
    let head = response::event_stream(Response::new(Bytes::new()), "no-cache, no-transform");
    Ok(HttpAnswer { head, stream: Some(Box::new(begin)) })
}

/// The first block. Its `id` makes a client that is cut off before the first event come back to this very position.
fn beginning(start: &Start, told: i64, resync: Option<&Resync>) -> Bytes {
    let id = match (start, resync) {
        (Start::After(cursor), None) => cursor.to_string(),
        _ => Cursor::at(told).to_string(),
    };
    let resync = resync.map(|resync| {
        let data = serde_json::to_string(resync).unwrap_or_default();
        format!("event: resync\ndata: {data}\n\n")
    });
    format!("retry: {RETRY_MS}\nid: {id}\n\n{}", resync.unwrap_or_default()).into()
}

/// An event as a block.
fn block(frame: &Frame) -> Bytes {
    let head = format!("id: {}\nevent: {}\ndata: ", frame.cursor(), frame.event_type);
    let mut block = BytesMut::with_capacity(head.len() + frame.envelope.len() + 2);
    block.put_slice(head.as_bytes());
    // It is one line: JSON has its line ends escaped.
    block.put_slice(&frame.envelope);
    block.put_slice(b"\n\n");
    block.freeze()
}

/// A refusal as the last block.
fn error(problem: &Problem, request_id: &str) -> Bytes {
    [b"event: error\ndata: ".as_slice(), &problem.to_json(request_id), b"\n\n"].concat().into()
}

impl Sse {
    /// The next piece of the body; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.ended {
            return None;
        }
        loop {
            let events = async {
                OptionFuture::from(self.backlog.as_ref().map(Backlog::drained)).await;
                self.feed.next(&self.engine).await
            };
            tokio::select! {
                biased;
                end = self.connection.ended() => {
                    self.ended = true;
                    return end.problem().map(|problem| error(&problem, &self.request_id));
                }
                frames = events => return Some(match frames {
                    Ok(frames) => self.blocks(&frames),
                    Err(failure) => {
                        self.ended = true;
                        error(&log_unreadable(&failure), &self.request_id)
                    }
                }),
                () = self.ping.as_mut() => {
                    let clock = &self.engine.clock;
                    let quiet = clock.now().since(self.sent_at);
                    if quiet >= PING_EVERY {
                        return Some(self.ping());
                    }
                    // Not set anew for each event, which would cost more than sending it.
                    self.ping = clock.sleep(PING_EVERY.saturating_sub(quiet));
                }
            }
        }
    }

    fn blocks(&mut self, frames: &[Arc<Frame>]) -> Bytes {
        let blocks = self.written(frames);
        self.backlog.iter_mut().for_each(|backlog| backlog.given += blocks.len() as u64);
        blocks
    }

    fn written(&mut self, frames: &[Arc<Frame>]) -> Bytes {
        self.sent_at = self.engine.clock.now();
        self.told = frames.last().map_or(self.told, |frame| frame.sequence);
        if let [frame] = frames {
            return frame.shape(Shape::Sse, block);
        }
        let mut blocks = BytesMut::with_capacity(frames.iter().map(|frame| frame.size() + 96).sum());
        for frame in frames {
            blocks.put_slice(&frame.shape(Shape::Sse, block));
        }
        blocks.freeze()
    }

    /// A sign of life. Where events of other types went by, it also tells the client how far.
    fn ping(&mut self) -> Bytes {
        self.sent_at = self.engine.clock.now();
        self.ping = self.engine.clock.sleep(PING_EVERY);
        let position = self.feed.position();
        if self.told == position {
            return Bytes::from_static(b":\n\n");
        }
        self.told = position;
        format!(":\nid: {}\n\n", Cursor::at(position)).into()
    }
}
