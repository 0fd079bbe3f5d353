//! The authorization request: read, checked, and carried through sign-in and consent.

use portico_engine::Engine;
use portico_kernel::{Code, Problem, ScopeSet, SessionId};
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::{OAuthError, redirect, target};
use crate::http::sealed_state::StateSeal;
use crate::http::{Params, RequestContext};
use crate::{Identity, limits};

/// A valid authorization request.
pub(crate) struct AuthorizationRequest {
    pub(crate) client: Client,
    pub(crate) params: AuthorizationParams,
}

/// What the client asks for. The consent page's form carries it, sealed for one session.
#[derive(Serialize, Deserialize)]
pub(crate) struct AuthorizationParams {
    pub(crate) redirect_uri: String,
    pub(crate) state: Option<String>,
    pub(crate) audience: String,
    /// `None` for the console, whose person is bound by role.
    pub(crate) scopes: Option<ScopeSet>,
    pub(crate) challenge: String,
}

/// Why an authorization request is refused.
pub(crate) enum AuthorizationError {
    /// The app is told, at this address.
    App { client: Box<Client>, address: String, error: OAuthError },
    /// The person is told: the app, or its address, is not known for sure.
    Problem(Problem),
}

impl From<Problem> for AuthorizationError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

fn consent_of(session: &str) -> StateSeal<'_> {
    StateSeal { bound_to: session, purpose: "consent" }
}

impl AuthorizationRequest {
    /// Where to send the person with what the app is told; `iss` says who tells it (RFC 9207).
    pub(crate) fn answer(&self, issuer: &str, pairs: &[(&str, &str)]) -> String {
        answer(&self.params.redirect_uri, self.params.state.as_deref(), issuer, pairs)
    }

    pub(crate) fn refuse(&self, issuer: &str, error: &OAuthError) -> String {
        refusal(&self.params.redirect_uri, self.params.state.as_deref(), issuer, error)
    }
}

fn answer(redirect_uri: &str, state: Option<&str>, issuer: &str, pairs: &[(&str, &str)]) -> String {
    let state = state.map(|state| ("state", state));
    let pairs: Vec<_> = pairs.iter().copied().chain(state).chain([("iss", issuer)]).collect();
    redirect::with_query(redirect_uri, &pairs)
}

/// Where to send the person with a refusal.
fn refusal(redirect_uri: &str, state: Option<&str>, issuer: &str, error: &OAuthError) -> String {
    let pairs = [("error", error.error), ("error_description", error.description.as_str())];
    answer(redirect_uri, state, issuer, &pairs)
}

impl Identity {
    /// Reads an authorization request. Nobody is sent anywhere before the client and its address are known.
    pub(crate) async fn read_authorization(
        &self,
        context: &RequestContext<'_>,
        params: &Params,
    ) -> Result<AuthorizationRequest, AuthorizationError> {
        let refused = |message: String| Problem::new(Code::BadRequest, message);
        for name in ["client_id", "redirect_uri", "state"] {
            if params.all(name).len() > 1 {
                return Err(refused(format!("The request names `{name}` more than once.")).into());
            }
        }
        let id = params.get("client_id");
        let id = id.ok_or_else(|| refused("The request does not say which app it is from.".to_owned()))?;
        let client = self.client(context, id).await?;
        let redirect_uri = params.get("redirect_uri").filter(|address| client.allows_redirect(address));
        let message = "The address that the app wants you sent back to is not one that it registered.";
        let redirect_uri = redirect_uri.ok_or_else(|| refused(message.to_owned()))?.to_owned();
        let state = params.get("state").map(str::to_owned);
        match self.check_authorization(context.engine, &client, params) {
            Ok((audience, scopes, challenge)) => {
                let params = AuthorizationParams { redirect_uri, state, audience, scopes, challenge };
                Ok(AuthorizationRequest { client, params })
            }
            Err(error) => {
                let address = refusal(&redirect_uri, state.as_deref(), &self.issuer, &error);
                Err(AuthorizationError::App { client: Box::new(client), address, error })
            }
        }
    }

    fn check_authorization(
        &self,
        engine: &Engine,
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
        let audience = self.audience(engine, client, params)?;
        let scopes = target::scopes(engine, client, params, &audience)?;
        Ok((audience, scopes, challenge.to_owned()))
    }

    /// Seals a request for the consent page of this session.
    pub(crate) fn seal_request(
        context: &RequestContext<'_>,
        session: SessionId,
        request: &AuthorizationRequest,
    ) -> Result<String, Problem> {
        let state = (&request.client.id, &request.params);
        consent_of(&session.to_string()).seal(context, limits::CONSENT_LIFE, state)
    }

    /// Opens a request that was sealed for this session; `None` when it has expired, or is another session's.
    pub(crate) async fn open_request(
        &self,
        context: &RequestContext<'_>,
        session: SessionId,
        sealed: &str,
    ) -> Result<Option<AuthorizationRequest>, Problem> {
        let opened: Option<(String, AuthorizationParams)> =
            consent_of(&session.to_string()).open(context, sealed);
        let Some((client_id, params)) = opened else { return Ok(None) };
        let client = self.known_client(context.engine, &client_id).await?;
        let client = client.filter(|client| client.allows_redirect(&params.redirect_uri));
        Ok(client.map(|client| AuthorizationRequest { client, params }))
    }
}
