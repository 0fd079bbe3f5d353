//! The identity provider's listener: its answers, and the same envelope around everything else.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Body;
use portico_engine::{Engine, log_failure, timed_out};
use portico_identity::{Identity, limits};

use crate::arrived::{Arrived, Stopping, check_host, guard};
use crate::cors::Origins;
use crate::respond::Refusal;

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
        let result = guard(self.answer(&mut arrived), &request_id).await;
        if let Err(refusal) = &result {
            log_failure(&refusal.problem, "identity provider", &request_id);
        }
        arrived.finish(result, &Origins::default())
    }

    async fn answer<B>(&self, arrived: &mut Arrived<B>) -> Result<Response<Bytes>, Refusal>
    where
        B: Body<Data = Bytes, Error: fmt::Display> + Unpin,
    {
        self.stopping.check()?;
        check_host(arrived.parts.version, &arrived.parts.headers)?;
        let bytes = arrived.body.read(limits::FORM_BYTES_MAX).await?;
        arrived.working();
        let request = Request::from_parts(arrived.parts.clone(), bytes);
        let answering = self.identity.answer(&self.engine, request);
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
