//! An app asks to be let in.

use maud::html;
use portico_engine::input::parse_form;
use portico_kernel::{AccountId, Code, Problem, ScopeSet};
use url::form_urlencoded;

use super::PageRequest;
use super::consent::UNCHECKED;
use super::frame::Width;
use super::signin::to_signin;
use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::oauth::authorize::{AuthorizationError, AuthorizationRequest};
use crate::oauth::client::{Client, Origin};
use crate::oauth::{OAuthError, code, redirect};
use crate::{Identity, sql};

/// The address of this request without `prompt=login`: one sign-in is enough.
fn without_login(context: &RequestContext<'_>) -> String {
    let pairs = parse_form(context.http.uri().query().unwrap_or_default()).unwrap_or_default();
    let kept = pairs.into_iter().map(|(name, value)| match name.as_str() {
        "prompt" => {
            (name, value.split(' ').filter(|prompt| *prompt != "login").collect::<Vec<_>>().join(" "))
        }
        _ => (name, value),
    });
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).finish();
    format!("/oauth2/auth?{query}")
}

impl Identity {
    /// Tells the app what is wrong, at that address. The person is sent there at once only if someone here has checked the
    /// app; otherwise they see where it leads first, and click (RFC 9700, section 4.11).
    fn tell(&self, client: &Client, address: &str, error: &OAuthError) -> AuthResponse {
        if client.origin.is_verified() {
            return response::see_other(address);
        }
        let body = html! {
            p.warning { strong { (UNCHECKED) } "Go on only if you started this yourself, a moment ago." }
            p { a id="to-app" href=(address) { "Tell the app, at " (redirect::shown_host(address)) } }
            p.quiet { a href="/settings" { "To your settings" } }
        };
        let refusal = Problem::new(Code::BadRequest, error.description.clone());
        self.page(&format!("{} cannot be let in", client.name), Width::Narrow, Some(&refusal), "", &body)
    }
}

impl PageRequest<'_> {
    /// `GET /oauth2/auth`: to the app with a code, or first to sign in, or first to consent.
    pub(crate) async fn authorize(&self) -> Result<AuthResponse, Problem> {
        let (identity, params) = (self.identity, self.query()?);
        let prompts = |what: &str| params.text("prompt").split(' ').any(|prompt| prompt == what);
        let silent = prompts("none");
        // Nobody is fetched from or sent anywhere on the word of an app that nobody knows, before a person is here.
        let stranger = self.session.is_none()
            && !identity.is_trusted_client(self.context, params.text("client_id")).await?;
        if stranger {
            let nobody = || Problem::new(Code::BadRequest, "Nobody is signed in.");
            return if silent { Err(nobody()) } else { Ok(self.to_signin()) };
        }
        let request = match identity.read_authorization(self.context, &params).await {
            Ok(request) => request,
            Err(AuthorizationError::Problem(problem)) => return Err(problem),
            Err(AuthorizationError::App { client, address, error }) => {
                return Ok(identity.tell(&client, &address, &error));
            }
        };
        let refuse = |error: &'static str, message: &str| {
            let error = OAuthError::new(error, message);
            identity.tell(&request.client, &request.refuse(&identity.issuer, &error), &error)
        };
        let Some(session) = &self.session else {
            return Ok(if silent {
                refuse("login_required", "Nobody is signed in.")
            } else {
                self.to_signin()
            });
        };
        if prompts("login") {
            let back = [("again", "1"), ("return_to", &*without_login(self.context))];
            return Ok(response::see_other(&redirect::with_query("/signin", &back)));
        }
        if let Some(account) = self.settled(&request).await?.filter(|_| !prompts("consent")) {
            return self.let_in(&request, account);
        }
        if silent {
            return Ok(refuse("consent_required", "The person has not let this app in yet."));
        }
        let sealed = Identity::seal_request(self.context, session.id, &request)?;
        Ok(response::see_other(&redirect::with_query("/consent", &[("request", &sealed)])))
    }

    /// The account for an app that need not ask: the console, or one that the operator knows and the person let in
    /// before. An app that the operator does not know, or that lives on the person's own machine without a secret, asks
    /// every time, since anyone could come in its name (RFC 8252, section 8.6).
    async fn settled(&self, request: &AuthorizationRequest) -> Result<Option<AccountId>, Problem> {
        let Some(session) = &self.session else { return Ok(None) };
        let (person, client, params) = (&session.person, &request.client, &request.params);
        match client.origin {
            // An account that is to be erased can still be looked at.
            Origin::Console => return Ok(Some(person.account_id)),
            Origin::Registered | Origin::Document => return Ok(None),
            Origin::Operator if !client.is_confidential() && !params.redirect_uri.starts_with("https:") => {
                return Ok(None);
            }
            Origin::Operator => {}
        }
        let mut tx = self.context.engine.db.read().await?;
        let memberships = self.identity.enrolment.memberships(&mut tx, person.id).await?;
        let before = sql::oauth::authorizations_of(&mut tx, person.id, self.context.now).await?;
        tx.rollback();
        let held = |row: &&sql::oauth::AuthorizationRow| {
            let scopes = row.scopes.as_deref().map(ScopeSet::from);
            row.client_id == client.id
                && row.audience == params.audience
                && params.scopes.as_ref().zip(scopes).is_some_and(|(asked, held)| asked.is_within(&held))
        };
        let account = before.iter().find(held).map(|row| row.account_id);
        Ok(account.filter(|account| memberships.iter().any(|membership| membership.account == *account)))
    }

    /// Redirects the person back to the app with a code.
    pub(super) fn let_in(
        &self,
        request: &AuthorizationRequest,
        account: AccountId,
    ) -> Result<AuthResponse, Problem> {
        let Some(session) = &self.session else { return Ok(to_signin("/settings")) };
        let code = code::make(self.context, session, request, account)?;
        Ok(response::see_other(&request.answer(&self.identity.issuer, &[("code", &code)])))
    }
}
