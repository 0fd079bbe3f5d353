//! Server-sent events.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream;
use http::header::HeaderName;
use http::{HeaderMap, Response};
use portico_engine::Engine;
use portico_engine::input::{Fields, Node};
use portico_events::limits::PING_EVERY;
use portico_events::{Cursor, Feed, Filter, Frame, Opening, Resync, Shape, Start};
use portico_kernel::{Problem, Sleep};
use portico_store::StoreError;

use crate::Connection;
use crate::lines::{Line, Lines, log_unreadable};
use crate::outgoing::{HttpAnswer, Pieces};
use crate::respond;
use crate::scope::CallScope;
use crate::tokens::Bearer;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// What may be on its way to the peer before the next events are taken.
const UNTAKEN_BYTES_MAX: u64 = 16 << 10;
/// How long a client waits before it comes back, in milliseconds.
const RETRY_MS: u32 = 2_000;

/// A stream, from when it is opened to its end.
struct Sse {
    engine: Arc<Engine>,
    line: Line,
    feed: Feed,
    ping: Sleep,
    /// What goes out before anything else.
    first: Option<Bytes>,
    /// The number up to which the client knows where it stands.
    told: i64,
    ended: bool,
    request_id: String,
    connection: Option<Connection>,
    /// How many bytes the connection had written when the stream began, and how many were given to it since.
    begun: u64,
    given: u64,
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.connection.as_ref().inspect(|connection| connection.set_streaming(false));
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
        fields.insert("after".to_owned(), Node::Words(vec![id.to_owned()]));
    }
    Ok(())
}

/// Takes a place and opens the stream.
pub(crate) async fn open(
    lines: &Arc<Lines>,
    engine: &Arc<Engine>,
    bearer: &Bearer,
    opening: &Opening,
    (request_id, connection): (&str, Option<Connection>),
) -> Result<HttpAnswer, Problem> {
    let line = lines.open(engine, bearer, opening.account_id, connection.clone()).await?;
    let filter = Filter::types(&opening.types)?;
    let start = match opening.after.as_str() {
        "" => Start::Now,
        after => after.parse().map_err(|words: String| Problem::field("after", words))?,
    };
    let (feed, resync) = Feed::open(&lines.events.hub, engine, opening.account_id, &start, filter).await?;
    connection.as_ref().inspect(|connection| connection.set_streaming(true));
    let told = feed.position();
    let first = Some(beginning(&start, told, resync.as_ref()));
    let ping = engine.clock.sleep(PING_EVERY);
    let request_id = request_id.to_owned();
    let engine = engine.clone();
    let begun = connection.as_ref().map_or(0, Connection::written);
    let sse =
        Sse { engine, line, feed, ping, first, told, ended: false, request_id, connection, begun, given: 0 };
    let begin = |scope: CallScope| -> Pieces {
        // The call is over: what follows is counted as a connection.
        scope.finish(200, None);
        Box::pin(stream::unfold(sse, |mut sse| async move { Some((sse.next().await?, sse)) }))
    };
    let head = respond::event_stream(Response::new(Bytes::new()), "no-cache, no-transform");
    Ok(HttpAnswer { head, stream: Some(Box::new(begin)) })
}

/// The first block. Its `id` makes a client that is cut off before the first event come back to this very place.
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

/// The next events, once the peer has taken most of those before. The library would buffer more than a stalled peer is
/// worth.
async fn taken(
    feed: &mut Feed,
    engine: &Engine,
    waiting: Option<(&Connection, u64, u64)>,
) -> Result<Vec<Arc<Frame>>, StoreError> {
    if let Some((connection, given, begun)) = waiting {
        while given.saturating_sub(connection.written() - begun) > UNTAKEN_BYTES_MAX {
            connection.drained().await;
        }
    }
    feed.next(engine).await
}

impl Sse {
    /// The next piece of the body; nothing at its end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.ended {
            return None;
        }
        let (given, begun) = (self.given, self.begun);
        let waiting = self.connection.as_ref().map(|connection| (connection, given, begun));
        tokio::select! {
            end = self.line.ended() => {
                self.ended = true;
                end.problem().map(|problem| error(&problem, &self.request_id))
            }
            frames = taken(&mut self.feed, &self.engine, waiting) => Some(match frames {
                Ok(frames) => self.blocks(&frames),
                Err(failure) => {
                    self.ended = true;
                    error(&log_unreadable(&failure), &self.request_id)
                }
            }),
            () = self.ping.as_mut() => Some(self.ping()),
        }
    }

    fn blocks(&mut self, frames: &[Arc<Frame>]) -> Bytes {
        let blocks = self.written(frames);
        self.given += blocks.len() as u64;
        blocks
    }

    fn written(&mut self, frames: &[Arc<Frame>]) -> Bytes {
        self.ping = self.engine.clock.sleep(PING_EVERY);
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
        self.ping = self.engine.clock.sleep(PING_EVERY);
        let position = self.feed.position();
        if self.told == position {
            return Bytes::from_static(b":\n\n");
        }
        self.told = position;
        format!(":\nid: {}\n\n", Cursor::at(position)).into()
    }
}
