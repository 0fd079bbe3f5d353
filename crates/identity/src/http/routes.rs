//! The one table of what `{auth_url}` serves: path, methods, who may, whether the password is asked again, what counts
//! as a write, handler.
//! Status 404, status 405 with its `Allow`, and which paths are open to web pages of any origin are derived from it.

use std::future::ready;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method};
use portico_engine::Ctx;
use portico_kernel::Problem;

use super::RequestContext;
use super::response::{AuthResponse, asset, document, see_other};
use crate::Identity;
use crate::oauth::EndpointError;
use crate::pages::{PageRequest, SCRIPT, STYLE};
use crate::people::session::Session;

const GET: &str = "GET, HEAD";
/// For a path where a `HEAD` must not do what a `GET` does.
const GET_ONLY: &str = "GET";
const POST: &str = "POST";

pub(super) type EndpointFn =
    for<'a> fn(&'a Identity, &'a RequestContext<'a>) -> BoxFuture<'a, Result<AuthResponse, EndpointError>>;
type PageFn = for<'a> fn(&'a PageRequest<'a>) -> BoxFuture<'a, Result<AuthResponse, Problem>>;
type SignedInFn =
    for<'a> fn(&'a PageRequest<'a>, &'a Session) -> BoxFuture<'a, Result<AuthResponse, Problem>>;
type ChangeFn =
    for<'a> fn(&'a PageRequest<'a>, &'a mut Ctx, &'a Session) -> BoxFuture<'a, Result<(), Problem>>;

/// The handler of a route.
#[derive(Clone, Copy)]
pub(super) enum Handler {
    /// An endpoint for programs, or a file.
    Endpoint(EndpointFn),
    /// A page for people.
    Page(PageHandler),
}

/// The handler of a page, by who may see it.
#[derive(Clone, Copy)]
pub(crate) enum PageHandler {
    Anyone(PageFn),
    /// Whoever is signed in. Everybody else is sent to sign in first.
    SignedIn(SignedInFn),
    /// The same, for a form that changes one setting and leads back to the settings.
    Change(ChangeFn),
}

/// Which requests count as writes. How many there may be in a minute stands with
/// [`WriteLimits`](super::write_limits::WriteLimits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// None, since they write nothing.
    Nothing,
    /// Every one: for the person who is signed in, or else for its address.
    Every,
    /// Those of people who are signed in: for nobody else anything is written.
    OfSignedIn,
}

/// Where a refusal that the person can mend is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalView {
    /// On a page of its own.
    ErrorPage,
    Settings,
    TotpSetup,
    /// As JSON, for the script that posted.
    Json,
}

/// One row of the table.
pub struct Route {
    /// The path; none of them has variables.
    pub path: &'static str,
    /// The methods, as `Allow` lists them.
    pub methods: &'static str,
    /// Is the person asked for their password again?
    pub asks_password: bool,
    /// May programs in web pages of any origin call it?
    any_origin: bool,
    /// Is the body JSON? The other posts to pages are forms. The CSRF token of both is checked before the handler runs.
    pub(crate) takes_json: bool,
    pub(crate) refusal_view: RefusalView,
    /// `None` for what the method says: every POST counts, and no GET.
    counts: Option<Counts>,
    pub(super) handler: Handler,
}

impl Route {
    const fn new(path: &'static str, methods: &'static str, handler: Handler) -> Self {
        Self {
            path,
            methods,
            asks_password: false,
            any_origin: false,
            takes_json: false,
            refusal_view: RefusalView::ErrorPage,
            counts: None,
            handler,
        }
    }

    const fn asks_password(self) -> Self {
        Self { asks_password: true, ..self }
    }

    /// It is posted by a script, in JSON.
    const fn script(self) -> Self {
        Self { takes_json: true, refusal_view: RefusalView::Json, ..self }
    }

    const fn refuses(self, refusal_view: RefusalView) -> Self {
        Self { refusal_view, ..self }
    }

    const fn counting(self, counts: Counts) -> Self {
        Self { counts: Some(counts), ..self }
    }

    /// Which of its requests count as writes.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.unwrap_or(if self.methods == POST { Counts::Every } else { Counts::Nothing })
    }

    pub(super) fn serves(&self, method: &Method) -> bool {
        self.methods.split(", ").any(|served| served == method.as_str())
    }

    /// Does it take a form?
    pub(crate) fn takes_form(&self) -> bool {
        self.methods == POST && !self.takes_json
    }
}

/// For programs, also those in a web page of any origin.
const fn program(methods: &'static str, path: &'static str, run: EndpointFn) -> Route {
    Route { any_origin: true, ..Route::new(path, methods, Handler::Endpoint(run)) }
}

/// For programs that keep a secret, and so for none in a web page; also for files that our own pages use.
const fn same_origin(methods: &'static str, path: &'static str, run: EndpointFn) -> Route {
    Route::new(path, methods, Handler::Endpoint(run))
}

const fn anyone(methods: &'static str, path: &'static str, run: PageFn) -> Route {
    Route::new(path, methods, Handler::Page(PageHandler::Anyone(run)))
}

const fn signed_in(methods: &'static str, path: &'static str, run: SignedInFn) -> Route {
    Route::new(path, methods, Handler::Page(PageHandler::SignedIn(run)))
}

const fn change(path: &'static str, run: ChangeFn) -> Route {
    Route::new(path, POST, Handler::Page(PageHandler::Change(run))).refuses(RefusalView::Settings)
}

fn at_once<E: Send + 'static>(response: AuthResponse) -> BoxFuture<'static, Result<AuthResponse, E>> {
    ready(Ok(response)).boxed()
}

/// Every route.
pub static ROUTES: &[Route] = &[
    program(GET, "/.well-known/jwks.json", |i, _| at_once(document(&i.keys.jwks()))),
    program(GET, "/.well-known/oauth-authorization-server", |i, c| at_once(document(&i.metadata(c.engine)))),
    program(GET, "/.well-known/openid-configuration", |i, c| at_once(document(&i.metadata(c.engine)))),
    program(POST, "/oauth2/register", |i, c| i.register(c).boxed()),
    // An app's server calls for all its people from one address. So a token counts once it is known to be genuine: for
    // its authorization when it is refreshed, for client and person when it is revoked. A key's exchange writes nothing.
    program(POST, "/oauth2/token", |i, c| i.token(c).boxed()).counting(Counts::Nothing),
    program(POST, "/oauth2/revoke", |i, c| i.revoke_token(c).boxed()).counting(Counts::Nothing),
    same_origin(POST, "/oauth2/introspect", |i, c| i.introspect(c).boxed()).counting(Counts::Nothing),
    same_origin(GET, "/assets/portico.css", |_, _| at_once(asset("text/css; charset=utf-8", STYLE))),
    same_origin(GET, "/assets/brand.css", |i, _| at_once(i.brand_files.style())),
    same_origin(GET, "/assets/logo", |i, c| at_once(i.brand_files.logo(c.http.headers()))),
    same_origin(GET, "/assets/passkeys.js", |_, _| at_once(asset("text/javascript; charset=utf-8", SCRIPT))),
    anyone(GET_ONLY, "/oauth2/auth", |p| p.authorize().boxed()).counting(Counts::OfSignedIn),
    anyone(GET, "/", |_| at_once(see_other("/settings"))),
    anyone(GET, "/signin", |p| p.show_signin().boxed()),
    anyone(POST, "/signin", |p| p.signin().boxed()),
    anyone(GET, "/signin/code", |p| p.show_code().boxed()),
    anyone(POST, "/signin/code", |p| p.signin_code().boxed()),
    anyone(POST, "/signin/passkey/begin", |p| ready(p.begin_passkey_signin()).boxed()).script(),
    anyone(POST, "/signin/passkey", |p| p.passkey_signin().boxed()).script(),
    anyone(GET, "/signup", |p| p.show_signup().boxed()),
    anyone(POST, "/signup", |p| p.signup().boxed()),
    anyone(GET, "/password", |p| p.show_password().boxed()),
    anyone(POST, "/password", |p| p.choose_password().boxed()),
    anyone(GET, "/password/forgotten", |p| ready(p.show_forgotten()).boxed()),
    anyone(POST, "/password/forgotten", |p| p.forgotten().boxed()),
    anyone(GET, "/email", |p| p.show_email().boxed()),
    anyone(POST, "/email", |p| p.confirm_email().boxed()),
    signed_in(GET, "/consent", |p, s| p.show_consent(s).boxed()),
    anyone(POST, "/consent", |p| p.consent().boxed()),
    anyone(GET, "/signout", |p| at_once(p.show_signout())),
    // Nobody is kept from it. A session ends once, and the sign-in that began it was counted.
    anyone(POST, "/signout", |p| p.signout().boxed()).counting(Counts::Nothing),
    signed_in(GET, "/settings", |p, s| p.show_settings(s, None).boxed()),
    change("/settings/name", |p, c, s| p.set_name(c, s).boxed()),
    change("/settings/email", |p, c, s| p.set_email(c, s).boxed()).asks_password(),
    change("/settings/password", |p, c, s| p.set_password(c, s).boxed()).asks_password(),
    signed_in(GET, "/settings/totp", |p, s| ready(p.show_totp(s, None)).boxed()),
    signed_in(POST, "/settings/totp", |p, s| p.add_totp(s).boxed())
        .asks_password()
        .refuses(RefusalView::TotpSetup),
    change("/settings/totp/remove", |p, c, s| p.remove_totp(c, s).boxed()).asks_password(),
    signed_in(POST, "/settings/passkeys/begin", |p, s| p.begin_passkey(s).boxed())
        .asks_password()
        .refuses(RefusalView::Json),
    signed_in(POST, "/settings/passkeys", |p, s| p.add_passkey(s).boxed()).script(),
    change("/settings/passkeys/remove", |p, c, s| p.remove_passkey(c, s).boxed()).asks_password(),
    change("/settings/sessions/end", |p, c, s| p.end_session(c, s).boxed()),
    change("/settings/sessions/end-others", |p, c, s| p.end_other_sessions(c, s).boxed()),
    change("/settings/apps/end", |p, c, s| p.end_app(c, s).boxed()),
];

fn join<'r>(routes: impl Iterator<Item = &'r Route>) -> Option<HeaderValue> {
    let methods: Vec<_> = routes.map(|route| route.methods).collect();
    HeaderValue::from_str(&methods.join(", ")).ok().filter(|_| !methods.is_empty())
}

/// The methods that the path serves, as `Allow` lists them; `None` for an unknown path.
pub(super) fn allowed_methods(path: &str) -> Option<HeaderValue> {
    join(ROUTES.iter().filter(|route| route.path == path))
}

/// Is the path one of OAuth's endpoints?
pub(super) fn is_oauth_endpoint(path: &str) -> bool {
    path.starts_with("/oauth2/") && ROUTES.iter().any(|route| route.path == path)
}

/// The methods of a path that web pages of any origin may call; `None` for every other path.
pub fn open_to_any_origin(path: &str) -> Option<HeaderValue> {
    join(ROUTES.iter().filter(|route| route.any_origin && route.path == path))
}
