//! What is served at `{auth_url}`: [`routes`] lists it. Errors of OAuth's own endpoints have OAuth's own shape; people
//! get pages.

pub(crate) mod brand;
mod request_context;
pub(crate) mod response;
pub(crate) mod routes;
pub(crate) mod sealed_state;
pub(crate) mod write_limits;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use portico_engine::Engine;
use portico_kernel::{Code, PersonId, Problem};

use crate::oauth::{EndpointError, OAuthError};
use crate::people::known_browser::KnownBrowser;
use crate::{Identity, pages};

pub use request_context::{Arrival, client_address};
pub(crate) use request_context::{Params, RequestContext, header};
use routes::{EndpointFn, Handler, ROUTES, Route};

/// Is the path one of a page, which people ask for?
pub fn is_page(path: &str) -> bool {
    ROUTES.iter().any(|route| route.path == path && matches!(route.handler, Handler::Page(_)))
}

impl Identity {
    /// The person who last signed in with the browser that sends this. Reads no database.
    pub fn known_person(&self, engine: &Arc<Engine>, headers: &HeaderMap) -> Option<PersonId> {
        let mut request = Request::new(Bytes::new());
        *request.headers_mut() = headers.clone();
        KnownBrowser::last_person(&RequestContext::new(engine, &request, &self.trusted_proxies))
    }

    /// Answers a request to `{auth_url}`. What is outside of OAuth (an unknown path, a fault of ours) is a `Problem`.
    pub async fn answer(
        &self,
        engine: &Arc<Engine>,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Problem> {
        let (path, method) = (request.uri().path(), request.method());
        let Some(route) = ROUTES.iter().find(|route| route.path == path && route.serves(method)) else {
            let unknown = || Problem::new(Code::NotFound, "There is nothing at this path.");
            return Ok(response::method_not_allowed(routes::allowed_methods(path).ok_or_else(unknown)?));
        };
        let context = RequestContext::new(engine, &request, &self.trusted_proxies);
        match route.handler {
            Handler::Page(handler) => Ok(pages::answer(self, &context, route, handler).await),
            Handler::Endpoint(run) => match self.run_endpoint(route, &context, run).await {
                Ok(response) => Ok(response),
                Err(EndpointError::Refusal(error)) => Ok(response::oauth_error(&error)),
                Err(EndpointError::Problem(problem)) => Err(problem),
            },
        }
    }

    async fn run_endpoint(
        &self,
        route: &Route,
        context: &RequestContext<'_>,
        run: EndpointFn,
    ) -> Result<Response<Bytes>, EndpointError> {
        self.write_limits.count(route.counts(), context, None).map_err(OAuthError::from)?;
        run(self, context).await
    }
}
