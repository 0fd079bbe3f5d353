//! Request bodies, bounded in size and time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use portico_engine::Spec;
use portico_engine::input::{UploadSender, too_large};
use portico_kernel::Problem;

/// A sender slower than this is cut off.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// What a request's body may be: hyper's, or bytes that a test made.
pub trait HttpBody: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send + 'static {}

impl<B: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send + 'static> HttpBody for B {}

/// The body of a request, which knows whether it was read to its end.
pub(crate) struct RequestBody<B> {
    /// `None` once somebody else reads it.
    inner: Option<B>,
    ended: bool,
    /// Set by whoever reads it instead, at its end.
    ended_elsewhere: Option<Arc<AtomicBool>>,
}

impl<B: HttpBody> RequestBody<B> {
    pub(crate) fn new(inner: B) -> Self {
        let ended = inner.is_end_stream();
        Self { inner: Some(inner), ended, ended_elsewhere: None }
    }

    /// Was it read to its end? An empty one was from the start.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended || self.ended_elsewhere.as_ref().is_some_and(|ended| ended.load(Ordering::Relaxed))
    }

    /// Gives it to somebody else, who says when it was read to its end; `None` if there is nothing to read.
    pub(crate) fn take(&mut self) -> Option<(B, Arc<AtomicBool>)> {
        let inner = self.inner.take().filter(|_| !self.ended)?;
        let ended = self.ended_elsewhere.insert(Arc::default());
        Some((inner, ended.clone()))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }

    async fn frame(&mut self) -> Option<Result<Frame<Bytes>, B::Error>> {
        self.inner.as_mut()?.frame().await
    }

    /// Refuses a body that says it is too large, before any of it is read.
    pub(crate) fn check_declared(&self, limit: u64) -> Result<(), Problem> {
        if self.size_hint().lower() > limit { Err(too_large(limit)) } else { Ok(()) }
    }

    /// The length that the sender announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.size_hint().exact()
    }

    /// Hands the body over as it arrives, until its end or until nobody reads any more. A sender that pauses for too long
    /// is cut off; how long the whole may take is the operation's own limit.
    pub(crate) async fn pump(&mut self, sender: UploadSender) {
        while !self.ended {
            let frame = tokio::time::timeout(BODY_TIME_MAX, self.frame()).await;
            match frame {
                Ok(None) => self.ended = true,
                Ok(Some(Ok(frame))) => {
                    let piece = frame.into_data().unwrap_or_default();
                    if !piece.is_empty() && !sender.send(piece).await {
                        return;
                    }
                }
                Ok(Some(Err(error))) => return sender.finish(Err(broken(&error))).await,
                Err(_) => return sender.finish(Err(too_slow())).await,
            }
        }
        sender.finish(Ok(())).await;
    }

    /// Reads a body of at most `limit` bytes; stops reading at the first byte too many.
    pub(crate) async fn read(&mut self, limit: u64) -> Result<Bytes, Problem> {
        self.check_declared(limit)?;
        self.read_in_time(limit, limit).await
    }

    /// Reads JSON of at most `limit` bytes. A body that is larger is 400 as far as 2 MiB, and 413 beyond that, which is the
    /// limit of every operation (SPEC.md, Limits). To know which it is it is counted to its end, and not kept.
    pub(crate) async fn read_json(&mut self, limit: u64) -> Result<Bytes, Problem> {
        self.check_declared(Spec::BODY_LIMIT)?;
        if self.size_hint().lower() > limit {
            return Err(useless(limit));
        }
        self.read_in_time(limit, Spec::BODY_LIMIT).await
    }

    async fn read_in_time(&mut self, kept_max: u64, bytes_max: u64) -> Result<Bytes, Problem> {
        if self.ended {
            return Ok(Bytes::new());
        }
        let reading = self.read_frames(kept_max, bytes_max);
        tokio::time::timeout(BODY_TIME_MAX, reading).await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn read_frames(&mut self, kept_max: u64, bytes_max: u64) -> Result<Bytes, Problem> {
        let (mut bytes, mut received) = (BytesMut::new(), 0);
        while let Some(frame) = self.frame().await {
            let frame = frame.map_err(|error| broken(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            received += data.len() as u64;
            if received > bytes_max {
                return Err(too_large(bytes_max));
            }
            if received <= kept_max {
                bytes.extend_from_slice(&data);
            } else {
                bytes = BytesMut::new();
            }
        }
        self.ended = true;
        if received > kept_max { Err(useless(kept_max)) } else { Ok(bytes.freeze()) }
    }
}

fn useless(limit: u64) -> Problem {
    Problem::field(
        "body",
        format!("is larger than {limit} bytes, the most that this operation has a use for"),
    )
}

pub(crate) fn too_slow() -> Problem {
    Problem::field("body", format!("did not arrive within {} seconds", BODY_TIME_MAX.as_secs()))
}

fn broken(error: &impl fmt::Display) -> Problem {
    Problem::field("body", format!("did not arrive whole: {error}"))
}

/// Is the content declared as JSON in UTF-8?
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(content_type), None) = (types.next(), types.next()) else { return false };
    let Ok(content_type) = content_type.to_str() else { return false };
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let utf8 = parts.all(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        !name.eq_ignore_ascii_case("charset") || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    essence.eq_ignore_ascii_case("application/json") && utf8
}
