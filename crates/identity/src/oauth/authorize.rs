//! The authorization request: read, checked, and carried through sign-in and consent.

use portico_kernel::{Problem, ScopeSet, SessionId};
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::document::Unknown;
use super::{OAuthError, redirect, target};
use crate::http::carried::For;
use crate::http::{Asked, Params};
use crate::{Identity, limits};

/// A request that was found in order.
pub(crate) struct AuthorizationRequest {
    pub(crate) client: Client,
    pub(crate) redirect_uri: String,
    pub(crate) state: Option<String>,
    pub(crate) audience: String,
    /// None for the console, whose person is bound by role.
    pub(crate) scopes: Option<ScopeSet>,
    pub(crate) challenge: String,
}

/// What is wrong with a request, and who is told.
pub(crate) enum AuthorizeFault {
    /// The person: where the app is, is not known for sure.
    Person(String),
    /// The app, at its own address.
    App { redirect_uri: String, state: Option<String>, error: OAuthError },
    /// A fault of ours.
    Problem(Problem),
}

impl From<Unknown> for AuthorizeFault {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Words(words) => Self::Person(words),
            Unknown::Problem(problem) => Self::Problem(problem),
        }
    }
}

/// What the consent page carries from its display to its answer, sealed for one session.
#[derive(Serialize, Deserialize)]
struct MeteredCall {
    client_id: String,
    redirect_uri: String,
    state: Option<String>,
    audience: String,
    scopes: Option<String>,
    challenge: String,
}

fn consent_of(session: &str) -> For<'_> {
    For { whom: session, purpose: "consent" }
}

impl AuthorizationRequest {
    /// Where to send the person with what the app is told; `iss` says who tells it (RFC 9207).
    pub(crate) fn answer(&self, issuer: &str, pairs: &[(&str, &str)]) -> String {
        answer(&self.redirect_uri, self.state.as_deref(), issuer, pairs)
    }

    pub(crate) fn refuse(&self, issuer: &str, error: &OAuthError) -> String {
        refusal(&self.redirect_uri, self.state.as_deref(), issuer, error)
    }
}

fn answer(redirect_uri: &str, state: Option<&str>, issuer: &str, pairs: &[(&str, &str)]) -> String {
    let state = state.map(|state| ("state", state));
    let pairs: Vec<_> = pairs.iter().copied().chain(state).chain([("iss", issuer)]).collect();
    redirect::with_query(redirect_uri, &pairs)
}

/// Where to send the person with a refusal.
pub(crate) fn refusal(redirect_uri: &str, state: Option<&str>, issuer: &str, error: &OAuthError) -> String {
    let pairs = [("error", error.error), ("error_description", error.description.as_str())];
    answer(redirect_uri, state, issuer, &pairs)
}

impl Identity {
    /// Reads an authorization request. Nobody is sent anywhere before the client and its address are known.
    pub(crate) async fn read_authorization(
        &self,
        asked: &Asked<'_>,
        params: &Params,
    ) -> Result<AuthorizationRequest, AuthorizeFault> {
        let person = |words: &str| AuthorizeFault::Person(words.to_owned());
        for name in ["client_id", "redirect_uri", "state"] {
            if params.all(name).len() > 1 {
                return Err(AuthorizeFault::Person(format!("The request names `{name}` more than once.")));
            }
        }
        let id = params
            .get("client_id")
            .ok_or_else(|| person("The request does not say which app it is from."))?;
        let client = self.client(asked, id).await?;
        let redirect_uri = params.get("redirect_uri").filter(|address| client.allows_redirect(address));
        let redirect_uri = redirect_uri
            .ok_or_else(|| {
                person("The address that the app wants you sent back to is not one that it registered.")
            })?
            .to_owned();
        let state = params.get("state").map(str::to_owned);
        let checked = self.check_authorization(&client, params);
        match checked {
            Ok((audience, scopes, challenge)) => {
                Ok(AuthorizationRequest { client, redirect_uri, state, audience, scopes, challenge })
            }
            Err(error) => Err(AuthorizeFault::App { redirect_uri, state, error }),
        }
    }

    fn check_authorization(
        &self,
        client: &Client,
        params: &Params,
    ) -> Result<(String, Option<ScopeSet>, String), OAuthError> {
        params.check_single()?;
        if params.text("response_type") != "code" {
            return Err(OAuthError::new("unsupported_response_type", "The response type must be code."));
        }
        if params.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(OAuthError::invalid_request("The response mode must be query."));
        }
        if params.text("state").len() > limits::STATE_BYTES_MAX {
            return Err(OAuthError::invalid_request("The state is too long."));
        }
        if params.get("request").is_some() || params.get("request_uri").is_some() {
            return Err(OAuthError::new("request_not_supported", "Request objects are not supported."));
        }
        let challenge = params.text("code_challenge");
        let is_hash = challenge.len() == 43
            && challenge.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if params.text("code_challenge_method") != "S256" || !is_hash {
            return Err(OAuthError::invalid_request("PKCE is needed: code_challenge with the method S256."));
        }
        let audience = self.audience(client, params)?;
        let scopes = target::scopes(client, params)?;
        Ok((audience, scopes, challenge.to_owned()))
    }

    /// Seals a request for the consent page of this session.
    pub(crate) fn seal_request(
        asked: &Asked<'_>,
        session: SessionId,
        request: &AuthorizationRequest,
    ) -> Result<String, Problem> {
        let ticket = MeteredCall {
            client_id: request.client.id.clone(),
            redirect_uri: request.redirect_uri.clone(),
            state: request.state.clone(),
            audience: request.audience.clone(),
            scopes: request.scopes.map(|scopes| scopes.to_string()),
            challenge: request.challenge.clone(),
        };
        consent_of(&session.to_string()).seal(asked, limits::CONSENT_LIFE, ticket)
    }

    /// Opens a request that was sealed for this session. Nothing when it is over, or another session's.
    pub(crate) async fn open_request(
        &self,
        asked: &Asked<'_>,
        session: SessionId,
        sealed: &str,
    ) -> Result<Option<AuthorizationRequest>, Problem> {
        let ticket: Option<MeteredCall> = consent_of(&session.to_string()).open(asked, sealed);
        let Some(ticket) = ticket else { return Ok(None) };
        let client = self.known_client(asked.engine, &ticket.client_id).await?;
        let client = client.filter(|client| client.allows_redirect(&ticket.redirect_uri));
        let scopes = ticket.scopes.map(|scopes| scopes.parse()).transpose();
        Ok(client.zip(scopes.ok()).map(|(client, scopes)| AuthorizationRequest {
            client,
            redirect_uri: ticket.redirect_uri,
            state: ticket.state,
            audience: ticket.audience,
            scopes,
            challenge: ticket.challenge,
        }))
    }
}
