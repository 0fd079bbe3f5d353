//! REST: the way of a request from the first byte to the answer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Body;
use portico_engine::input::Fields;
use portico_engine::{Access, Admission, CallOptions, Engine, Entry, EntryPoint, Protocol};
use portico_identity::Identity;
use portico_kernel::{Code, Problem};
use portico_metering::Metering;

use crate::answered::answered;
use crate::arrived::{Arrived, Stopping, check_host, guard};
use crate::calls::{Calls, NO_FIELDS};
use crate::carried::Who;
use crate::cors::{self, Origins};
use crate::lines::Lines;
use crate::mcp::Mcp;
use crate::outgoing::{HttpAnswer, Outgoing};
use crate::respond::{self, Refusal};
use crate::routes::{Methods, Route, RouteError, Routes};
use crate::scope::CallScope;
use crate::tokens::Bearer;
use crate::{Metrics, carried, message, sse};

/// Serves the registry's operations over HTTP.
pub struct Gateway {
    pub(crate) calls: Arc<Calls>,
    pub(crate) lines: Arc<Lines>,
    mcp: Arc<Mcp>,
    origins: Origins,
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
        let calls = Arc::new(Calls::new(engine, identity.clone(), metering, metrics, stopping));
        let mcp = Arc::new(Mcp::new(&calls, &identity, &origins)?);
        Ok(Self { calls, lines, mcp, origins, routes })
    }

    /// Answers a request. Whatever happens inside, something that fits the specification comes out.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Outgoing>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send,
    {
        let mut arrived = Arrived::new(request, &self.calls.engine);
        let request_id = arrived.request_id.clone();
        let is_head = arrived.parts.method == Method::HEAD;
        let mut scope = self.calls.scope(request_id.clone());
        let answer = guard(pin!(self.answer(&mut arrived, &mut scope)), &request_id).await;
        let code = answer.as_ref().err().map(|refusal| refusal.problem.code());
        let (head, stream) = match answer {
            Ok(HttpAnswer { head, stream }) => (Ok(head), stream.filter(|_| !is_head)),
            Err(refusal) => (Err(refusal), None),
        };
        let mut response = arrived.finish(head, &self.origins);
        if let Some(status) = scope.rate_limit() {
            respond::limit(&mut response, status);
        }
        match stream {
            Some(begin) => response.map(|_| Outgoing::Stream(begin(scope))),
            None => {
                scope.finish(response.status().as_u16(), code);
                response.map(Outgoing::Whole)
            }
        }
    }

    async fn answer<B>(&self, arrived: &mut Arrived<B>, scope: &mut CallScope) -> Result<HttpAnswer, Refusal>
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
                arrived.any_origin = methods.any_origin;
                return self.other_method(&arrived.parts, methods).map(HttpAnswer::from);
            }
            Route::To(entry, variables) => (entry, variables),
        };
        scope.operation = Some(entry.spec.name);
        arrived.any_origin = entry.spec.is_public_document();
        if carried::is_unnamed(entry, &arrived.parts) {
            // Who it is comes in the first frame.
            message::read(entry, arrived, variables).await.and_then(carried::no_fields)?;
            let place = self.lines.unnamed()?;
            return self.upgrade(entry, &mut arrived.parts, Who::Unnamed(place)).map(HttpAnswer::from);
        }
        if entry.spec.protocol == Some(Protocol::Mcp) {
            // Boxed, because it is large, and every other request would carry it along.
            return Box::pin(self.mcp.handle_mcp(entry, arrived, scope)).await;
        }
        let path = variables.as_ref().unwrap_or(&NO_FIELDS);
        let (admission, bearer) = self.admit(entry, arrived, path, scope).await?;
        let mut fields = message::read(entry, arrived, variables).await?;
        let idempotency_key = message::idempotency_key(entry, &arrived.parts.headers)?;
        if entry.spec.protocol == Some(Protocol::Sse) {
            sse::resume_from_header(&arrived.parts.headers, &mut fields)?;
        }
        let sent = entry.spec.list.map(|_| fields.clone());
        arrived.working();
        let call = scope.call(admission, fields, idempotency_key, CallOptions::default());
        let reply = self.calls.run(entry, call).await?;
        scope.note_reply(&reply);
        match bearer {
            Some(bearer) if entry.spec.protocol.is_some() => {
                self.open(entry, arrived, &reply, &bearer).await.inspect_err(|_| scope.refund())
            }
            _ => Ok(answered(entry, &arrived.parts, reply, sent).into()),
        }
    }

    /// `OPTIONS` answers browsers that ask whether they may call; every other method that is not served is refused.
    fn other_method(&self, parts: &Parts, methods: &Methods) -> Result<Response<Bytes>, Refusal> {
        let asks = parts.method == Method::OPTIONS && Origins::is_preflight(&parts.headers);
        if asks && (methods.any_origin || self.origins.allowed(&parts.headers).is_some()) {
            return Ok(cors::preflight(&methods.allow));
        }
        Err(Refusal::method_not_allowed(&methods.allow))
    }

    /// Token, scope, account and rate, in this order. What is open to all is called by nobody.
    async fn admit<B>(
        &self,
        entry: &Entry,
        arrived: &Arrived<B>,
        path: &Fields,
        scope: &mut CallScope,
    ) -> Result<(Admission, Option<Bearer>), Refusal> {
        if entry.spec.access == Access::Open {
            return Ok((Admission::anonymous(), None));
        }
        let headers = &arrived.parts.headers;
        let bearer = self.calls.bearer(headers).await.map_err(|problem| {
            self.calls.not_admitted(&problem, entry, &scope.request_id);
            let refused = problem.code() == Code::Unauthenticated && headers.contains_key(AUTHORIZATION);
            Refusal { challenge: refused.then_some(respond::CHALLENGE_INVALID), ..problem.into() }
        })?;
        let admission = self.calls.admit(entry, EntryPoint::Api, &bearer, path, scope).await?;
        Ok((admission, Some(bearer)))
    }
}
