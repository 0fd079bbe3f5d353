//! The identity provider's listener: its answers, and the same envelope around everything else.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::ALLOW;
use http::{Method, Request, Response, StatusCode};
use portico_engine::{Engine, log_failure, timed_out};
use portico_identity::{Arrival, Identity, limits, oauth_refusal, open_to_any_origin};

use crate::body::HttpBody;
use crate::cors::{self, Origins};
use crate::incoming::{IncomingRequest, Stopping, check_host, guard};
use crate::response::Refusal;
use crate::transport::peer_address;

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
        incoming.any_origin = open_to_any_origin(incoming.parts.uri.path()).is_some();
        incoming.finish(result, &Origins::default())
    }

    async fn answer<B: HttpBody>(
        &self,
        incoming: &mut IncomingRequest<B>,
    ) -> Result<Response<Bytes>, Refusal> {
        self.stopping.check()?;
        check_host(incoming.parts.version, &incoming.parts.headers)?;
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
