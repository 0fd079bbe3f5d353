//! Calls of a company's own services.
//!
//! A service is described by its OpenAPI document: its operations stand in the catalog beside those of the areas, and are
//! found, admitted, limited and counted like them. What differs is what runs: the request is checked against the document
//! and forwarded to a target (`request.rs`), with what the service may know of its caller (`caller.rs`); the answer passes
//! through as it comes (`body.rs`), or becomes our envelope when it is an error (`answer.rs`). A call by its name, on a
//! socket, over MQTT or as a tool, is made into a request first (`named.rs`).

mod answer;
mod body;
mod caller;
mod in_flight;
mod list;
mod metrics;
mod named;
mod request;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Body as _;
use portico_egress::Networks;
use portico_engine::input::{Fields, InputError};
use portico_engine::{Admission, Engine};
use portico_identity::Identity;
use portico_kernel::{AccountId, Caller, Code, Problem};
use portico_metering::Metering;
use portico_openapi::Document;
use portico_store::Queries;
use portico_upstream::{
    Answer, Failure, Upstream, append_forwarded, forwarded_element, strip_answer, strip_request, units,
};

pub use self::body::ForwardedBody;
pub use self::in_flight::CallsInFlight;
pub use self::list::ServiceList;
pub(crate) use self::metrics::ServiceCollector;
pub use self::named::ServiceOperation;

use self::answer::{ServiceError, finish_head, problem_of};
use self::caller::CallerHeaders;
use self::in_flight::InFlight;
use self::request::Upload;
use crate::body::HttpBody;
use crate::calls::Calls;
use crate::credential::Credential;
use crate::incoming::IncomingRequest;
use crate::outgoing::{HttpAnswer, Outgoing};
use crate::party::{Buckets, Party};
use crate::response::Refusal;
use crate::scope::CallScope;
use crate::transport::{Transport, peer_of, wait};
use crate::websocket::is_upgrade;

/// A company's own service, as the gateway reaches it.
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// What it serves.
    pub document: Arc<Document>,
    /// Does the readiness of the platform wait for it?
    pub is_required: bool,
    /// Where it is.
    pub upstream: Arc<Upstream>,
    /// Are requests checked against the document before they are forwarded?
    pub checks_requests: bool,
    /// Do its errors get our envelope?
    pub wraps_errors: bool,
    /// The largest request that it takes, in bytes.
    pub body_max: u64,
    /// Signs what it is told of a call.
    pub identity: Arc<Identity>,
    /// Knows the plans of accounts.
    pub metering: Arc<Metering>,
    /// Proxies that are believed about where a call came from.
    pub trusted_proxies: Networks,
    /// Is the API reached by https?
    pub is_https: bool,
    /// What each tenant has under way.
    pub in_flight: CallsInFlight,
}

/// How often it is looked whether an answer that goes on may do so.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who calls a service: in which account, with which token, and as one of how many.
type CallerAtService<'a> = (&'a Admission, Option<&'a Credential>, InFlight);

/// Refuses a service's own token: what other services offer is for customers.
fn for_customers(caller: &Caller) -> Result<(), Problem> {
    match caller.service() {
        Some(_) => {
            Err(Problem::new(Code::Forbidden, "A service's own token does not open what services offer."))
        }
        None => Ok(()),
    }
}

/// The price that an answer or its trailers tell; an error of the service costs nothing anyway.
fn units_told(headers: &HeaderMap, status: StatusCode) -> Option<u32> {
    let units = units(headers).filter(|_| !status.is_server_error())?;
    u32::try_from(units).ok()
}

/// What a service is asked.
struct ForwardedRequest<'a> {
    method: Method,
    path_and_query: &'a str,
    headers: HeaderMap,
    /// Nobody, on a route that is open to everybody.
    caller: Option<&'a Caller>,
    account: Option<AccountId>,
    plan: &'a str,
    request_id: &'a str,
}

impl Service {
    /// The head of the request for the service: what came with the call, and what it is told of the caller.
    fn head(&self, engine: &Engine, asked: ForwardedRequest<'_>) -> Result<Request<()>, Problem> {
        let ForwardedRequest { method, path_and_query, headers, caller, account, plan, request_id } = asked;
        let mut request = Request::new(());
        *request.uri_mut() = path_and_query.parse().map_err(Problem::internal)?;
        *request.headers_mut() = headers;
        let path = request.uri().path().to_owned();
        let told = CallerHeaders {
            service: self.name,
            caller,
            account,
            plan,
            request_id,
            method: &method,
            path: &path,
        };
        told.add(engine, &self.identity, request.headers_mut())?;
        *request.method_mut() = method;
        Ok(request)
    }

    /// Takes out of the headers what no service may see, and says where the call came from.
    fn tell_way(&self, parts: &Parts, headers: &mut HeaderMap) {
        let peer = peer_of(&parts.extensions);
        strip_request(headers, self.trusted_proxies.contains(peer));
        // `Connection` cannot take away what the body is.
        if let Some(content_type) = parts.headers.get(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| parts.uri.authority().map(Authority::as_str));
        let scheme = if self.is_https { "https" } else { "http" };
        append_forwarded(headers, &forwarded_element(Some(peer), host, scheme));
    }
}

impl Calls {
    /// Forwards a call that came over HTTP, and passes on what its service answers.
    pub(crate) async fn forward<B: HttpBody>(
        self: &Arc<Self>,
        operation: &ServiceOperation,
        incoming: &mut IncomingRequest<B>,
        variables: Result<Fields, InputError>,
        (admission, credential): (Admission, Option<Credential>),
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, Refusal> {
        let service = &operation.service;
        for_customers(admission.caller())?;
        let mut headers = incoming.parts.headers.clone();
        service.tell_way(&incoming.parts, &mut headers);
        operation.check_head(&incoming.parts, &headers, &variables?)?;
        let is_upgrade = operation.operation().websocket && is_upgrade(&incoming.parts);
        let party = credential.as_ref().map_or_else(
            || Party::Bucket(Buckets::of(peer_of(&incoming.parts.extensions)).network),
            |credential| Party::of(credential.caller()),
        );
        let mut in_flight = service.in_flight.begin(party)?;
        let upload = operation.read_body(incoming, admission.caller(), &mut in_flight).await?;
        incoming.mark_working();
        if let Some(paying) = scope.charge().as_ref().and_then(|charge| charge.pay()) {
            paying.await.inspect_err(|problem| self.metrics.refused(problem.code()))?;
        }
        let plan = &*scope.plan();
        let head = service.head(
            &self.engine,
            ForwardedRequest {
                method: incoming.parts.method.clone(),
                path_and_query: incoming.parts.uri.path_and_query().map_or("/", |path| path.as_str()),
                headers,
                caller: credential.as_ref().map(|credential| credential.caller().as_ref()),
                account: admission.account(),
                plan,
                request_id: &scope.request_id,
            },
        )?;
        let caller = (&admission, credential.as_ref(), in_flight);
        let passed = if is_upgrade {
            Box::pin(self.pass_websocket(service, head, incoming, caller, scope)).await
        } else {
            self.ask(service, head.map(|()| upload), incoming, caller, scope).await
        };
        if passed.is_err()
            && let Some(charge) = scope.charge()
        {
            // What the gateway refuses costs nothing, also when it was paid for already.
            charge.reprice(0).await?;
        }
        passed
    }

    /// Asks the service, and passes on what it answers.
    async fn ask<B: HttpBody>(
        self: &Arc<Self>,
        service: &Service,
        request: Request<Upload>,
        incoming: &IncomingRequest<B>,
        (_, credential, mut in_flight): CallerAtService<'_>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, Refusal> {
        let (head, upload) = request.into_parts();
        let head = Request::from_parts(head, ());
        let answer = match service.upstream.send(head.map(|()| upload.body)).await {
            Ok(answer) => answer,
            Err(failure) => {
                let fault = upload.fault.filter(|_| matches!(failure, Failure::RequestBroke { .. }));
                let problem =
                    fault.map_or_else(|| problem_of(&failure, service.name), |fault| fault.problem());
                tracing::debug!(%failure, service = service.name, request_id = &*scope.request_id, "Service did not answer");
                return Err(problem.into());
            }
        };
        // The request has left our memory, however long the answer goes on.
        in_flight.hold(0)?;
        self.pass_on(service, answer, (credential, in_flight), incoming, scope).await
    }

    /// Resolves when an answer that goes on must end: the caller's token is good no more, or the server stops.
    fn watch(self: &Arc<Self>, credential: Option<Credential>) -> BoxFuture<'static, ()> {
        let calls = self.clone();
        Box::pin(async move {
            let is_good = || credential.as_ref().is_none_or(|credential| calls.is_valid(credential));
            while is_good() && calls.stopping.check().is_ok() {
                wait(LOOK_EVERY).await;
            }
        })
    }

    /// Passes on what a service answered.
    async fn pass_on<B: HttpBody>(
        self: &Arc<Self>,
        service: &Service,
        answer: Answer,
        (credential, in_flight): (Option<&Credential>, InFlight),
        incoming: &IncomingRequest<B>,
        scope: &mut CallScope,
    ) -> Result<HttpAnswer, Refusal> {
        let Answer { mut response, waited, .. } = answer;
        let status = response.status();
        let charge = scope.charge();
        let told = units_told(response.headers(), status);
        if let (Some(units), Some(charge)) = (told, &charge) {
            // The work is done, whether or not its price can be told now.
            if let Err(problem) = charge.reprice(units).await {
                tracing::error!(cause = ?problem.cause(), "Failed to charge what a service told");
            }
        }
        strip_answer(response.headers_mut());
        waited.count_rest(scope.elapsed());
        if service.wraps_errors && (status.is_client_error() || status.is_server_error()) {
            let error = ServiceError::read(response, service.name).await;
            let code = error.problem.code();
            scope.note(Queries::default(), (code.status() == status.as_u16()).then_some(code));
            if let Some(charge) = &charge {
                charge.settle(Some(code));
            }
            return Ok(error.into_response(&scope.request_id).into());
        }
        if let Some(charge) = &charge {
            charge.settle(status.is_server_error().then_some(Code::Internal));
        }
        let (head, body) = response.into_parts();
        let mut head = Response::from_parts(head, Bytes::new());
        finish_head(&mut head);
        if body.is_end_stream() {
            return Ok(head.into());
        }
        let transport = incoming.parts.extensions.get::<Transport>().cloned();
        let watch = self.watch(credential.cloned());
        let begin = move |scope: CallScope| {
            let ending = (scope, charge, in_flight);
            Outgoing::Forwarded(Box::new(ForwardedBody::new(
                body,
                status.as_u16(),
                ending,
                transport,
                Some(watch),
            )))
        };
        Ok(HttpAnswer { head, stream: Some(Box::new(begin)) })
    }
}
