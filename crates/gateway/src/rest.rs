//! REST: the way of a request from the first byte to the answer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Body;
use portico_engine::clock::Stopwatch;
use portico_engine::input::Fields;
use portico_engine::ports::Toll;
use portico_engine::{Access, Admitted, Call, Engine, Entry, dispatch, log_failure};
use portico_identity::Identity;
use portico_kernel::{Code, Problem};
use portico_metering::{Metering, Ticket};
use tracing::field;

use crate::answered::answered;
use crate::arrived::{Arrived, Stopping, check_host, guard};
use crate::cors::{self, Origins};
use crate::metrics::NOWHERE;
use crate::respond::{self, Refusal};
use crate::routes::{Route, RouteError, Routes};
use crate::tokens::{Bearer, Tokens};
use crate::{Metrics, message};

/// The path variables of a path that has none, or whose variables do not read.
static NO_FIELDS: Fields = Fields::new();

/// Serves the registry's operations over HTTP.
pub struct Gateway {
    engine: Arc<Engine>,
    metering: Arc<Metering>,
    routes: Routes,
    tokens: Tokens,
    origins: Origins,
    metrics: Arc<Metrics>,
    stopping: Stopping,
}

/// What is known of a call when it ends, for the log and the metrics.
#[derive(Default)]
struct Trace {
    operation: Option<&'static str>,
    admitted: Option<Admitted>,
    /// The call as it is counted, once its caller is known.
    ticket: Option<Arc<Ticket>>,
    queries: u32,
    /// The code of a refusal that the operation answered with.
    code: Option<Code>,
}

impl Gateway {
    /// The gateway of everything in the engine's registry.
    pub fn new(
        engine: Arc<Engine>,
        identity: Arc<Identity>,
        metering: Arc<Metering>,
        origins: Origins,
        metrics: Arc<Metrics>,
        stopping: Stopping,
    ) -> Result<Self, RouteError> {
        let (routes, tokens) = (Routes::new(&engine.registry)?, Tokens::new(identity, metering.clone()));
        Ok(Self { engine, metering, routes, tokens, origins, metrics, stopping })
    }

    /// Answers a request. Whatever happens inside, something that fits the specification comes out.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Bytes>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send,
    {
        let watch = Stopwatch::start();
        let mut arrived = Arrived::new(request, &self.engine);
        let request_id = arrived.request_id.clone();
        let mut trace = Trace::default();
        let result = guard(pin!(self.answer(&mut arrived, &mut trace, watch)), &request_id).await;
        let code = result.as_ref().err().map(|refusal| refusal.problem.code());
        let mut response = arrived.finish(result, &self.origins);
        if let Some(ticket) = trace.ticket.take() {
            if let Some(standing) = ticket.standing() {
                self.metrics.window(standing);
                respond::limit(&mut response, standing);
            }
            // An operation's own refusal knows its code; what was refused before has it from there.
            ticket.finish(response.status().as_u16(), code.or(trace.code));
        }
        self.report(&trace, &request_id, response.status(), watch);
        response
    }

    /// One line for each call, and the same facts as numbers.
    fn report(&self, trace: &Trace, request_id: &str, status: StatusCode, watch: Stopwatch) {
        let elapsed = watch.elapsed();
        let operation = trace.operation.unwrap_or(NOWHERE);
        self.metrics.answered(operation, status.as_u16(), elapsed);
        let caller =
            trace.admitted.as_ref().map(|admitted| admitted.caller().subject.as_str()).unwrap_or_default();
        let account = trace.admitted.as_ref().and_then(Admitted::account).map(field::display);
        tracing::info!(
            operation,
            caller,
            account,
            status = status.as_u16(),
            // To the microsecond; more digits would cost more than they say.
            ms = f64::from(u32::try_from(elapsed.as_micros()).unwrap_or(u32::MAX)) / 1e3,
            queries = trace.queries,
            request_id,
            "Answered"
        );
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
        self.stopping.check()?;
        check_host(arrived.parts.version, &arrived.parts.headers)?;
        let (entry, variables) = match self.routes.find(&arrived.parts.method, arrived.parts.uri.path()) {
            Route::Nowhere => {
                return Err(Problem::new(Code::NotFound, "There is nothing at this path.").into());
            }
            Route::Wrong(allow) => return self.other_method(&arrived.parts, allow),
            Route::To(entry, variables) => (entry, variables),
        };
        trace.operation = Some(entry.spec.name);
        let path = variables.as_ref().unwrap_or(&NO_FIELDS);
        let admitted = self.admit(entry, arrived, path, trace, watch).await;
        let admitted = admitted
            .inspect_err(|refusal| log_failure(&refusal.problem, entry.spec.name, &arrived.request_id))
            .inspect_err(|refusal| self.metrics.refused(refusal.problem.code()))?;
        trace.admitted = Some(admitted.clone());
        let fields = message::read(entry, arrived, variables).await?;
        let idempotency_key = message::idempotency_key(entry, &arrived.parts.headers)?;
        let sent = entry.spec.list.map(|_| fields.clone());
        arrived.working();
        let toll = trace.ticket.clone().map(|ticket| ticket as Arc<dyn Toll>);
        let call = Call { admitted, request_id: arrived.request_id.clone(), fields, idempotency_key, toll };
        let reply = dispatch(&self.engine, entry, call).await.inspect_err(|problem| {
            if problem.code() == Code::QuotaExceeded {
                self.metrics.refused(Code::QuotaExceeded);
            }
        })?;
        (trace.queries, trace.code) = (reply.queries, reply.refused.map(|(code, _)| code));
        Ok(answered(entry, &arrived.parts, reply, sent))
    }

    /// `OPTIONS` answers browsers that ask whether they may call; every other method that is not served is refused.
    fn other_method(&self, parts: &Parts, allow: &HeaderValue) -> Result<Response<Bytes>, Refusal> {
        let asks = parts.method == Method::OPTIONS && Origins::is_preflight(&parts.headers);
        match self.origins.allowed(&parts.headers) {
            Some(_) if asks => Ok(cors::preflight(allow)),
            _ => Err(Refusal::method_not_allowed(allow)),
        }
    }

    /// Token, scope, account and rate, in this order. From the token on the call is counted.
    async fn admit<B>(
        &self,
        entry: &Entry,
        arrived: &Arrived<B>,
        path: &Fields,
        trace: &mut Trace,
        watch: Stopwatch,
    ) -> Result<Admitted, Refusal> {
        let parts = &arrived.parts;
        if entry.spec.access == Access::Open {
            return Ok(Admitted::anonymous());
        }
        let bearer = self.tokens.caller(&self.engine, &self.metrics, &parts.headers).await;
        let Bearer { caller, subject } = bearer.map_err(|problem| Refusal {
            token_sent: parts.headers.contains_key(AUTHORIZATION),
            ..problem.into()
        })?;
        trace.ticket = subject.and_then(|subject| {
            let call = (arrived.request_id.as_str(), watch);
            Ticket::new(&self.metering, &self.engine, (&caller, subject), &entry.spec, call)
        });
        let admitted = self.engine.admit(&entry.spec, caller, path).await;
        match (&trace.ticket, &admitted) {
            (Some(ticket), Ok(admitted)) => ticket.admit(admitted.account()).await?,
            (Some(ticket), Err(_)) => ticket.look().await,
            (None, _) => {}
        }
        Ok(admitted?)
    }
}
