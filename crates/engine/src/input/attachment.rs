//! What comes beside a message: bytes that are no fields.

use std::collections::BTreeMap;

use bytes::Bytes;
use portico_kernel::{Code, Problem};
use tokio::sync::mpsc;

/// What comes beside the fields of a call.
pub enum Attachment {
    /// The request as it arrived.
    Raw(RawRequest),
    /// Bytes that are read as they arrive.
    Upload(Upload),
}

/// A request as it arrived, whatever its type.
#[derive(Debug)]
pub struct RawRequest {
    /// The method.
    pub method: String,
    /// The headers, their names in lower case; of one that came more than once, the values with commas between them.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Bytes,
}

impl RawRequest {
    /// The request with these headers, as often as each came.
    pub fn new(method: &str, headers: impl IntoIterator<Item = (String, String)>, body: Bytes) -> Self {
        let mut by_name: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in headers {
            by_name
                .entry(name)
                .and_modify(|values| {
                    values.push_str(", ");
                    values.push_str(&value);
                })
                .or_insert(value);
        }
        Self { method: method.to_owned(), headers: by_name, body }
    }
}

/// Bytes that are uploaded. A transport hands them over as they arrive and holds a few pieces at most, so that a slow
/// reader slows the sender down.
pub struct Upload {
    /// The media type that the sender gave; empty for none.
    pub media_type: String,
    /// The length that the sender announced.
    pub length: Option<u64>,
    limit: u64,
    received: u64,
    pieces: mpsc::Receiver<Result<Bytes, Problem>>,
}

/// The sending end of an [`Upload`], for a transport. Dropped before [`UploadSender::finish`], the upload is broken.
pub struct UploadSender(mpsc::Sender<Result<Bytes, Problem>>);

impl UploadSender {
    /// Hands a piece over, once there is room; false when nobody reads any more.
    pub async fn send(&self, piece: Bytes) -> bool {
        self.0.send(Ok(piece)).await.is_ok()
    }

    /// The upload ended: in order, or with what went wrong.
    pub async fn finish(self, end: Result<(), Problem>) {
        // An empty piece is the end; nobody reading is no failure here.
        let _ = self.0.send(end.map(|()| Bytes::new())).await;
    }
}

impl Upload {
    /// Pieces that wait to be read.
    const PIECES_WAITING: usize = 2;

    /// An upload of at most `limit` bytes, and its sending end.
    pub fn channel(media_type: String, length: Option<u64>, limit: u64) -> (UploadSender, Self) {
        let (sender, pieces) = mpsc::channel(Self::PIECES_WAITING);
        (UploadSender(sender), Self { media_type, length, limit, received: 0, pieces })
    }

    /// The next piece; `None` at the end. An upload that is too large or that breaks off fails, and so does the operation.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        let piece =
            self.pieces.recv().await.unwrap_or_else(|| {
                Err(Problem::new(Code::BadRequest, "The upload broke off before its end."))
            })?;
        self.received += piece.len() as u64;
        if self.received > self.limit {
            return Err(too_large(self.limit));
        }
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }
}

/// 413: more bytes than the operation takes.
pub fn too_large(limit: u64) -> Problem {
    Problem::new(Code::PayloadTooLarge, format!("The body is larger than {limit} bytes."))
}
