//! An app asks to be let in.

use portico_engine::input::parse_form;
use portico_kernel::{Code, Problem, Role};
use url::form_urlencoded;

use super::Visit;
use super::signin::to_signin;
use crate::http::Asked;
use crate::http::reply::{self, Reply};
use crate::oauth::authorize::{AuthorizationRequest, AuthorizeFault, refusal};
use crate::oauth::client::Origin;
use crate::oauth::{OAuthError, redirect};
use crate::people::Choice;
use crate::{Identity, sql};

/// The request as it came, without asking for a sign-in again: once is enough.
fn without_login(asked: &Asked<'_>) -> String {
    let pairs = parse_form(asked.request.uri().query().unwrap_or_default()).unwrap_or_default();
    let kept = pairs.into_iter().map(|(name, value)| match name.as_str() {
        "prompt" => {
            (name, value.split(' ').filter(|prompt| *prompt != "login").collect::<Vec<_>>().join(" "))
        }
        _ => (name, value),
    });
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).finish();
    format!("/oauth2/auth?{query}")
}

impl Visit<'_> {
    /// `GET /oauth2/auth`: to the app with a code, or first to sign in, or first to consent.
    pub(super) async fn authorize(&self) -> Result<Reply, Problem> {
        let (identity, params) = (self.identity, self.query()?);
        let prompts = |what: &str| params.text("prompt").split(' ').any(|prompt| prompt == what);
        let silent = prompts("none");
        // Nobody is fetched from or sent anywhere on the word of an app that nobody knows, before a person is here.
        let stranger =
            self.session.is_none() && !identity.is_vouched_for(self.asked, params.text("client_id")).await?;
        if stranger {
            let nobody = || Problem::new(Code::BadRequest, "Nobody is signed in.");
            return if silent { Err(nobody()) } else { Ok(self.to_signin()) };
        }
        let request = match identity.read_authorization(self.asked, &params).await {
            Ok(request) => request,
            Err(AuthorizeFault::Person(words)) => return Err(Problem::new(Code::BadRequest, words)),
            Err(AuthorizeFault::Problem(problem)) => return Err(problem),
            Err(AuthorizeFault::App { redirect_uri, state, error }) => {
                return Ok(reply::see_other(&refusal(
                    &redirect_uri,
                    state.as_deref(),
                    &identity.issuer,
                    &error,
                )));
            }
        };
        let refuse = |error: &'static str, words: &str| {
            reply::see_other(&request.refuse(&identity.issuer, &OAuthError::new(error, words)))
        };
        let Some(session) = &self.session else {
            return Ok(if silent {
                refuse("login_required", "Nobody is signed in.")
            } else {
                self.to_signin()
            });
        };
        if prompts("login") {
            let back = [("again", "1"), ("return_to", &*without_login(self.asked))];
            return Ok(reply::see_other(&redirect::with_query("/signin", &back)));
        }
        if let Some(choice) = self.settled(&request).await?.filter(|_| !prompts("consent")) {
            return self.let_in(&request, &choice).await;
        }
        if silent {
            return Ok(refuse("consent_required", "The person has not let this app in yet."));
        }
        let sealed = Identity::seal_request(self.asked, session.id, &request)?;
        Ok(reply::see_other(&redirect::with_query("/consent", &[("request", &sealed)])))
    }

    /// The account for an app that need not ask: the console, or one that the operator knows and the person let in
    /// before. An app that nobody vouches for, or that lives on the person's own machine without a secret, asks every
    /// time, since anyone could come in its name (RFC 8252, section 8.6).
    async fn settled(&self, request: &AuthorizationRequest) -> Result<Option<Choice>, Problem> {
        let Some(session) = &self.session else { return Ok(None) };
        let person = &session.person;
        let mut tx = self.asked.engine.db.read().await?;
        let memberships = self.identity.enrolment.memberships(&mut tx, person.id).await?;
        let before = sql::oauth::authorizations_of(&mut tx, person.id, self.asked.now).await?;
        tx.rollback().await?;
        let choice = |account| {
            let found = memberships.iter().find(|membership| membership.account == account);
            found.map(|membership| Choice { account, role: membership.role })
        };
        match request.client.origin {
            // An account that is to be erased can still be looked at.
            Origin::Console => Ok(Some(
                choice(person.account_id).unwrap_or(Choice { account: person.account_id, role: Role::Owner }),
            )),
            Origin::Registered | Origin::Document => Ok(None),
            Origin::Operator
                if !request.client.is_confidential() && !request.redirect_uri.starts_with("https:") =>
            {
                Ok(None)
            }
            Origin::Operator => {
                let held = |row: &sql::oauth::AuthorizationRow| {
                    let scopes = row.scopes.as_deref().and_then(|scopes| scopes.parse().ok());
                    row.client_id == request.client.id
                        && row.audience == request.audience
                        && request.scopes.zip(scopes).is_some_and(|(asked, held)| asked.is_within(held))
                };
                Ok(before.iter().find(|row| held(row)).and_then(|row| choice(row.account_id)))
            }
        }
    }

    /// Sends the person back to the app with a code.
    pub(super) async fn let_in(
        &self,
        request: &AuthorizationRequest,
        choice: &Choice,
    ) -> Result<Reply, Problem> {
        let Some(session) = &self.session else { return Ok(to_signin("/settings")) };
        let mut ctx = session.ctx(self.asked);
        let code = self.identity.authorize(&mut ctx, &session.person, session.id, request, choice).await?;
        ctx.finish().await?;
        Ok(reply::see_other(&request.answer(&self.identity.issuer, &[("code", &code)])))
    }
}
