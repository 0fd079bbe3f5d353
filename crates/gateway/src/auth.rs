//! The identity provider's listener: its answers, and the same envelope around everything else.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Body;
use portico_engine::{Engine, log_failure, timed_out};
use portico_identity::{Arrival, Identity, limits, open_to_any_origin};

use crate::arrived::{Arrived, Stopping, check_host, guard};
use crate::cors::{self, Origins};
use crate::respond::Refusal;
use crate::server::peer_address;

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
    pub async fn handle<B>(&self, request: Request<B>) -> Response<Bytes>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin + Send,
    {
        let mut arrived = Arrived::new(request, &self.engine);
        let request_id = arrived.request_id.clone();
        let result = guard(pin!(self.answer(&mut arrived)), &request_id).await;
        if let Err(refusal) = &result {
            log_failure(&refusal.problem, "identity provider", &request_id);
        }
        // Programs in a browser register and get tokens from wherever their page is; the pages of people are ours alone.
        arrived.any_origin = open_to_any_origin(arrived.parts.uri.path()).is_some();
        arrived.finish(result, &Origins::default())
    }

    async fn answer<B>(&self, arrived: &mut Arrived<B>) -> Result<Response<Bytes>, Refusal>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
    {
        self.stopping.check()?;
        check_host(arrived.parts.version, &arrived.parts.headers)?;
        if arrived.parts.method == Method::OPTIONS
            && Origins::is_preflight(&arrived.parts.headers)
            && let Some(allow) = open_to_any_origin(arrived.parts.uri.path())
        {
            return Ok(cors::preflight(&http::HeaderValue::from_static(allow)));
        }
        let bytes = arrived.body.read(limits::FORM_BYTES_MAX).await?;
        arrived.working();
        let mut request = Request::from_parts(arrived.parts.clone(), bytes);
        let (peer, request_id) = (peer_address(&request), arrived.request_id.clone());
        request.extensions_mut().insert(Arrival { peer, request_id });
        // Boxed, because the way through sign-in and consent is large and seldom taken.
        let answering = Box::pin(self.identity.answer(&self.engine, request));
        let response = tokio::time::timeout(self.engine.operation_time_max, answering)
            .await
            .map_err(|_| timed_out())??;
        // A method that is not served leaves the provider without a body; it gets the envelope here.
        match response.headers().get(http::header::ALLOW) {
            Some(allow) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
                Err(Refusal::method_not_allowed(allow))
            }
            _ => Ok(response),
        }
    }
}
