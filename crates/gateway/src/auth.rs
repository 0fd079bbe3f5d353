//! The identity provider's listener: its answers, and the same envelope around everything else.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ALLOW;
use http::{Method, Request, Response, StatusCode};
use portico_engine::{Engine, log_failure, timed_out};
use portico_identity::{Arrival, Identity, is_page, limits, oauth_refusal, open_to_any_origin};
use portico_kernel::{Code, Problem};

use crate::body::HttpBody;
use crate::cors::{self, Origins};
use crate::incoming::{IncomingRequest, Stopping, check_host, guard};
use crate::pace::PACE_WAIT_MAX;
use crate::party::Party;
use crate::response::Refusal;
use crate::transport::{Transport, peer_address};

/// Serves `{auth_url}`.
pub struct AuthServer {
    engine: Arc<Engine>,
    identity: Arc<Identity>,
    stopping: Stopping,
}

impl AuthServer {
    /// The provider's listener.
    pub fn new(engine: Arc<Engine>, identity: Arc<Identity>, stopping: Stopping) -> Self {
        Self { engine, identity, stopping }
    }

    /// Answers a request.
    pub async fn handle<B: HttpBody>(&self, request: Request<B>) -> Response<Bytes> {
        let mut incoming = IncomingRequest::new(request, &self.engine);
        let request_id = incoming.request_id.clone();
        let result = guard(pin!(self.answer(&mut incoming)), &request_id).await;
        let path = incoming.parts.uri.path();
        let result = result.or_else(|refusal| {
            log_failure(&refusal.problem, "identity provider", &request_id);
            match oauth_refusal(path, &refusal.problem) {
                Some(mut response) => {
                    response.headers_mut().extend(refusal.allow.map(|allow| (ALLOW, allow)));
                    Ok(response)
                }
                None => Err(refusal),
            }
        });
        // Programs in a browser register and get tokens from wherever their page is; the pages of people are ours alone.
        let path = incoming.parts.uri.path();
        incoming.any_origin = open_to_any_origin(path).is_some();
        // A page has waited before it was answered.
        let transport = incoming.parts.extensions.get::<Transport>().filter(|_| !is_page(path)).cloned();
        let mut response = incoming.finish(result, &Origins::default());
        if let Some(transport) = transport.filter(|_| response.status().is_client_error()) {
            transport.slow_down(&mut response, None, &self.stopping).await;
        }
        response
    }

    /// Lets somebody ask for a page in their turn, before anything is done for it.
    async fn admit_visit<B>(&self, incoming: &IncomingRequest<B>) -> Result<(), Problem> {
        let headers = &incoming.parts.headers;
        let Some(transport) = incoming.parts.extensions.get::<Transport>() else { return Ok(()) };
        if !is_page(incoming.parts.uri.path()) {
            return Ok(());
        }
        let known = || {
            let person = self.identity.known_person(&self.engine, headers);
            person.map(|person| Party::Caller(person.to_string()))
        };
        tokio::select! {
            admitted = transport.admit_stranger(known) => {
                if admitted { return Ok(()) }
                transport.refusals().end();
                Err(too_many_wait())
            }
            () = self.stopping.begun() => self.stopping.check(),
        }
    }

    async fn answer<B: HttpBody>(
        &self,
        incoming: &mut IncomingRequest<B>,
    ) -> Result<Response<Bytes>, Refusal> {
        self.stopping.check()?;
        check_host(incoming.parts.version, &incoming.parts.headers)?;
        self.admit_visit(incoming).await?;
        if incoming.parts.method == Method::OPTIONS
            && Origins::is_preflight(&incoming.parts.headers)
            && let Some(allow) = open_to_any_origin(incoming.parts.uri.path())
        {
            return Ok(cors::preflight(&allow));
        }
        let bytes = incoming.body.read(limits::FORM_BYTES_MAX as u64).await?;
        incoming.mark_working();
        let mut request = Request::from_parts(incoming.parts.clone(), bytes);
        let (peer, request_id) = (peer_address(&request), incoming.request_id.clone());
        request.extensions_mut().insert(Arrival { peer, request_id });
        // Boxed, because the way through sign-in and consent is large and seldom taken.
        let answering = Box::pin(self.identity.answer(&self.engine, request));
        let response = tokio::time::timeout(self.engine.operation_time_max, answering)
            .await
            .map_err(|_| timed_out())??;
        // A method that is not served leaves the provider without a body; it gets one here.
        match response.headers().get(ALLOW) {
            Some(allow) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
                Err(Refusal::method_not_allowed(allow))
            }
            _ => Ok(response),
        }
    }
}

/// 429: the line of that network is full.
fn too_many_wait() -> Problem {
    let message = "Too many requests from your network wait for their answers already.";
    Problem::new(Code::RateLimited, message).retry_after(PACE_WAIT_MAX)
}
