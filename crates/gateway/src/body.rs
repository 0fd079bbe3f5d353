//! Request bodies, bounded in size and time.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Body;
use portico_engine::input::{UploadSender, too_large};
use portico_kernel::Problem;

/// A request body is at most 2 MiB (SPEC.md, Limits), unless its operation says otherwise.
pub(crate) const BODY_BYTES_MAX: usize = 2 << 20;
/// A sender slower than this is cut off.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// What a request's body may be: hyper's, or bytes that a test made.
pub trait HttpBody: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send {}

impl<B: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send> HttpBody for B {}

/// The body of a request, which knows whether it was read to its end.
pub(crate) struct RequestBody<B> {
    inner: B,
    ended: bool,
}

impl<B: HttpBody> RequestBody<B> {
    pub(crate) fn new(inner: B) -> Self {
        let ended = inner.is_end_stream();
        Self { inner, ended }
    }

    /// Was it read to its end? An empty one was from the start.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Refuses a body that says it is too large, before any of it is read.
    pub(crate) fn check_declared(&self, limit: u64) -> Result<(), Problem> {
        if self.inner.size_hint().lower() > limit { Err(too_large(limit)) } else { Ok(()) }
    }

    /// The length that the sender announced.
    pub(crate) fn length(&self) -> Option<u64> {
        self.inner.size_hint().exact()
    }

    /// Hands the body over as it arrives, until its end or until nobody reads any more. A sender that pauses for too long
    /// is cut off; how long the whole may take is the operation's own limit.
    pub(crate) async fn pump(&mut self, sender: UploadSender) {
        while !self.ended {
            let frame = tokio::time::timeout(BODY_TIME_MAX, self.inner.frame()).await;
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
        if self.ended {
            return Ok(Bytes::new());
        }
        tokio::time::timeout(BODY_TIME_MAX, self.read_frames(limit)).await.unwrap_or_else(|_| Err(too_slow()))
    }

    async fn read_frames(&mut self, limit: u64) -> Result<Bytes, Problem> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = self.inner.frame().await {
            let frame = frame.map_err(|error| broken(&error))?;
            let Ok(data) = frame.into_data() else { continue };
            if (bytes.len() + data.len()) as u64 > limit {
                return Err(too_large(limit));
            }
            bytes.extend_from_slice(&data);
        }
        self.ended = true;
        Ok(bytes.freeze())
    }
}

fn too_slow() -> Problem {
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
