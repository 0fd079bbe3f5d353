//! Objects at a service that speaks S3.
//!
//! `rusty-s3` signs addresses and reads the XML; the calls themselves go through an [`Egress`] of their own, which may
//! reach every network, because the operator named the endpoint and nobody else can. What is larger than a part is
//! uploaded in parts, of which one is in memory at a time.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{TryStreamExt, stream};
use http::header::{CONTENT_LENGTH, ETAG, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use portico_egress::{
    Egress, EgressError, Limits, Networks, StreamingRequest, StreamingResponse, TrustedRoots,
};
use portico_kernel::{Clock, Secret};
use rusty_s3::actions::{CreateMultipartUpload, ListObjectsV2};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use url::Url;

use crate::limits::{
    S3_ANSWER_BYTES, S3_BACKOFF, S3_CALL_TIME, S3_IDLE_TIME, S3_PART, S3_PARTS_MAX, S3_SIGNATURE_LIFE,
};
use crate::store::{BlobStore, BoxFuture, ByteStream, Object};
use crate::{BlobError, limits};

/// Where our objects are in the bucket, so that others may use it too.
const FOLDER: &str = "blobs/";
const ANSWER: Limits = Limits { time: S3_CALL_TIME, bytes: S3_ANSWER_BYTES };
/// How much of an error that is not XML is told.
const MESSAGE_MAX: usize = 200;

/// Where the service is, and who we are there.
#[derive(Debug, Clone)]
pub struct S3Settings {
    /// The address of the service, such as `https://s3.eu-central-1.amazonaws.com`. It may be `http://`.
    pub endpoint: String,
    /// The region, such as `eu-central-1`. Services without regions take any.
    pub region: String,
    /// The bucket, which must exist.
    pub bucket: String,
    /// The id of the access key.
    pub access_key_id: String,
    /// The access key.
    pub secret_access_key: Secret<String>,
    /// Whether the bucket is named in the path instead of the host.
    pub path_style: bool,
}

/// Keeps objects in a bucket.
pub struct S3Store(Arc<Inner>);

struct Inner {
    bucket: Bucket,
    credentials: Credentials,
    egress: Egress,
    clock: Arc<dyn Clock>,
}

/// A call that is repeated as it is.
#[derive(Clone, Default)]
struct Message {
    headers: HeaderMap,
    body: Bytes,
}

impl S3Store {
    /// Keeps objects where `settings` say; the service may show a certificate of `roots`. It is not called yet.
    pub fn new(settings: S3Settings, roots: &TrustedRoots, clock: Arc<dyn Clock>) -> Result<Self, BlobError> {
        let refuse = |what: &str, error: &dyn fmt::Display| BlobError::Refused(format!("S3 {what}: {error}"));
        let endpoint = Url::parse(&settings.endpoint).map_err(|error| refuse("endpoint", &error))?;
        let style = if settings.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = Bucket::new(endpoint, style, settings.bucket, settings.region)
            .map_err(|error| refuse("bucket", &error))?;
        let everywhere: Networks = "0.0.0.0/0, ::/0".parse().map_err(|error| refuse("networks", &error))?;
        let egress = Egress::new(everywhere, roots);
        egress.check(bucket.base_url().as_str()).map_err(|error| refuse("endpoint", &error))?;
        let credentials =
            Credentials::new(settings.access_key_id, settings.secret_access_key.expose().as_str());
        Ok(Self(Arc::new(Inner { bucket, credentials, egress, clock })))
    }
}

fn path(key: &str) -> String {
    format!("{FOLDER}{key}")
}

fn is_temporary(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 429)
}

/// The text between `<tag>` and its end.
fn element<'a>(xml: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(text, _)| text)
}

/// What the service said, as a message for an operator.
fn describe(status: StatusCode, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let shown: String = match (element(&body, "Code"), element(&body, "Message")) {
        (Some(code), message) => format!("{code}: {}", message.unwrap_or_default()),
        (None, _) => body.chars().take(MESSAGE_MAX).collect(),
    };
    format!("S3 answered {status}, {shown}")
}

fn failure(status: StatusCode, body: &[u8]) -> BlobError {
    let message = describe(status, body);
    if is_temporary(status) { BlobError::Unavailable(message) } else { BlobError::Refused(message) }
}

fn unread(error: &dyn fmt::Display) -> BlobError {
    BlobError::Refused(format!("the answer of S3 cannot be read: {error}"))
}

/// The next part of `body`, which is shorter than a part only at the end. `rest` is what did not fit into the last one.
async fn next_part(body: &mut ByteStream, rest: &mut Bytes) -> Result<Bytes, BlobError> {
    let mut part = BytesMut::with_capacity(S3_PART);
    while part.len() < S3_PART {
        if rest.is_empty() {
            match body.try_next().await? {
                Some(piece) => *rest = piece,
                None => break,
            }
        }
        part.extend_from_slice(&rest.split_to(rest.len().min(S3_PART - part.len())));
    }
    Ok(part.freeze())
}

impl Inner {
    fn unreachable(&self, error: EgressError) -> BlobError {
        BlobError::Unavailable(format!("S3 at {}: {error}", self.bucket.base_url()))
    }

    /// Calls, and again when it fails in passing: every call that we make can be repeated. Returns once the head of the
    /// answer is there.
    async fn call<'a, A: S3Action<'a> + Sync>(
        &self,
        action: &A,
        message: Message,
    ) -> Result<StreamingResponse, BlobError> {
        let method = Method::from_bytes(A::METHOD.to_str().as_bytes()).map_err(|error| unread(&error))?;
        let mut waits = S3_BACKOFF.iter();
        loop {
            // Each signature has its own time.
            let now = jiff::Timestamp::from_microsecond(self.clock.now().as_micros());
            let url = action.sign_with_time(S3_SIGNATURE_LIFE, &now.map_err(|error| unread(&error))?);
            let Message { headers, body } = message.clone();
            let call = StreamingRequest {
                url: url.as_str(),
                method: method.clone(),
                headers,
                body,
                time: S3_CALL_TIME,
            };
            let error = match self.egress.open(call).await {
                Ok(response) if !is_temporary(response.status) => return Ok(response),
                Ok(response) => {
                    failure(response.status, &response.read_to_end(ANSWER).await.unwrap_or_default())
                }
                Err(error) => self.unreachable(error),
            };
            let Some(wait) = waits.next() else { return Err(error) };
            tracing::warn!(%error, "Retrying a call to S3");
            self.clock.sleep(*wait).await;
        }
    }

    /// The headers and the body of a successful answer.
    async fn finish(&self, response: StreamingResponse) -> Result<(HeaderMap, Bytes), BlobError> {
        let (status, headers) = (response.status, response.headers.clone());
        let body = response.read_to_end(ANSWER).await.map_err(|error| self.unreachable(error))?;
        if status.is_success() { Ok((headers, body)) } else { Err(failure(status, &body)) }
    }

    async fn run<'a, A: S3Action<'a> + Sync>(
        &self,
        action: &A,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), BlobError> {
        let response = self.call(action, Message { body, ..Message::default() }).await?;
        self.finish(response).await
    }

    async fn put(self: &Arc<Self>, key: &str, mut body: ByteStream) -> Result<u64, BlobError> {
        let (path, mut rest) = (path(key), Bytes::new());
        let first = next_part(&mut body, &mut rest).await?;
        if first.len() < S3_PART {
            let size = first.len() as u64;
            self.run(&self.bucket.put_object(Some(&self.credentials), &path), first).await?;
            return Ok(size);
        }
        let create = self.bucket.create_multipart_upload(Some(&self.credentials), &path);
        let (_, answer) = self.run(&create, Bytes::new()).await?;
        let created = CreateMultipartUpload::parse_response(&String::from_utf8_lossy(&answer));
        let id = created.map_err(|error| unread(&error))?.upload_id().to_owned();
        let mut upload = MultipartUpload { store: self.clone(), path, id, tags: Vec::new(), open: true };
        let size = match upload.send(first, rest, body).await {
            Ok(size) => upload.complete(size).await.map(|()| size),
            Err(error) => Err(error),
        };
        if size.is_err() {
            upload.abort().await;
        }
        upload.open = false;
        size
    }

    async fn get(self: &Arc<Self>, key: &str, range: Range<u64>) -> Result<ByteStream, BlobError> {
        let (path, length) = (path(key), range.end - range.start);
        let action = self.bucket.get_object(Some(&self.credentials), &path);
        let value = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
        let value = HeaderValue::from_str(&value).map_err(|error| unread(&error))?;
        let headers = HeaderMap::from_iter([(RANGE, value)]);
        let response = self.call(&action, Message { headers, body: Bytes::new() }).await?;
        match response.status {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::NOT_FOUND => return Err(BlobError::Missing(key.to_owned())),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(BlobError::Damaged(format!("{key} is shorter than it was")));
            }
            status => return Err(failure(status, &response.read_to_end(ANSWER).await.unwrap_or_default())),
        }
        let store = self.clone();
        let body = stream::try_unfold((response, length), move |(mut response, left)| {
            let store = store.clone();
            async move {
                let piece = response.chunk(S3_IDLE_TIME).await.map_err(|error| store.unreachable(error))?;
                let length = piece.as_ref().map_or(0, |piece| piece.len() as u64);
                match (piece, left.checked_sub(length)) {
                    (Some(piece), Some(left)) => Ok(Some((piece, (response, left)))),
                    (None, Some(0)) => Ok(None),
                    _ => Err(BlobError::Damaged("S3 sent more or less than was asked for".to_owned())),
                }
            }
        });
        Ok(Box::pin(body))
    }

    async fn head(&self, key: &str) -> Result<Option<u64>, BlobError> {
        let path = path(key);
        let action = self.bucket.head_object(Some(&self.credentials), &path);
        let response = self.call(&action, Message::default()).await?;
        if response.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        // What HEAD announces does not follow.
        if !response.status.is_success() {
            return Err(failure(response.status, b""));
        }
        let length = response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        length.map(Some).ok_or_else(|| unread(&"it has no length"))
    }

    async fn list(&self, after: &str, limit: usize) -> Result<Vec<Object>, BlobError> {
        let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
        action.with_prefix(FOLDER);
        action.with_start_after(path(after));
        action.with_max_keys(limit.min(limits::SWEEP_PAGE));
        let (_, answer) = self.run(&action, Bytes::new()).await?;
        let listed = ListObjectsV2::parse_response(&String::from_utf8_lossy(&answer));
        let listed = listed.map_err(|error| unread(&error))?.contents.into_iter();
        let object = |key: &str, size| Object { key: key.to_owned(), size };
        let ours = listed.filter_map(|each| {
            let key = each.key.strip_prefix(FOLDER).filter(|key| !key.is_empty())?;
            Some(object(key, each.size.unwrap_or(0)))
        });
        Ok(ours.collect())
    }
}

/// An upload in parts. S3 keeps what was sent until it is completed or aborted.
struct MultipartUpload {
    store: Arc<Inner>,
    path: String,
    id: String,
    /// What S3 called each part.
    tags: Vec<String>,
    open: bool,
}

impl MultipartUpload {
    /// Sends the parts, and returns how many bytes they had.
    async fn send(&mut self, first: Bytes, mut rest: Bytes, mut body: ByteStream) -> Result<u64, BlobError> {
        let (mut part, mut size) = (first, 0);
        while !part.is_empty() {
            size += part.len() as u64;
            let number = u16::try_from(self.tags.len() + 1).ok().filter(|number| *number <= S3_PARTS_MAX);
            let limit = u64::from(S3_PARTS_MAX) * S3_PART as u64;
            let number = number.ok_or(BlobError::TooLarge { limit })?;
            let Inner { bucket, credentials, .. } = &*self.store;
            let action = bucket.upload_part(Some(credentials), &self.path, number, &self.id);
            let (headers, _) = self.store.run(&action, part).await?;
            let tag = headers.get(ETAG).and_then(|tag| tag.to_str().ok());
            self.tags.push(tag.ok_or_else(|| unread(&"a part has no ETag"))?.to_owned());
            part = next_part(&mut body, &mut rest).await?;
        }
        Ok(size)
    }

    /// Makes an object of the parts. S3 may answer 200 and tell of a failure in the body; and when an answer is lost, the
    /// repetition finds no upload any more. Either way the object itself tells.
    async fn complete(&self, size: u64) -> Result<(), BlobError> {
        let Inner { bucket, credentials, .. } = &*self.store;
        let tags = || self.tags.iter().map(String::as_str);
        let action = bucket.complete_multipart_upload(Some(credentials), &self.path, &self.id, tags());
        let body = action.clone().body().into();
        let error = match self.store.run(&action, body).await {
            Ok((_, answer)) if element(&String::from_utf8_lossy(&answer), "ETag").is_some() => return Ok(()),
            Ok((_, answer)) => failure(StatusCode::INTERNAL_SERVER_ERROR, &answer),
            Err(error) => error,
        };
        let key = self.path.strip_prefix(FOLDER).unwrap_or_default();
        if self.store.head(key).await.is_ok_and(|stored| stored == Some(size)) { Ok(()) } else { Err(error) }
    }

    async fn abort(&self) {
        let Inner { bucket, credentials, .. } = &*self.store;
        let action = bucket.abort_multipart_upload(Some(credentials), &self.path, &self.id);
        if let Err(error) = self.store.run(&action, Bytes::new()).await {
            tracing::warn!(%error, path = self.path, "Failed to abort a multipart upload");
        }
    }
}

impl Drop for MultipartUpload {
    /// Whoever waited for the upload has gone: what was sent must not stay, and be paid for.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.open {
            let (path, id) = (std::mem::take(&mut self.path), std::mem::take(&mut self.id));
            let upload = Self { store: self.store.clone(), path, id, tags: Vec::new(), open: false };
            runtime.spawn(async move { upload.abort().await });
        }
    }
}

impl BlobStore for S3Store {
    fn put<'a>(&'a self, key: &'a str, body: ByteStream) -> BoxFuture<'a, u64> {
        Box::pin(self.0.put(key, body))
    }

    fn get<'a>(&'a self, key: &'a str, range: Range<u64>) -> BoxFuture<'a, ByteStream> {
        Box::pin(self.0.get(key, range))
    }

    fn head<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Option<u64>> {
        Box::pin(self.0.head(key))
    }

    fn delete<'a>(&'a self, key: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let path = path(key);
            let action = self.0.bucket.delete_object(Some(&self.0.credentials), &path);
            match self.0.call(&action, Message::default()).await? {
                response if response.status == StatusCode::NOT_FOUND => Ok(()),
                response => self.0.finish(response).await.map(drop),
            }
        })
    }

    fn list<'a>(&'a self, after: &'a str, limit: usize) -> BoxFuture<'a, Vec<Object>> {
        Box::pin(self.0.list(after, limit))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn what_the_service_says_is_told() {
        let xml =
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Not yours.</Message></Error>";
        let error = failure(StatusCode::FORBIDDEN, xml).to_string();
        assert_eq!(error, "the blob store refused: S3 answered 403 Forbidden, AccessDenied: Not yours.");
        let busy = failure(StatusCode::SERVICE_UNAVAILABLE, b"<html>busy</html>");
        assert!(
            matches!(&busy, BlobError::Unavailable(message) if message.ends_with("busy</html>")),
            "{busy}"
        );
    }

    #[test]
    fn parts_are_of_one_size_but_the_last() {
        let piece = |size: usize| Ok(Bytes::from(vec![1; size]));
        let pieces = [piece(S3_PART - 1), piece(0), piece(S3_PART + 5), piece(7)];
        let (mut body, mut rest) = (stream::iter(pieces).boxed(), Bytes::new());
        let mut next = || next_part(&mut body, &mut rest).now_or_never().unwrap().unwrap().len();
        assert_eq!([next(), next(), next(), next()], [S3_PART, S3_PART, 11, 0]);
    }
}
