//! REST: the way of a request from the first byte to the answer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Body;
use portico_engine::clock::Stopwatch;
use portico_engine::input::Fields;
use portico_engine::{
    Access, Admission, Body as AnswerBody, CallOptions, Engine, Entry, EntryPoint, Protocol, Reply,
    RequestBody,
};
use portico_identity::Identity;
use portico_kernel::{Code, Problem};
use portico_metering::Metering;

use crate::answered::answered;
use crate::arrived::{Arrived, Stopping, check_host, guard};
use crate::calls::{CallMessage, Calls, NO_FIELDS, Trace};
use crate::carried::Who;
use crate::cors::{self, Origins};
use crate::lines::Lines;
use crate::mcp::Mcp;
use crate::outgoing::Outgoing;
use crate::respond::{self, Refusal};
use crate::routes::{Methods, Route, RouteError, Routes};
use crate::{Metrics, bytes_answer, carried, message, sse};

/// Serves the registry's operations over HTTP.
pub struct Gateway {
    pub(crate) calls: Arc<Calls>,
    pub(crate) lines: Arc<Lines>,
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) origins: Origins,
    routes: Routes,
}

impl Gateway {
    /// The gateway of everything in the engine's registry.
    pub fn new(
        engine: Arc<Engine>,
        identity: Arc<Identity>,
        metering: Arc<Metering>,
        lines: Arc<Lines>,
        origins: Origins,
        metrics: Arc<Metrics>,
        stopping: Stopping,
    ) -> Result<Self, RouteError> {
        let routes = Routes::new(&engine.registry)?;
        let mcp = Arc::new(Mcp::new(&engine, &identity)?);
        let calls = Arc::new(Calls::new(engine, identity, metering, metrics, stopping));
        Ok(Self { calls, lines, mcp, origins, routes })
    }

    /// Answers a request. Whatever happens inside, something that fits the specification comes out.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Outgoing>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send,
    {
        let watch = Stopwatch::start();
        let mut arrived = Arrived::new(request, &self.calls.engine);
        let request_id = arrived.request_id.clone();
        let is_head = arrived.parts.method == Method::HEAD;
        let mut trace = Trace::default();
        let result = guard(pin!(self.answer(&mut arrived, &mut trace, watch)), &request_id).await;
        let code = result.as_ref().err().map(|refusal| refusal.problem.code());
        let origins = if trace.any_origin { &Origins::any() } else { &self.origins };
        let mut response = arrived.finish(result, origins);
        if let Some(ticket) = trace.ticket.take() {
            if let Some(standing) = ticket.rate_limit_status() {
                self.calls.metrics.window(standing);
                respond::limit(&mut response, standing);
            }
            // An operation's own refusal knows its code; what was refused before has it from there.
            if !trace.goes_on {
                ticket.finish(trace.status_or(&response), code.or(trace.code));
            }
        }
        if !trace.goes_on {
            self.calls.report(&trace, &request_id, trace.status_or(&response), watch);
        }
        let pieces = trace.pieces.take().filter(|_| !is_head);
        response.map(|whole| pieces.map_or(Outgoing::Whole(whole), Outgoing::Stream))
    }

    async fn answer<B>(
        &self,
        arrived: &mut Arrived<B>,
        trace: &mut Trace,
        watch: Stopwatch,
    ) -> Result<Response<Bytes>, Refusal>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
    {
        self.calls.stopping.check()?;
        check_host(arrived.parts.version, &arrived.parts.headers)?;
        let (entry, variables) = match self.routes.find(&arrived.parts.method, arrived.parts.uri.path()) {
            Route::Nowhere => {
                return Err(Problem::new(Code::NotFound, "There is nothing at this path.").into());
            }
            Route::Wrong(methods) => {
                trace.any_origin = methods.any_origin;
                return self.other_method(&arrived.parts, methods);
            }
            Route::To(entry, variables) => (entry, variables),
        };
        (trace.operation, trace.any_origin) = (Some(entry.spec.name), entry.spec.is_public_document());
        let path = variables.as_ref().unwrap_or(&NO_FIELDS);
        if carried::is_unnamed(entry, &arrived.parts) {
            // Who it is comes in the first frame.
            message::read(entry, arrived, variables)
                .await
                .and_then(|(fields, _)| carried::no_fields(fields))?;
            return self.upgrade(entry, &mut arrived.parts, Who::Unnamed(self.lines.unnamed()?));
        }
        if entry.spec.protocol == Some(Protocol::Mcp) {
            // Boxed, because it is large, and every other request would carry it along.
            return Box::pin(self.assist(entry, arrived, trace, watch)).await;
        }
        let admitted = self.admit(entry, arrived, path, trace, watch).await;
        let admitted = admitted.inspect_err(|refusal| {
            self.calls.not_admitted(&refusal.problem, entry, &arrived.request_id);
        })?;
        trace.admitted = Some(admitted);
        let (mut fields, attachment) = message::read(entry, arrived, variables).await?;
        let idempotency_key = message::idempotency_key(entry, &arrived.parts.headers)?;
        if entry.spec.protocol == Some(Protocol::Sse) {
            sse::resume_from_header(&arrived.parts.headers, &mut fields)?;
        }
        let sent = entry.spec.list.map(|_| fields.clone());
        arrived.working();
        let message = CallMessage { fields, attachment, idempotency_key };
        let mut reply = self.run(entry, arrived, message, trace).await?;
        if entry.spec.protocol.is_none() {
            let body = std::mem::replace(&mut reply.body, AnswerBody::Json(Bytes::new()));
            return Ok(match body {
                AnswerBody::Bytes(answer) => {
                    let (response, pieces) = bytes_answer::response(answer, &arrived.parts.headers);
                    trace.pieces = pieces;
                    response
                }
                body => answered(entry, &arrived.parts, Reply { body, ..reply }, sent)?,
            });
        }
        let opened = self.open(entry, arrived, reply, trace).await;
        opened.inspect_err(|_| trace.take_back())
    }

    /// Runs the call; an upload is handed over meanwhile.
    async fn run<B>(
        &self,
        entry: &Arc<Entry>,
        arrived: &mut Arrived<B>,
        mut message: CallMessage,
        trace: &mut Trace,
    ) -> Result<Reply, Problem>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
    {
        let request_id = arrived.request_id.clone();
        if entry.spec.body != RequestBody::Upload {
            return self.calls.run(entry, message, CallOptions::default(), &request_id, trace).await;
        }
        let (sender, upload) = message::begin_upload(entry, arrived)?;
        message.attachment = Some(upload);
        let mut running = pin!(self.calls.run(entry, message, CallOptions::default(), &request_id, trace));
        tokio::select! {
            biased;
            reply = &mut running => return reply,
            () = arrived.body.pump(sender) => {}
        }
        running.await
    }

    /// `OPTIONS` answers browsers that ask whether they may call; every other method that is not served is refused.
    fn other_method(&self, parts: &Parts, methods: &Methods) -> Result<Response<Bytes>, Refusal> {
        let asks = parts.method == Method::OPTIONS && Origins::is_preflight(&parts.headers);
        if asks && (methods.any_origin || self.origins.allowed(&parts.headers).is_some()) {
            return Ok(cors::preflight(&methods.allow));
        }
        Err(Refusal::method_not_allowed(&methods.allow))
    }

    /// Token, scope, account and rate, in this order.
    async fn admit<B>(
        &self,
        entry: &Entry,
        arrived: &Arrived<B>,
        path: &Fields,
        trace: &mut Trace,
        watch: Stopwatch,
    ) -> Result<Admission, Refusal> {
        if entry.spec.access == Access::Open {
            return Ok(Admission::anonymous());
        }
        let headers = &arrived.parts.headers;
        let bearer = self.calls.bearer(headers).await.map_err(|problem| {
            let refused = problem.code() == Code::Unauthenticated && headers.contains_key(AUTHORIZATION);
            Refusal { challenge: refused.then_some(respond::CHALLENGE_INVALID), ..problem.into() }
        })?;
        let call = (arrived.request_id.as_str(), watch);
        let admitted = self.calls.admit(entry, EntryPoint::Api, &bearer, call, path, trace).await?;
        trace.bearer = Some(bearer);
        Ok(admitted)
    }
}
