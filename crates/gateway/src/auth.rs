//! The identity provider's listener: its answers, and the same envelope around everything else.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Body;
use portico_engine::Engine;
use portico_identity::{Identity, limits};
use portico_kernel::Problem;

use crate::body;
use crate::cors::Origins;
use crate::respond::Refusal;
use crate::rest::{finish, request_id};

/// Serves `{auth_url}`.
pub struct AuthServer {
    engine: Arc<Engine>,
    identity: Arc<Identity>,
}

impl AuthServer {
    /// The provider's listener.
    pub fn new(engine: Arc<Engine>, identity: Arc<Identity>) -> Self {
        Self { engine, identity }
    }

    /// Answers a request.
    pub async fn handle<B: Body<Data = Bytes> + Unpin + Send>(&self, request: Request<B>) -> Response<Bytes>
    where
        B::Error: std::fmt::Display,
    {
        let (parts, mut body) = request.into_parts();
        let request_id = request_id(&parts.headers, &self.engine);
        let answered = async {
            let bytes = body::read(&mut body, limits::FORM_BYTES_MAX).await?;
            let request = Request::from_parts(parts.clone(), bytes);
            self.identity.answer(&self.engine, request).await
        };
        let mut response = match answered.await {
            Ok(response) => with_envelope(response, &request_id),
            Err(problem) => {
                log(&problem, &request_id);
                Refusal::from(problem).into_response(&request_id)
            }
        };
        finish(&parts, &body, &Origins::default(), &request_id, &mut response);
        response
    }
}

/// A method that is not served leaves the provider without a body; it gets the envelope here.
fn with_envelope(response: Response<Bytes>, request_id: &str) -> Response<Bytes> {
    match response.headers().get(http::header::ALLOW) {
        Some(allow) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
            Refusal::method_not_allowed(allow).into_response(request_id)
        }
        _ => response,
    }
}

fn log(problem: &Problem, request_id: &str) {
    if let Some(cause) = problem.cause() {
        tracing::error!(request_id, code = problem.code().name(), %cause, "The identity provider failed");
    }
}
