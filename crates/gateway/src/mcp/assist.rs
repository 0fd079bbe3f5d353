//! What comes of a message: the way from its arrival to the answer, or to the stream that ends with it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::Body;
use portico_engine::clock::Stopwatch;
use portico_engine::input::{Fields, Node};
use portico_engine::{Entry, EntryPoint, cancelled};
use portico_kernel::{Code, Problem};
use rmcp::model::ErrorCode;

use super::call::{self, Ended};
use super::era::{self, Era};
use super::exchange::{Carried, Exchange, Going, carry};
use super::message::{self, Fault, Id, Message};
use super::running::UnderWay;
use super::{methods, session};
use crate::Connection;
use crate::arrived::Arrived;
use crate::calls::Trace;
use crate::outgoing::Pieces;
use crate::respond::{self, Refusal};
use crate::rest::Gateway;
use crate::sse::UNBUFFERED;
use crate::tokens::Bearer;

/// A request as it came.
struct Asking<'a> {
    id: Id,
    method: String,
    params: Fields,
    bearer: &'a Bearer,
    parts: &'a Parts,
    call: (&'a str, Stopwatch),
}

/// A request whose revision is known.
pub(super) struct Asked<'a> {
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Fields,
    pub(super) era: Era,
    progress_token: Option<Node>,
    pub(super) bearer: &'a Bearer,
    parts: &'a Parts,
    request_id: &'a str,
    watch: Stopwatch,
}

impl Gateway {
    /// Answers a message of an assistant.
    pub(crate) async fn assist<B>(
        &self,
        entry: &Arc<Entry>,
        arrived: &mut Arrived<B>,
        trace: &mut Trace,
        watch: Stopwatch,
    ) -> Result<Response<Bytes>, Refusal>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
    {
        self.mcp.check_origin(&self.origins, &arrived.parts.headers)?;
        let bearer = self.mcp.come_in(&self.calls, &arrived.parts.headers).await;
        let bearer = bearer.inspect_err(|refusal| {
            self.calls.not_admitted(&refusal.problem, entry, &arrived.request_id);
        })?;
        if let Some(refusal) = self.mcp.shut_out(bearer.caller()) {
            self.enter(entry, &bearer, (&arrived.request_id, watch), trace).await?;
            self.calls.not_admitted(&refusal.problem, entry, &arrived.request_id);
            return Err(refusal);
        }
        let read = crate::message::read_json(arrived, entry.spec.body_limit)
            .await
            .map_err(|problem| (None, problem));
        let read = read.and_then(|text| Message::read(&text));
        arrived.working();
        let (request_id, parts) = (arrived.request_id.as_str(), &arrived.parts);
        let call = (request_id, watch);
        let message = match read {
            Ok(message) => message,
            Err((id, problem)) => {
                // What is no message counts like one.
                self.enter(entry, &bearer, call, trace).await?;
                trace.code = Some(problem.code());
                return match id {
                    Some(id) => Ok(Fault::new(ErrorCode::INVALID_REQUEST, problem).response(&id, request_id)),
                    None => Err(problem.into()),
                };
            }
        };
        match message {
            Message::Request { id, method, params } => {
                let asking = Asking { id: id.clone(), method, params, bearer: &bearer, parts, call };
                let answered = self.answer_request(entry, asking, trace).await;
                Ok(answered.unwrap_or_else(|fault| {
                    let code = fault.problem.code();
                    (trace.code, trace.status) = (Some(code), Some(code.status()));
                    fault.response(&id, request_id)
                }))
            }
            Message::Notification { method, params } => {
                self.enter(entry, &bearer, call, trace).await?;
                era::check_told(&parts.headers, &method, &params).map_err(|fault| fault.problem)?;
                if method == "notifications/cancelled" {
                    let named = params.get("requestId").and_then(Id::read);
                    named.inspect(|id| self.mcp.running.take_back(&bearer.caller().actor(), id));
                }
                Ok(accepted())
            }
            Message::Answer { id, result } => {
                self.enter(entry, &bearer, call, trace).await?;
                era::check_version(&parts.headers).map_err(|fault| fault.problem)?;
                let id: String = serde_json::from_str(&id.0).unwrap_or_default();
                if self.mcp.asks.answer(&bearer.caller().actor(), &id, result.map(message::value)) {
                    return Ok(accepted());
                }
                Err(Problem::new(Code::NotFound, "Nothing waits for this answer.").into())
            }
        }
    }

    fn era(&self, headers: &HeaderMap, method: &str, params: &Fields, bearer: &Bearer) -> Result<Era, Fault> {
        let mut era = Era::of(headers, method, params)?;
        if !era.modern && method != "initialize" {
            era.capabilities = session::recall(&self.calls.engine, bearer.caller(), headers)?;
        }
        Ok(era)
    }

    /// Counts a message that is no call of a tool.
    async fn enter(
        &self,
        entry: &Entry,
        bearer: &Bearer,
        call: (&str, Stopwatch),
        trace: &mut Trace,
    ) -> Result<(), Problem> {
        let admitted = self.calls.admit(entry, EntryPoint::Api, bearer, call, &Fields::new(), trace).await;
        trace.admitted =
            Some(admitted.inspect_err(|problem| self.calls.not_admitted(problem, entry, call.0))?);
        Ok(())
    }

    async fn answer_request(
        &self,
        entry: &Arc<Entry>,
        asking: Asking<'_>,
        trace: &mut Trace,
    ) -> Result<Response<Bytes>, Fault> {
        let Asking { id, method, params, bearer, parts, call } = asking;
        let era = match self.era(&parts.headers, &method, &params, bearer) {
            Ok(era) => era,
            Err(fault) => {
                self.enter(entry, bearer, call, trace).await?;
                return Err(fault);
            }
        };
        let (modern, progress_token, (request_id, watch)) = (era.modern, progress_token(&params), call);
        let asked = Asked { id, method, params, era, progress_token, bearer, parts, request_id, watch };
        self.answer_asked(entry, asked, trace).await.map_err(|fault| fault.for_era(modern))
    }

    async fn answer_asked(
        &self,
        entry: &Arc<Entry>,
        mut asked: Asked<'_>,
        trace: &mut Trace,
    ) -> Result<Response<Bytes>, Fault> {
        let is_call = asked.method == "tools/call";
        if is_call && self.mcp.is_own(asked.params.get("name")) {
            return self.call_tool(asked, trace).await;
        }
        self.enter(entry, asked.bearer, (asked.request_id, asked.watch), trace).await?;
        // Boxed, like what is offered: a call of a tool should not carry them along.
        if let Some(response) = Box::pin(self.own_method(&asked)).await? {
            return Ok(response);
        }
        if is_call && !self.mcp.is_offered(asked.params.get("name")) {
            return Err(call::no_tool(asked.params.get("name")));
        }
        if self.mcp.offers.is_empty() {
            return Err(Fault::no_method(&asked.method));
        }
        let (id, request_id) = (asked.id.clone(), asked.request_id.to_owned());
        let (method, params) = (std::mem::take(&mut asked.method), std::mem::take(&mut asked.params));
        let params = message::object(params);
        let mut running = self.under_way(&asked);
        let work = move |exchange: Arc<Exchange>| async move {
            let asked = (&id, method.as_str(), &params);
            let answered = tokio::select! {
                answered = methods::offered(&exchange, asked) => answered,
                () = running.cancelled() => Err(cancelled().into()),
            };
            answered.map_or_else(
                |fault| Ended::refused(&fault.for_era(exchange.era.modern), &id, &request_id),
                |result| Ended::done(&id, &result),
            )
        };
        Ok(Box::pin(self.carried(asked, trace, work)).await)
    }

    /// A request is under way. Since it stands by itself, its client takes it back by going away, and not by a word.
    fn under_way(&self, asked: &Asked<'_>) -> UnderWay {
        if asked.era.modern {
            return UnderWay::default();
        }
        self.mcp.running.begin(&asked.bearer.caller().actor(), &asked.id)
    }

    async fn call_tool(&self, mut asked: Asked<'_>, trace: &mut Trace) -> Result<Response<Bytes>, Fault> {
        let call = (asked.request_id, asked.watch);
        let named = (&asked.id, std::mem::take(&mut asked.params));
        let admitted = self.mcp.admit(&self.calls, named, asked.bearer, call, trace).await?;
        let mut call = match admitted {
            Ok(call) => call,
            Err(problem) => {
                let ended = self.mcp.refusal(&problem, &asked.id, asked.request_id, asked.era.modern);
                return Ok(whole(ended, trace));
            }
        };
        call.running = self.under_way(&asked);
        let calls = self.calls.clone();
        let work = move |exchange: Arc<Exchange>| call::run(calls, exchange, call);
        Ok(self.carried(asked, trace, work).await)
    }

    /// Does the work, and answers with what comes of it, or with the stream that ends so.
    async fn carried<W>(
        &self,
        asked: Asked<'_>,
        trace: &mut Trace,
        work: impl FnOnce(Arc<Exchange>) -> W,
    ) -> Response<Bytes>
    where
        W: Future<Output = Ended> + Send + 'static,
    {
        let Asked { era, progress_token, bearer, parts, request_id, watch, .. } = asked;
        let hears = takes_stream(&parts.headers);
        let exchange = Exchange::new(&self.mcp, &self.calls, bearer.caller(), era, progress_token, hears);
        match carry(Box::pin(work(exchange.clone())), exchange).await {
            Carried::Whole(ended) => whole(ended, trace),
            Carried::Going(going) => {
                trace.pieces = Some(self.stream(going, bearer, parts, (request_id, watch), trace));
                trace.goes_on = true;
                let mut response = respond::json(StatusCode::OK, Bytes::new());
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
                headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
                response
            }
        }
    }

    fn stream(
        &self,
        going: Going<Ended>,
        bearer: &Bearer,
        parts: &Parts,
        (request_id, watch): (&str, Stopwatch),
        trace: &Trace,
    ) -> Pieces {
        let (calls, looking, bearer) = (self.calls.clone(), self.calls.clone(), bearer.clone());
        let stands = Arc::new(move || looking.still_stands(&bearer));
        let ticket = trace.ticket.clone();
        let mut told =
            Trace { operation: trace.operation, admitted: trace.admitted.clone(), ..Trace::default() };
        let request_id = request_id.to_owned();
        let connection = parts.extensions.get::<Connection>().cloned();
        going.stream(connection, stands, move |ended: Ended| {
            ticket.inspect(|ticket| ticket.finish(ended.logged(), ended.code));
            told.queries = ended.queries;
            calls.report(&told, &request_id, ended.logged(), watch);
            ended.text
        })
    }
}

/// Under what name the client wants to hear how far it is.
fn progress_token(params: &Fields) -> Option<Node> {
    match params.get("_meta") {
        Some(Node::Object(meta)) => {
            // It is of the same kind as an id.
            meta.get("progressToken").filter(|token| Id::read(token).is_some()).cloned()
        }
        _ => None,
    }
}

/// An answer that is whole.
fn whole(ended: Ended, trace: &mut Trace) -> Response<Bytes> {
    trace.status = Some(ended.logged());
    (trace.code, trace.queries) = (ended.code, ended.queries);
    let mut response = respond::json(ended.status, ended.text);
    response
        .headers_mut()
        .extend(ended.retry_seconds.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
    response
}

fn accepted() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Does the client take a stream for an answer?
fn takes_stream(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|kind| {
        matches!(kind.split(';').next().map(str::trim), Some("text/event-stream" | "text/*" | "*/*"))
    })
}
