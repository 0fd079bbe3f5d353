//! REST: the way of a request from the first byte to the answer.

use std::pin::pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, Request, Response};
use portico_engine::input::Fields;
use portico_engine::{
    Access, Admission, Body, Call, CallOptions, Catalog, Engine, Entry, EntryPoint, Protocol, Reply,
    RequestBody,
};
use portico_kernel::{Code, Problem};

use crate::body::HttpBody;
use crate::calls::{Calls, NO_FIELDS};
use crate::connections::Connections;
use crate::cors::{self, Origins};
use crate::credential::Credential;
use crate::forward::ServiceOperation;
use crate::incoming::{IncomingRequest, Stopping, check_host, guard};
use crate::mcp::{Mcp, Tools};
use crate::outgoing::{HttpAnswer, Outgoing};
use crate::party::Party;
use crate::response::{self, Refusal};
use crate::routes::{Methods, Route, RouteError, Routes};
use crate::scope::CallScope;
use crate::tokens::Tokens;
use crate::transport::{Refusals, Transport};
use crate::upgrade::{self, SocketPeer};
use crate::{Metrics, bytes_answer, message, sse};

/// What the gateway derives from a catalog: its routes, and its tools for assistants.
pub struct Tables {
    routes: Routes,
    tools: Tools,
}

/// Serves the registry's operations over HTTP.
pub struct Gateway {
    pub(crate) calls: Arc<Calls>,
    mcp: Arc<Mcp>,
    origins: Origins,
    routes: ArcSwap<Routes>,
}

impl Gateway {
    /// The gateway of everything in the engine's registry.
    pub fn new(
        engine: Arc<Engine>,
        tokens: Arc<Tokens>,
        connections: Arc<Connections>,
        origins: Origins,
        metrics: Arc<Metrics>,
        stopping: Stopping,
    ) -> Result<Self, RouteError> {
        let routes = ArcSwap::from_pointee(Routes::new(&engine.registry.catalog())?);
        let provider = tokens.identity.clone();
        let calls = Arc::new(Calls::new(engine, tokens, connections, metrics, stopping));
        let mcp = Arc::new(Mcp::new(&calls, &provider, &origins)?);
        Ok(Self { calls, mcp, origins, routes })
    }

    /// What the gateway derives from `catalog`; refuses paths that do not fit together.
    pub fn tables(catalog: &Catalog) -> Result<Tables, RouteError> {
        Ok(Tables { routes: Routes::new(catalog)?, tools: Tools::new(catalog) })
    }

    /// From now on calls are answered by these tables; those under way end on the ones before.
    pub fn set_tables(&self, tables: Tables) {
        self.routes.store(Arc::new(tables.routes));
        self.mcp.set_tools(tables.tools);
    }

    /// Answers a request. Whatever happens inside, something that fits the specification comes out.
    pub async fn handle<B: HttpBody>(&self, request: Request<B>) -> Response<Outgoing> {
        let mut incoming = IncomingRequest::new(request, &self.calls.engine);
        let request_id = incoming.request_id.clone();
        let is_head = incoming.parts.method == Method::HEAD;
        let mut scope = CallScope::new(&self.calls.metrics, request_id.clone());
        let answer = guard(pin!(self.answer(&mut incoming, &mut scope)), &request_id).await;
        let code = answer.as_ref().err().map(|refusal| refusal.problem.code());
        let (head, stream) = match answer {
            Ok(HttpAnswer { head, stream }) => (Ok(head), stream.filter(|_| !is_head)),
            Err(refusal) => (Err(refusal), None),
        };
        let transport = incoming.parts.extensions.get::<Transport>().cloned();
        let mut response = incoming.finish(head, &self.origins);
        if let Some(status) = scope.rate_limit() {
            response::rate_limit(&mut response, status);
        }
        if let Some(begin) = stream {
            return response.map(|_| begin(scope));
        }
        let (status, caller) = (response.status().as_u16(), scope.caller.clone());
        scope.finish(status, code);
        // Of a caller whom we know the others count in the minute.
        let is_paced =
            if caller.is_some() { Refusals::is_one(status) } else { response.status().is_client_error() };
        if let Some(transport) = transport.filter(|_| is_paced) {
            Box::pin(transport.slow_down(&mut response, caller, &self.calls.stopping)).await;
        }
        response.map(Outgoing::Whole)
    }

    async fn answer<B: HttpBody>(
        &self,
        incoming: &mut IncomingRequest<B>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, Refusal> {
        self.calls.stopping.check()?;
        check_host(incoming.parts.version, &incoming.parts.headers)?;
        // A call that has begun ends on the routes that it began on.
        let routes = self.routes.load_full();
        let (entry, variables) = match routes.find(&incoming.parts.method, incoming.parts.uri.path()) {
            Route::Nowhere => {
                return Err(Problem::new(Code::NotFound, "There is nothing at this path.").into());
            }
            Route::Wrong(methods) => {
                incoming.any_origin = methods.any_origin;
                return self.other_method(&incoming.parts, methods).map(HttpAnswer::from);
            }
            Route::To(entry, variables) => (entry, variables),
        };
        scope.operation = Some(entry.spec.name);
        incoming.any_origin = entry.spec.is_public_document();
        // Boxed, here and below, is what is large: every other request would carry it along, and be copied with it.
        if upgrade::is_preauth(entry, &incoming.parts) {
            // Who it is comes in the first frame.
            let stranger = Admission::anonymous();
            let reading = message::read(entry, incoming, stranger.caller(), variables);
            let (fields, _) = Box::pin(reading).await?;
            upgrade::no_fields(fields)?;
            let peer = SocketPeer::Unauthenticated;
            return Ok(upgrade::upgrade(&self.calls, entry, &mut incoming.parts, peer)?.into());
        }
        if entry.spec.protocol == Some(Protocol::Mcp) {
            return Box::pin(self.mcp.handle_mcp(entry, incoming, scope)).await;
        }
        let path = variables.as_ref().unwrap_or(&NO_FIELDS);
        let (admission, credential) = self.admit(entry, incoming, path, scope).await?;
        if let Some(operation) = entry.document::<ServiceOperation>() {
            if routes.is_ambiguous(incoming.parts.uri.path()) {
                let name = entry.spec.variables().last().unwrap_or("path");
                let words = "may be taken for another path of this API; write it without escapes";
                return Err(Problem::field(name, words).into());
            }
            let who = (admission, credential);
            return Box::pin(self.calls.forward(operation, incoming, variables, who, scope)).await;
        }
        let (mut fields, attachment) = message::read(entry, incoming, admission.caller(), variables).await?;
        let idempotency_key = message::idempotency_key(entry, &incoming.parts.headers)?;
        if entry.spec.protocol == Some(Protocol::Sse) {
            sse::resume_from_header(&incoming.parts.headers, &mut fields)?;
        }
        let sent = entry.spec.list.map(|_| fields.clone());
        incoming.mark_working();
        let call = scope.call(admission, fields, attachment, idempotency_key, CallOptions::default());
        let reply = match entry.spec.body {
            RequestBody::Upload => Box::pin(self.run_upload(entry, incoming, call)).await?,
            RequestBody::Json | RequestBody::Raw => self.calls.run(entry, call).await?,
        };
        scope.note_reply(&reply);
        match credential {
            Some(credential) if entry.spec.protocol.is_some() => {
                let opening = upgrade::open(&self.calls, entry, incoming, reply, &credential);
                let answer = Box::pin(opening).await;
                Ok(answer.inspect_err(|_| scope.refund())?)
            }
            _ => match reply.body {
                Body::Bytes(answer) => Ok(bytes_answer::response(answer, &incoming.parts)),
                body => {
                    let reply = Reply { body, ..reply };
                    Ok(response::from_reply(entry, &incoming.parts, reply, sent)?.into())
                }
            },
        }
    }

    /// Runs the call; what is uploaded is handed over meanwhile.
    async fn run_upload<B: HttpBody>(
        &self,
        entry: &Arc<Entry>,
        incoming: &mut IncomingRequest<B>,
        mut call: Call,
    ) -> Result<Reply, Problem> {
        let (sender, upload) = message::begin_upload(entry, incoming)?;
        call.attachment = Some(upload);
        let mut running = pin!(self.calls.run(entry, call));
        tokio::select! {
            biased;
            reply = &mut running => return reply,
            () = incoming.body.pump(sender) => {}
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

    /// Token, scope, account and rate, in this order. What is open to all is called by nobody.
    async fn admit<B: HttpBody>(
        &self,
        entry: &Entry,
        incoming: &IncomingRequest<B>,
        path: &Fields,
        scope: &mut CallScope,
    ) -> Result<(Admission, Option<Credential>), Refusal> {
        if entry.spec.access == Access::Open {
            return Ok((Admission::anonymous(), None));
        }
        let headers = &incoming.parts.headers;
        let credential = self.calls.authenticate_headers(headers).await.map_err(|problem| {
            self.calls.not_admitted(&problem, entry, &scope.request_id);
            let refused = problem.code() == Code::Unauthenticated && headers.contains_key(AUTHORIZATION);
            Refusal { challenge: refused.then_some(response::CHALLENGE_INVALID), ..problem.into() }
        })?;
        scope.caller = Some(Party::of(credential.caller()));
        incoming
            .mark_authenticated(credential.caller())
            .inspect_err(|problem| self.calls.not_admitted(problem, entry, &scope.request_id))?;
        let admission = self.calls.admit(entry, EntryPoint::Api, &credential, path, scope).await?;
        Ok((admission, Some(credential)))
    }
}
