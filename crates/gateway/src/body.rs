//! Request bodies, bounded in size and time.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Body;
use portico_kernel::{Code, Problem};

/// A request body is at most 2 MiB (SPEC.md, Limits).
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
    pub(crate) fn check_declared(&self, limit: usize) -> Result<(), Problem> {
        if self.inner.size_hint().lower() > limit as u64 { Err(too_large(limit)) } else { Ok(()) }
    }

    /// Reads a body of at most `limit` bytes; stops reading at the first byte too many.
    pub(crate) async fn read(&mut self, limit: usize) -> Result<Bytes, Problem> {
        self.check_declared(limit)?;
        if self.ended {
            return Ok(Bytes::new());
        }
        tokio::time::timeout(BODY_TIME_MAX, self.read_frames(limit)).await.unwrap_or_else(|_| {
            Err(Problem::field("body", format!("did not arrive within {} seconds", BODY_TIME_MAX.as_secs())))
        })
    }

    async fn read_frames(&mut self, limit: usize) -> Result<Bytes, Problem> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = self.inner.frame().await {
            let frame =
                frame.map_err(|error| Problem::field("body", format!("did not arrive whole: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(too_large(limit));
            }
            bytes.extend_from_slice(&data);
        }
        self.ended = true;
        Ok(bytes.freeze())
    }
}

fn too_large(limit: usize) -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("The body is larger than {limit} bytes."))
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
