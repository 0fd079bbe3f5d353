//! What is served at `{auth_url}`. Errors of OAuth's own endpoints have OAuth's own shape; people get pages.

mod asked;
pub(crate) mod carried;
pub(crate) mod reply;

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use portico_engine::Engine;
use portico_kernel::{Code, Problem};

use crate::Identity;
use crate::oauth::Fault;
use crate::pages;

pub use asked::Arrival;
pub(crate) use asked::{Asked, Params, header};

const GET: &str = "GET, HEAD";
/// For what a look alone must not do.
const GET_ONLY: &str = "GET";
const POST: &str = "POST";
const GET_POST: &str = "GET, HEAD, POST";

/// Who a path is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visitors {
    /// Programs, also those in a browser's page of any origin.
    Programs,
    /// Programs that keep a secret.
    Servers,
    /// People.
    People,
}

/// Every path, the methods that it serves, and who it is for.
const ROUTES: &[(&str, &str, Visitors)] = &[
    ("/.well-known/jwks.json", GET, Visitors::Programs),
    ("/.well-known/oauth-authorization-server", GET, Visitors::Programs),
    ("/.well-known/openid-configuration", GET, Visitors::Programs),
    ("/oauth2/token", POST, Visitors::Programs),
    ("/oauth2/register", POST, Visitors::Programs),
    ("/oauth2/revoke", POST, Visitors::Programs),
    ("/oauth2/introspect", POST, Visitors::Servers),
    ("/oauth2/auth", GET_ONLY, Visitors::People),
    ("/", GET, Visitors::People),
    ("/assets/portico.css", GET, Visitors::People),
    ("/assets/icon.svg", GET, Visitors::People),
    ("/assets/passkeys.js", GET, Visitors::People),
    ("/signin", GET_POST, Visitors::People),
    ("/signin/code", GET_POST, Visitors::People),
    ("/signin/passkey/begin", POST, Visitors::People),
    ("/signin/passkey", POST, Visitors::People),
    ("/signup", GET_POST, Visitors::People),
    ("/password", GET_POST, Visitors::People),
    ("/password/forgotten", GET_POST, Visitors::People),
    ("/email", GET_POST, Visitors::People),
    ("/consent", GET_POST, Visitors::People),
    ("/signout", GET_POST, Visitors::People),
    ("/settings", GET, Visitors::People),
    ("/settings/name", POST, Visitors::People),
    ("/settings/email", POST, Visitors::People),
    ("/settings/password", POST, Visitors::People),
    ("/settings/totp", GET_POST, Visitors::People),
    ("/settings/totp/remove", POST, Visitors::People),
    ("/settings/passkeys/begin", POST, Visitors::People),
    ("/settings/passkeys", POST, Visitors::People),
    ("/settings/passkeys/remove", POST, Visitors::People),
    ("/settings/sessions/end", POST, Visitors::People),
    ("/settings/sessions/end-others", POST, Visitors::People),
    ("/settings/apps/end", POST, Visitors::People),
];

fn route(path: &str) -> Option<(&'static str, Visitors)> {
    ROUTES.iter().find(|(known, ..)| *known == path).map(|(_, allow, who)| (*allow, *who))
}

/// The methods of a path that pages of any origin may call; nothing for every other path.
pub fn open_to_any_origin(path: &str) -> Option<&'static str> {
    route(path).filter(|(_, who)| *who == Visitors::Programs).map(|(allow, _)| allow)
}

impl Identity {
    /// Answers a request to `{auth_url}`. What is outside of OAuth (an unknown path, a fault of ours) is a `Problem`.
    pub async fn answer(
        &self,
        engine: &Arc<Engine>,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Problem> {
        let path = request.uri().path();
        let nothing = || Problem::new(Code::NotFound, "There is nothing at this path.");
        let (allow, who) = route(path).ok_or_else(nothing)?;
        if !allow.split(", ").any(|served| served == request.method().as_str()) {
            return Ok(reply::method_not_allowed(allow));
        }
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let asked = Asked::new(engine, &request, &self.trusted_proxies);
        if who == Visitors::People {
            return Ok(Box::pin(pages::answer(self, &asked, method, path)).await);
        }
        let answered = match path {
            "/.well-known/jwks.json" => {
                Ok(reply::cached(reply::json(http::StatusCode::OK, &self.keys.jwks()), 300))
            }
            "/oauth2/token" => self.token(&asked).await,
            "/oauth2/register" => Box::pin(self.register(&asked)).await,
            "/oauth2/revoke" => Box::pin(self.revoke_token(&asked)).await,
            "/oauth2/introspect" => Box::pin(self.introspect(&asked)).await,
            _ => Ok(reply::cached(reply::json(http::StatusCode::OK, &self.metadata()), 300)),
        };
        match answered {
            Ok(reply) => Ok(reply),
            Err(Fault::Refused(error)) => Ok(reply::oauth_error(&error)),
            Err(Fault::Problem(problem)) => Err(problem),
        }
    }
}
