//! A request as one message.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue};
use portico_engine::input::{
    Attachment, Fields, InputError, RawRequest, Upload, UploadSender, parse_object, parse_query,
};
use portico_engine::{Entry, IdempotencyKey, RequestBody, Spec};
use portico_kernel::{Caller, Code, Problem};

use crate::body::{self, HttpBody};
use crate::incoming::IncomingRequest;
use crate::party::Party;
use crate::turns::{TurnSettings, Turns};

/// What has more bytes than this is parsed beside the threads that serve everybody.
const PARSE_HERE_BYTES: usize = 64 << 10;
/// Two such texts at once, and while others have some too, one of a tenant: many threads that parse would take the
/// processors from those that answer.
static PARSERS: LazyLock<Turns> = LazyLock::new(|| Turns::new(TurnSettings { total: 2, alone: 2, share: 1 }));

/// One message from path, query and body: the path wins over the body, and only requests without a body take a query.
pub(crate) async fn read<B: HttpBody>(
    entry: &Entry,
    incoming: &mut IncomingRequest<B>,
    caller: &Caller,
    variables: Result<Fields, InputError>,
) -> Result<(Fields, Option<Attachment>), Problem> {
    if entry.spec.body == RequestBody::Raw {
        // Where anything is taken, a path that does not read names nothing.
        let nowhere = |_| Problem::new(Code::NotFound, "There is nothing at this path.");
        let variables = variables.map_err(nowhere)?;
        let raw = read_raw(incoming, entry.spec.body_limit).await?;
        return Ok((variables, Some(Attachment::Raw(raw))));
    }
    let variables = variables?;
    let query = parse_query(incoming.parts.uri.query().unwrap_or_default());
    let mut fields = if entry.spec.body == RequestBody::Upload {
        query?
    } else if entry.spec.method.takes_body() {
        let fields = read_body(incoming, caller, entry.spec).await?;
        if let Some(name) = query?.keys().next() {
            let message = "is given in the query; this request takes its fields in the body";
            return Err(Problem::field(name, message));
        }
        fields
    } else {
        if !incoming.body.read(0).await.is_ok_and(|bytes| bytes.is_empty()) {
            return Err(Problem::field("body", "must be empty: this request takes its fields in the query"));
        }
        query?
    };
    let in_query = entry.spec.body == RequestBody::Upload || !entry.spec.method.takes_body();
    if let Some(name) = variables.keys().find(|name| in_query && fields.contains_key(*name)) {
        return Err(Problem::field(name, "is given in the path already"));
    }
    fields.extend(variables);
    Ok((fields, None))
}

/// The request as it came, of any type; what stands in the query is the sender's own business.
async fn read_raw<B: HttpBody>(incoming: &mut IncomingRequest<B>, limit: u64) -> Result<RawRequest, Problem> {
    let body = incoming.body.read(limit).await?;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = incoming.parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
    Ok(RawRequest::new(incoming.parts.method.as_str(), headers, body))
}

/// The body as a message. No body at all is an empty message.
async fn read_body<B: HttpBody>(
    incoming: &mut IncomingRequest<B>,
    caller: &Caller,
    spec: &Spec,
) -> Result<Fields, Problem> {
    let bytes = read_json(incoming, spec.body_limit).await?;
    let values_max = spec.values_max;
    if bytes.is_empty() {
        return Ok(Fields::new());
    }
    Ok(parse(caller, bytes, move |text| parse_object(text, values_max)).await??)
}

/// Reads a client's text, whatever carried it.
pub(crate) async fn parse<T: Send + 'static>(
    caller: &Caller,
    text: Bytes,
    read: impl FnOnce(&[u8]) -> T + Send + 'static,
) -> Result<T, Problem> {
    if text.len() <= PARSE_HERE_BYTES {
        return Ok(read(&text));
    }
    let turn = PARSERS.take(Party::of(caller)).await;
    let reading = tokio::task::spawn_blocking(move || {
        let value = read(&text);
        // Held until here, also when the client has gone meanwhile.
        drop(turn);
        value
    });
    reading.await.map_err(Problem::internal)
}

/// The body, which says that it is JSON; empty when there is none.
pub(crate) async fn read_json<B: HttpBody>(
    incoming: &mut IncomingRequest<B>,
    limit: u64,
) -> Result<Bytes, Problem> {
    incoming.body.check_declared(Spec::BODY_LIMIT)?;
    if incoming.body.has_ended() {
        return Ok(Bytes::new());
    }
    check_coding(&incoming.parts.headers)?;
    if !body::is_json(&incoming.parts.headers) {
        let message = "The body must be JSON, with `Content-Type: application/json`.";
        return Err(Problem::new(Code::UnsupportedMediaType, message));
    }
    incoming.body.read_json(limit).await
}

pub(crate) fn check_coding(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        let message = "The body must not be compressed: no `Content-Encoding` is taken.";
        return Err(Problem::new(Code::UnsupportedMediaType, message));
    }
    Ok(())
}

/// Begins an upload: its sending end goes to [`RequestBody::pump`](crate::body::RequestBody::pump).
pub(crate) fn begin_upload<B: HttpBody>(
    entry: &Entry,
    incoming: &IncomingRequest<B>,
) -> Result<(UploadSender, Attachment), Problem> {
    incoming.body.check_declared(entry.spec.body_limit)?;
    check_coding(&incoming.parts.headers)?;
    let media_type = incoming.parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or_default().to_owned();
    let (sender, upload) = Upload::channel(media_type, incoming.body.length(), entry.spec.body_limit);
    Ok((sender, Attachment::Upload(upload)))
}

/// The caller's Idempotency-Key, where the operation takes one.
pub(crate) fn idempotency_key(entry: &Entry, headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Problem> {
    if !entry.spec.idempotency_key {
        return Ok(None);
    }
    let mut keys = headers.get_all(HeaderName::from_static("idempotency-key")).iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => IdempotencyKey::parse(key.as_bytes()).map(Some),
        (Some(_), Some(_)) => Err(Problem::field(IdempotencyKey::HEADER, "is given more than once")),
    }
}
