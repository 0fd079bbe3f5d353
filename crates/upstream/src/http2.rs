//! HTTP/2 to a target: connections that many calls share.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame};

use crate::deadline::Deadline;
use crate::failure::{AnswerError, Fault};
use crate::http1::{Upload, content_length};
use crate::io::Io;
use crate::{HEAD_BYTES_MAX, HEADERS_MAX};

/// Calls that share a connection. Their windows together are that of the connection, so that none waits for another one
/// whose caller does not read.
const STREAMS_MAX: u8 = 100;
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = STREAMS_MAX as u32 * STREAM_WINDOW;
/// Calls before the target has said how many it takes. More would wait for the first of them to end.
const STREAMS_AT_FIRST: usize = 1;
/// Calls given up whose late answers are passed over; beyond them, the library counts each as a fault of the target.
const RESET_STREAMS_MAX: usize = 1_000;
/// What of a request waits for the target.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// After how many sweeps a connection without a call is closed: a minute.
const IDLE_SWEEPS: u32 = 60;

/// The connections to one target that speak HTTP/2.
#[derive(Debug, Default)]
pub(crate) struct Http2Pool {
    connections: Mutex<Vec<Arc<Http2Connection>>>,
    /// Has the target chosen it before?
    is_spoken: AtomicBool,
    /// One is opened at a time, since the next calls may share it.
    pub(crate) opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Http2Connection {
    sender: SendRequest<Bytes>,
    streams: AtomicUsize,
    /// It takes no more calls.
    is_over: Arc<AtomicBool>,
    /// Sweeps that found it without a call.
    idle: AtomicU32,
}

/// The place of a call on a connection.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Http2Connection>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slot {
    /// No further call goes this way. Those that do go on.
    pub(crate) fn retire(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Http2Connection {
    fn take(self: &Arc<Self>) -> Option<Slot> {
        let room = usize::from(STREAMS_MAX).min(self.sender.current_max_send_streams());
        let grow = |streams: usize| (streams < room).then_some(streams + 1);
        self.streams.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow).ok()?;
        self.idle.store(0, Ordering::Relaxed);
        Some(Slot(self.clone()))
    }
}

impl Http2Pool {
    /// Does the target speak it, as far as is known?
    pub(crate) fn is_spoken(&self) -> bool {
        self.is_spoken.load(Ordering::Relaxed)
    }

    /// A place on an open connection.
    pub(crate) fn take(&self) -> Option<Slot> {
        if !self.is_spoken() {
            return None;
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.is_over.load(Ordering::Relaxed));
        connections.iter().find_map(Http2Connection::take)
    }

    /// Speaks HTTP/2 over a stream, and takes the first place.
    pub(crate) async fn open(&self, io: Io) -> Result<Slot, h2::Error> {
        let handshake = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            .max_send_buffer_size(SEND_BUFFER_BYTES)
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX)
            .enable_push(false)
            .handshake(io);
        let (sender, connection) = handshake.await?;
        let is_over = Arc::new(AtomicBool::new(false));
        let has_ended = is_over.clone();
        // It ends when nobody holds the sender any more.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP/2 connection to a target ended early");
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        let connection = Arc::new(Http2Connection {
            sender,
            streams: AtomicUsize::new(1),
            is_over,
            idle: AtomicU32::new(0),
        });
        self.is_spoken.store(true, Ordering::Relaxed);
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection.clone());
        Ok(Slot(connection))
    }

    /// Closes connections that no call has used for a while.
    pub(crate) fn sweep(&self) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| {
            let is_idle = connection.streams.load(Ordering::Relaxed) == 0;
            let sweeps = if is_idle { connection.idle.fetch_add(1, Ordering::Relaxed) } else { 0 };
            sweeps < IDLE_SWEEPS && !connection.is_over.load(Ordering::Relaxed)
        });
    }
}

/// Why the body of a request could not be sent.
#[derive(Debug, PartialEq, Eq)]
enum WriteError {
    /// The stream takes no more.
    Closed,
    /// The body broke off.
    Body,
}

/// The body of a request on its way.
struct Writer {
    stream: SendStream<Bytes>,
    piece: Bytes,
    written: u64,
    waits_for_body: bool,
    /// A body that was looked at cannot be sent again.
    is_touched: bool,
}

impl Writer {
    fn poll<B>(&mut self, cx: &mut Context<'_>, body: &mut B) -> Poll<Result<(), WriteError>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            self.waits_for_body = false;
            while !self.piece.is_empty() {
                if self.stream.capacity() == 0 {
                    self.stream.reserve_capacity(self.piece.len());
                    match ready!(self.stream.poll_capacity(cx)) {
                        Some(Ok(_)) => continue,
                        _ => return Poll::Ready(Err(WriteError::Closed)),
                    }
                }
                let piece = self.piece.split_to(self.stream.capacity().min(self.piece.len()));
                self.written += piece.len() as u64;
                let is_last = self.piece.is_empty() && body.is_end_stream();
                self.stream.send_data(piece, is_last).map_err(|_| WriteError::Closed)?;
                if is_last {
                    return Poll::Ready(Ok(()));
                }
            }
            self.is_touched = true;
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => {
                    self.waits_for_body = true;
                    // A target that gives the stream up is not asked for room.
                    return match self.stream.poll_reset(cx) {
                        Poll::Ready(_) => Poll::Ready(Err(WriteError::Closed)),
                        Poll::Pending => Poll::Pending,
                    };
                }
                Poll::Ready(Some(Ok(frame))) => self.piece = frame.into_data().unwrap_or_default(),
                Poll::Ready(Some(Err(_))) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(WriteError::Body));
                }
                Poll::Ready(None) => {
                    let sent = self.stream.send_data(Bytes::new(), true);
                    return Poll::Ready(sent.map_err(|_| WriteError::Closed));
                }
            }
        }
    }
}

/// Sends the request, whose body may go on while the answer comes, and waits for the head of the answer.
pub(crate) async fn exchange<B>(
    slot: Slot,
    request: Request<()>,
    body: &mut Option<B>,
    mut deadline: Deadline<'_>,
) -> Result<Response<Http2Body>, Fault>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    let Some(sent) = body.as_mut() else { return Err(Fault::RequestBroke) };
    let is_head = request.method() == Method::HEAD;
    let is_empty = sent.is_end_stream();
    let mut sender = slot.0.sender.clone();
    let Ok((mut answer, stream)) = sender.send_request(request, is_empty) else {
        slot.retire();
        return Err(Fault::Unsent);
    };
    let mut writer =
        Writer { stream, piece: Bytes::new(), written: 0, waits_for_body: false, is_touched: false };
    let mut is_writing = !is_empty;
    let answer = poll_fn(|cx| {
        if is_writing {
            let before = writer.written;
            match writer.poll(cx, sent) {
                Poll::Ready(Err(WriteError::Body)) => return Poll::Ready(Err(Fault::RequestBroke)),
                Poll::Ready(_) => {
                    is_writing = false;
                    deadline.restart();
                }
                Poll::Pending if writer.waits_for_body => deadline.pause(),
                Poll::Pending if writer.written != before || deadline.is_paused() => deadline.restart(),
                Poll::Pending => {}
            }
        }
        match Pin::new(&mut answer).poll(cx) {
            Poll::Ready(Ok(answer)) => return Poll::Ready(Ok(answer)),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(fault(&error, &slot, writer.is_touched))),
            Poll::Pending => {}
        }
        ready!(deadline.poll(cx));
        // The whole connection may be dead.
        slot.retire();
        Poll::Ready(Err(Fault::TimedOut))
    })
    .await?;
    let (mut head, recv) = answer.into_parts();
    let declared = check(&mut head.headers, head.status, is_head).map_err(Fault::BrokenHead)?;
    let upload = body.take().filter(|_| is_writing).map(|mut body| {
        Upload::run(async move {
            let written = poll_fn(|cx| writer.poll(cx, &mut body)).await;
            written == Err(WriteError::Body)
        })
    });
    let is_over = is_head || recv.is_end_stream();
    Ok(Response::from_parts(head, Http2Body { recv, received: 0, declared, is_over, upload, _slot: slot }))
}

/// What an error before the head of an answer means.
fn fault(error: &h2::Error, slot: &Slot, is_touched: bool) -> Fault {
    let is_gone = error.is_go_away() && error.is_remote();
    if is_gone || error.is_io() {
        slot.retire();
    }
    // The target says itself that it has not looked at the request.
    let is_refused = is_gone || error.is_remote() && error.reason() == Some(Reason::REFUSED_STREAM);
    if is_refused && !is_touched {
        Fault::Unsent
    } else if is_refused || error.is_io() {
        Fault::Unanswered
    } else {
        Fault::BrokenHead("it breaks the rules of HTTP/2, or gave the call up")
    }
}

/// The length that the head declares, if it can be understood in one way.
fn check(headers: &mut HeaderMap, status: StatusCode, is_head: bool) -> Result<Option<u64>, &'static str> {
    if status.is_informational() || status.as_u16() >= 600 {
        return Err("the status is none");
    }
    if headers.len() > HEADERS_MAX {
        return Err("the head has too many headers");
    }
    if headers.get_all(CONTENT_LENGTH).iter().count() > 1 {
        return Err("its framing is said twice");
    }
    let declared = headers.get(CONTENT_LENGTH).map(content_length).transpose()?;
    if is_head || status == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    headers.remove(CONTENT_LENGTH);
    Ok(declared)
}

/// The body of an answer over HTTP/2. Dropping it gives the stream up.
#[derive(Debug)]
pub(crate) struct Http2Body {
    recv: RecvStream,
    received: u64,
    declared: Option<u64>,
    is_over: bool,
    upload: Option<Upload>,
    _slot: Slot,
}

impl Http2Body {
    /// Does nothing follow the head?
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many bytes are still to come, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.declared.map(|declared| declared.saturating_sub(self.received))
    }

    /// The next frame; `None` at the end.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Frame<Bytes>>, AnswerError>> {
        if self.upload.as_mut().is_some_and(|upload| upload.poll_broke(cx).is_ready()) {
            return Poll::Ready(Err(AnswerError::RequestBroke));
        }
        match ready!(self.recv.poll_data(cx)) {
            Some(Ok(data)) => {
                // The target may send as much again, now that the caller is there to take it.
                let _ = self.recv.flow_control().release_capacity(data.len());
                self.received += data.len() as u64;
                self.is_over = self.recv.is_end_stream();
                return Poll::Ready(Ok(Some(Frame::data(data))));
            }
            Some(Err(error)) => return Poll::Ready(self.broken(&error)),
            None => {}
        }
        let trailers = ready!(self.recv.poll_trailers(cx));
        self.is_over = true;
        Poll::Ready(match trailers {
            Ok(trailers) => Ok(trailers.map(Frame::trailers)),
            Err(error) => self.broken(&error),
        })
    }

    /// A target that wants no more of the request may give the stream up without an error once its answer is whole. Whether
    /// it was is known by its length alone.
    fn broken(&self, error: &h2::Error) -> Result<Option<Frame<Bytes>>, AnswerError> {
        let is_whole = error.reason() == Some(Reason::NO_ERROR) && self.declared == Some(self.received);
        if is_whole { Ok(None) } else { Err(AnswerError::BrokeOff) }
    }
}
