//! REST: the way of a request from the first byte to the answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, ETAG, HeaderName, IF_NONE_MATCH, LINK};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use portico_engine::clock::Stopwatch;
use portico_engine::input::{Fields, parse_object, parse_query};
use portico_engine::{Access, Admitted, Call, Engine, Entry, IdempotencyKey, Reply, dispatch, next_query};
use portico_identity::Identity;
use portico_kernel::{Code, Problem, RequestId, hex, seconds};

use crate::body::{self, BODY_BYTES_MAX};
use crate::cors::{self, Origins};
use crate::respond::{self, IDEMPOTENCY_REPLAYED, REQUEST_ID, Refusal};
use crate::routes::{Route, RouteError, Routes};
use crate::tokens::Tokens;
use crate::{Connection, Metrics};

const REQUEST_ID_CHARACTERS_MAX: usize = 128;
/// An `ETag` is this much of the hash of the answer.
const ETAG_BYTES: usize = 16;
/// Everything but what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const AUTHORIZED_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Serves the registry's operations over HTTP.
pub struct Gateway {
    engine: Arc<Engine>,
    routes: Routes,
    tokens: Tokens,
    origins: Origins,
    metrics: Arc<Metrics>,
    stopping: AtomicBool,
}

/// What is known of a call when it ends, for the log and the metrics.
#[derive(Default)]
struct Trace {
    operation: Option<&'static str>,
    admitted: Option<Admitted>,
    queries: u32,
}

impl Gateway {
    /// The gateway of everything in the engine's registry.
    pub fn new(
        engine: Arc<Engine>,
        identity: Arc<Identity>,
        origins: Origins,
        metrics: Arc<Metrics>,
    ) -> Result<Self, RouteError> {
        let routes = Routes::new(&engine.registry)?;
        let (tokens, stopping) = (Tokens::new(identity), AtomicBool::new(false));
        Ok(Self { engine, routes, tokens, origins, metrics, stopping })
    }

    /// From now on new calls are refused with 503; those under way end in order.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Answers a request. Whatever happens inside, something that fits the specification comes out.
    pub async fn handle<B: Body<Data = Bytes> + Unpin + Send>(&self, request: Request<B>) -> Response<Bytes>
    where
        B::Error: std::fmt::Display,
    {
        let watch = Stopwatch::start();
        let (parts, mut body) = request.into_parts();
        let request_id = request_id(&parts.headers, &self.engine);
        let mut trace = Trace::default();
        let answering =
            AssertUnwindSafe(self.answer(&parts, &mut body, &request_id, &mut trace)).catch_unwind();
        let mut response = match answering.await {
            Ok(Ok(response)) => response,
            Ok(Err(refusal)) => refusal.into_response(&request_id),
            Err(_) => Refusal::from(Problem::internal("a panic at the edge")).into_response(&request_id),
        };
        finish(&parts, &body, &self.origins, &request_id, &mut response);
        self.report(&trace, &request_id, response.status(), watch);
        response
    }

    /// One line for each call, and the same facts as numbers.
    fn report(&self, trace: &Trace, request_id: &str, status: StatusCode, watch: Stopwatch) {
        let elapsed = watch.elapsed();
        let operation = trace.operation.unwrap_or("none");
        self.metrics.answered(operation, status.as_u16(), elapsed);
        let caller =
            trace.admitted.as_ref().map(|admitted| admitted.caller().subject.as_str()).unwrap_or_default();
        let account = trace.admitted.as_ref().and_then(Admitted::account).map(|account| account.to_string());
        tracing::info!(
            operation,
            caller,
            account = account.unwrap_or_default(),
            status = status.as_u16(),
            ms = elapsed.as_secs_f64() * 1e3,
            queries = trace.queries,
            request_id,
            "Answered"
        );
    }

    async fn answer<B: Body<Data = Bytes> + Unpin>(
        &self,
        parts: &Parts,
        body: &mut B,
        request_id: &str,
        trace: &mut Trace,
    ) -> Result<Response<Bytes>, Refusal>
    where
        B::Error: std::fmt::Display,
    {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(
                Problem::unavailable("The server is stopping; another one takes over.", seconds(1)).into()
            );
        }
        let path = parts.uri.path();
        let (entry, variables) = match self.routes.find(&parts.method, path) {
            Route::Nowhere => {
                return Err(Problem::new(Code::NotFound, "There is nothing at this path.").into());
            }
            Route::Wrong(allow) => return self.other_method(parts, allow),
            Route::To(entry, variables) => (entry, variables),
        };
        trace.operation = Some(entry.spec.name);
        let admitted = self.admit(entry, parts, variables.as_ref().unwrap_or(&Fields::new())).await?;
        trace.admitted = Some(admitted.clone());
        let query = parse_query(parts.uri.query().unwrap_or_default());
        let fields = read_message(entry, parts, body, variables?, query).await?;
        let sent = entry.spec.list.map(|_| fields.clone());
        let call = Call {
            admitted,
            request_id: request_id.to_owned(),
            fields,
            idempotency_key: idempotency_key(entry, parts)?,
        };
        let reply = dispatch(&self.engine, entry, call).await?;
        trace.queries = reply.queries;
        Ok(answered(entry, parts, reply, sent))
    }

    /// `OPTIONS` answers browsers that ask whether they may call; every other method that is not served is refused.
    fn other_method(&self, parts: &Parts, allow: &HeaderValue) -> Result<Response<Bytes>, Refusal> {
        let asks = parts.method == Method::OPTIONS && Origins::is_preflight(&parts.headers);
        match self.origins.allowed(&parts.headers) {
            Some(_) if asks => Ok(cors::preflight(allow)),
            _ => Err(Refusal::method_not_allowed(allow)),
        }
    }

    async fn admit(&self, entry: &Entry, parts: &Parts, path: &Fields) -> Result<Admitted, Refusal> {
        if entry.spec.access == Access::Open {
            return Ok(Admitted::anonymous());
        }
        let caller = self.tokens.caller(&self.engine, &self.metrics, &parts.headers).await;
        let caller = caller.map_err(|problem| Refusal {
            token_sent: parts.headers.contains_key(http::header::AUTHORIZATION),
            ..problem.into()
        })?;
        Ok(self.engine.admit(&entry.spec, caller, path).await?)
    }
}

/// The call's id: the caller's own, if it is 1 to 128 visible characters, or a new one.
pub(crate) fn request_id(headers: &HeaderMap, engine: &Engine) -> String {
    let mut sent = headers.get_all(REQUEST_ID).iter();
    match (sent.next().and_then(|value| value.to_str().ok()), sent.next()) {
        (Some(id), None)
            if (1..=REQUEST_ID_CHARACTERS_MAX).contains(&id.len())
                && id.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            id.to_owned()
        }
        _ => {
            let id: RequestId = engine.entropy.id(engine.clock.now());
            id.to_string()
        }
    }
}

/// One message from path, query and body: the path wins over the body, and only requests without a body take a query.
async fn read_message<B: Body<Data = Bytes> + Unpin>(
    entry: &Entry,
    parts: &Parts,
    body: &mut B,
    variables: Fields,
    query: Result<Fields, portico_engine::input::Fault>,
) -> Result<Fields, Problem>
where
    B::Error: std::fmt::Display,
{
    let mut fields = if entry.spec.method.takes_body() {
        let fields = read_body(parts, body).await?;
        if let Some(name) = query?.keys().next() {
            return Err(Problem::field(
                name,
                "is given in the query; this request takes its fields in the body",
            ));
        }
        fields
    } else {
        if !body::read(body, 0).await.is_ok_and(|bytes| bytes.is_empty()) {
            return Err(Problem::field("body", "must be empty: this request takes its fields in the query"));
        }
        query?
    };
    if !entry.spec.method.takes_body()
        && let Some(name) = variables.keys().find(|name| fields.contains_key(*name))
    {
        return Err(Problem::field(name, "is given in the path already"));
    }
    fields.extend(variables);
    Ok(fields)
}

/// The body as a message. No body at all is an empty message.
async fn read_body<B: Body<Data = Bytes> + Unpin>(parts: &Parts, body: &mut B) -> Result<Fields, Problem>
where
    B::Error: std::fmt::Display,
{
    body::check_declared(body, BODY_BYTES_MAX)?;
    if body.is_end_stream() {
        return Ok(Fields::new());
    }
    if !body::is_json(&parts.headers) {
        let words = "The body must be JSON, with `Content-Type: application/json`.";
        return Err(Problem::new(Code::UnsupportedMediaType, words));
    }
    let bytes = body::read(body, BODY_BYTES_MAX).await?;
    // Only a length of zero says that there is no body; an empty one of unknown length is not JSON.
    if bytes.is_empty() && !parts.headers.contains_key(http::header::TRANSFER_ENCODING) {
        return Ok(Fields::new());
    }
    Ok(parse_object(&bytes)?)
}

fn idempotency_key(entry: &Entry, parts: &Parts) -> Result<Option<IdempotencyKey>, Problem> {
    if !entry.spec.idempotency_key {
        return Ok(None);
    }
    let mut keys = parts.headers.get_all(HeaderName::from_static("idempotency-key")).iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => IdempotencyKey::parse(key.as_bytes()).map(Some),
        (Some(_), Some(_)) => Err(Problem::field(IdempotencyKey::HEADER, "is given more than once")),
    }
}

fn answered(entry: &Entry, parts: &Parts, reply: Reply, sent: Option<Fields>) -> Response<Bytes> {
    let mut response = match reply.refused {
        Some((code, retry)) => respond::refused(code, retry, reply.body),
        None => respond::json(StatusCode::OK, reply.body),
    };
    if reply.replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    if let (Some(token), Some(sent)) = (reply.next_page_token, sent) {
        let variables: Vec<_> = entry.spec.variables().collect();
        let sent = sent.into_iter().filter(|(name, _)| !variables.contains(&name.as_str())).collect();
        let link = format!("<{}?{}>; rel=\"next\"", parts.uri.path(), encode(&next_query(&sent, &token)));
        response.headers_mut().extend(HeaderValue::from_str(&link).ok().map(|link| (LINK, link)));
    }
    if entry.spec.etag && response.status() == StatusCode::OK {
        tag(entry, &parts.headers, &mut response);
    }
    response
}

/// Adds the `ETag`; whoever has the answer already gets 304 instead.
fn tag(entry: &Entry, asked: &HeaderMap, response: &mut Response<Bytes>) {
    let hash = digest(&SHA256, response.body());
    let tag = format!("\"{}\"", hex(&hash.as_ref()[..ETAG_BYTES]));
    let has = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|tags| {
        tags.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
    });
    if has {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Bytes::new();
        response.headers_mut().remove(http::header::CONTENT_TYPE);
    }
    let cache = if entry.spec.access == Access::Open {
        HeaderValue::from_static("no-cache")
    } else {
        AUTHORIZED_CACHE
    };
    response.headers_mut().insert(CACHE_CONTROL, cache);
    response.headers_mut().extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
}

fn encode(pairs: &[(String, String)]) -> String {
    let encode = |text| utf8_percent_encode(text, ESCAPED);
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// What every answer has, whoever made it.
pub(crate) fn finish<B: Body>(
    parts: &Parts,
    body: &B,
    origins: &Origins,
    request_id: &str,
    response: &mut Response<Bytes>,
) {
    if let Ok(id) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if let Some(origin) = origins.allowed(&parts.headers) {
        cors::expose(origin, response.headers_mut());
    }
    if !body.is_end_stream() {
        // What was not read cannot be told from the next request, so the connection ends.
        respond::close(response);
        if let Some(connection) = parts.extensions.get::<Connection>() {
            connection.left_unread();
        }
    }
    if parts.method == Method::HEAD && !response.body().is_empty() {
        let length = response.body().len();
        *response.body_mut() = Bytes::new();
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}
