//! What people see: plain forms that work without scripts, passkeys excepted.
//!
//! How a person lets an app in:
//!
//! 1. The app sends the browser to `/oauth2/auth`. `PageRequest::authorize` has `Identity::read_authorization` check
//!    the client and its address first. Until both are known, a refusal is shown to the person and nobody is
//!    redirected; after that it goes to the app, by a click of the person where nobody has checked the app.
//! 2. If nobody is signed in, the browser goes to `/signin` and brings the request along. `PageRequest::signin` takes
//!    an attempt from every limit (`attempts::try_take`), checks the password (`Passwords::matches`), and begins a
//!    session, or asks for a code first.
//! 3. Back at `/oauth2/auth`, `PageRequest::settled` decides whether the person must be asked. If so, the request is
//!    sealed for this session and carried to `/consent`, which names the app, its host, the scopes and the accounts to
//!    choose from.
//! 4. *Allow* uses the sealed request up, and the browser goes back to the app with a code that lives a minute. The code
//!    carries what it stands for, sealed (`oauth/code.rs`); nothing is written yet.
//! 5. The app exchanges the code with its PKCE verifier (`Identity::exchange_code`). One statement inserts the
//!    authorization, so the code works once, and using it again ends the authorization. The app gets a token of 15
//!    minutes and a refresh token.
//! 6. The person disconnects the app in the settings, leaves the account or signs out. The authorization ends
//!    (`people/ending.rs`), its id is added to the revocations, and within a second its tokens are refused on every
//!    server.

mod authorize;
mod consent;
mod device;
mod email;
mod frame;
mod overview;
mod password;
mod settings;
mod signin;
mod signout;
mod signup;
mod totp;

use std::time::Duration;

use http::Method;
use portico_engine::log_failure;
use portico_kernel::{Code, Problem, Secret};
use serde::Deserialize;

use crate::Identity;
use crate::http::response::{self, AuthResponse};
use crate::http::routes::{PageHandler, RefusalView, Route};
use crate::http::{Params, RequestContext};
use crate::people::session::{self, FormGuard, Session};

pub(crate) const STYLE: &str = include_str!("../../assets/portico.css");
pub(crate) const SCRIPT: &str = include_str!("../../assets/passkeys.js");

/// A request for a page.
pub(crate) struct PageRequest<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) context: &'a RequestContext<'a>,
    /// The session of the browser, if it is signed in.
    pub(crate) session: Option<Session>,
    /// The posted form, whose CSRF token was right; empty when none was posted.
    form: Params,
}

/// What every body of JSON has.
#[derive(Deserialize)]
struct CsrfToken {
    csrf: String,
}

/// Answers a request for a page. An error is a page too.
pub(crate) async fn answer(
    identity: &Identity,
    context: &RequestContext<'_>,
    route: &Route,
    handler: PageHandler,
) -> AuthResponse {
    let answering = async {
        let session = identity.session(context).await?;
        let mut page = PageRequest { identity, context, session, form: Params::default() };
        page.run(route, handler).await
    };
    answering.await.unwrap_or_else(|problem| {
        log_failure(&problem, "page", &context.request_id);
        match route.refusal_view {
            RefusalView::Json => frame::script_failure(&problem),
            _ => identity.failure(&problem, &context.request_id),
        }
    })
}

impl PageRequest<'_> {
    async fn run(&mut self, route: &Route, handler: PageHandler) -> Result<AuthResponse, Problem> {
        if self.session.is_none() && !matches!(handler, PageHandler::Anyone(_)) {
            // A script cannot follow a redirect to a page.
            return if route.refusal_view == RefusalView::Json {
                Err(signed_out())
            } else {
                Ok(self.to_signin())
            };
        }
        if route.takes_form() {
            let form = self.context.form();
            let form = form.map_err(|error| Problem::new(Code::BadRequest, error.description))?;
            self.check_csrf(form.text("csrf"))?;
            self.form = form;
        } else if route.takes_json {
            self.check_csrf(&self.json::<CsrfToken>()?.csrf)?;
        }
        // What was refused until here wrote nothing, and so it is not counted.
        let signed_in = self.session.as_ref().map(|session| session.person.id);
        self.identity.write_limits.count(route.counts(), self.context, signed_in)?;
        match self.run_handler(route, handler).await {
            Err(problem) if is_mendable(&problem) => self.show_refusal(route.refusal_view, problem).await,
            result => result,
        }
    }

    async fn run_handler(&self, route: &Route, handler: PageHandler) -> Result<AuthResponse, Problem> {
        if route.asks_password {
            self.check_password().await?;
        }
        match (handler, &self.session) {
            (PageHandler::Anyone(run), _) => run(self).await,
            (_, None) => Err(signed_out()),
            (PageHandler::SignedIn(run), Some(session)) => run(self, session).await,
            (PageHandler::Change(run), Some(session)) => {
                let mut ctx = session.ctx(self.context);
                run(self, &mut ctx, session).await?;
                ctx.finish().await?;
                Ok(response::see_other("/settings"))
            }
        }
    }

    /// Shows a refusal where the person can mend what was wrong.
    async fn show_refusal(&self, view: RefusalView, problem: Problem) -> Result<AuthResponse, Problem> {
        match (view, &self.session) {
            (RefusalView::Settings, Some(session)) => self.show_settings(session, Some(&problem)).await,
            (RefusalView::TotpSetup, Some(session)) => self.show_totp(session, Some(&problem)),
            _ => Err(problem),
        }
    }

    /// The CSRF token for the page's forms.
    fn guard(&self) -> FormGuard {
        session::guard(self.context, self.session.as_ref())
    }

    fn check_csrf(&self, csrf: &str) -> Result<(), Problem> {
        if session::is_guarded(self.context, self.session.as_ref(), &self.identity.issuer_origin, csrf) {
            return Ok(());
        }
        let message =
            "The form is too old, or was sent from elsewhere. Go back, load the page again and retry.";
        Err(Problem::new(Code::Forbidden, message))
    }

    fn query(&self) -> Result<Params, Problem> {
        self.context.query().map_err(|error| Problem::new(Code::BadRequest, error.description))
    }

    /// Redirects to the sign-in, and from there back here.
    fn to_signin(&self) -> AuthResponse {
        let here = self.context.http.uri().path_and_query().map_or("/settings", |here| here.as_str());
        signin::to_signin(if self.context.http.method() == Method::POST { "/settings" } else { here })
    }

    /// A secret from the form.
    fn secret(&self, name: &str) -> Secret<String> {
        Secret::new(self.form.text(name).to_owned())
    }
}

fn signed_out() -> Problem {
    Problem::new(Code::Unauthenticated, "You are signed out. Load the page again.")
}

fn expired_link() -> Problem {
    Problem::new(Code::NotFound, "This link is over, was used already, or never was one.")
}

fn used_link() -> Problem {
    Problem::new(Code::NotFound, "This link was used already.")
}

fn too_many_attempts(wait: Duration) -> Problem {
    let message = match response::whole_seconds(wait) {
        seconds @ ..120 => format!("Too many wrong tries. Wait {seconds} seconds, then try again."),
        seconds => format!("Too many wrong tries. Wait {} minutes, then try again.", seconds.div_ceil(60)),
    };
    Problem::new(Code::RateLimited, message).retry_after(wait)
}

/// Can the person who filled the form mend this? Everything else is shown on a page of its own.
fn is_mendable(problem: &Problem) -> bool {
    matches!(problem.code(), Code::BadRequest | Code::Unauthenticated | Code::RateLimited)
}

/// Where a person goes on after signing in: to a page of ours, never to another site.
fn safe_return(address: &str) -> &str {
    let known = ["/oauth2/auth?", "/consent?", "/settings", "/signup?invitation="];
    let plain = address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if plain && known.iter().any(|start| address.starts_with(start)) { address } else { "/settings" }
}

#[cfg(test)]
mod tests {
    use super::safe_return;

    #[test]
    fn nobody_is_sent_to_another_site() {
        assert_eq!(safe_return("/oauth2/auth?client_id=a"), "/oauth2/auth?client_id=a");
        for evil in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "",
            "/oauth2/auth\n?",
            "\\/evil",
            "/%2fevil",
            "settings",
        ] {
            assert_eq!(safe_return(evil), "/settings", "{evil}");
        }
    }
}
