//! Dynamic registration (RFC 7591): for assistants, open to all, and worth little without a person's consent.

use http::StatusCode;
use portico_kernel::{AppId, Problem, ScopeSet, is_printable};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::Origin;
use super::target::assistant_scopes;
use super::{EndpointError, OAuthError, redirect};
use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::people::attempts::{self, REGISTRATIONS, REGISTRATIONS_FROM_NETWORK};
use crate::sql::oauth::ClientRow;
use crate::{Identity, limits, secret, sql};

const BASIC: &str = "client_secret_basic";

/// What a client says about itself; whatever else it says is ignored, as the RFC demands.
#[derive(Debug, Deserialize)]
pub(crate) struct ClientMetadata {
    #[serde(default)]
    pub(crate) client_id: Option<String>,
    #[serde(default)]
    pub(crate) client_name: Option<String>,
    #[serde(default)]
    pub(crate) redirect_uris: Vec<String>,
    #[serde(default)]
    pub(crate) scope: Option<String>,
    #[serde(default)]
    grant_types: Option<Vec<String>>,
    #[serde(default)]
    response_types: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

fn invalid(description: impl Into<String>) -> OAuthError {
    OAuthError::new("invalid_client_metadata", description)
}

impl ClientMetadata {
    /// Does it want to authenticate with a secret?
    pub(crate) fn asks_secret(&self) -> bool {
        self.token_endpoint_auth_method.as_deref().is_some_and(|method| method != "none")
    }

    pub(crate) fn check_redirects(&self) -> Result<(), OAuthError> {
        let count = self.redirect_uris.len();
        if count == 0 || count > limits::REDIRECT_URIS_MAX {
            let message = format!("redirect_uris must have 1 to {} addresses.", limits::REDIRECT_URIS_MAX);
            return Err(OAuthError::new("invalid_redirect_uri", message));
        }
        match self.redirect_uris.iter().find_map(|address| redirect::check(address).err()) {
            Some(why) => Err(OAuthError::new("invalid_redirect_uri", format!("A redirect address {why}."))),
            None => Ok(()),
        }
    }

    /// A name to show: one line of visible text, cut to its length, never trusted.
    pub(crate) fn shown_name(&self) -> Result<String, OAuthError> {
        let name = self.client_name.as_deref().unwrap_or_default().trim();
        if !is_printable(name) {
            return Err(invalid(
                "client_name must not hold control characters or characters that are invisible.",
            ));
        }
        let name: String = name.chars().take(limits::NAME_CHARACTERS_MAX).collect();
        Ok(if name.is_empty() { "An app without a name".to_owned() } else { name })
    }

    /// The scopes that it may ask for: those it names, as far as assistants have them.
    pub(crate) fn granted_scopes(&self) -> ScopeSet {
        let named = ScopeSet::from(self.scope.as_deref().unwrap_or_default());
        let granted = named.intersection(&assistant_scopes());
        if granted.is_empty() { assistant_scopes() } else { granted }
    }

    /// Only the code grant with a refresh token is there for it.
    fn check_grants(&self) -> Result<(), OAuthError> {
        let only = |given: &Option<Vec<String>>, known: &[&str]| {
            given.as_ref().is_none_or(|given| given.iter().any(|name| known.contains(&name.as_str())))
        };
        if !only(&self.grant_types, &["authorization_code"]) || !only(&self.response_types, &["code"]) {
            return Err(invalid("An app that registers itself uses the authorization code grant."));
        }
        Ok(())
    }
}

impl Identity {
    /// `POST /oauth2/register`.
    pub(crate) async fn register(&self, context: &RequestContext<'_>) -> Result<AuthResponse, EndpointError> {
        let metadata = read(context)?;
        metadata.check_redirects()?;
        metadata.check_grants()?;
        let name = metadata.shown_name()?;
        let network = context.network_bucket().map(|network| (REGISTRATIONS_FROM_NETWORK, network));
        let limits: Vec<_> = [(REGISTRATIONS, context.address_bucket())].into_iter().chain(network).collect();
        OAuthError::check_rate(attempts::take(context.engine, context.now, &limits).await?)?;
        let id: AppId = context.engine.entropy.id(context.now);
        let asks_secret = metadata.asks_secret();
        let secret = asks_secret.then(|| secret::generate(context.engine.entropy.as_ref()));
        let scopes = metadata.granted_scopes();
        let row = ClientRow {
            id: id.to_string(),
            origin: Origin::Registered,
            name: name.clone(),
            secret_hash: secret.as_ref().map(|secret| secret::hash(secret.expose())),
            redirect_uris: serde_json::to_string(&metadata.redirect_uris).map_err(Problem::internal)?,
            scopes: scopes.to_string(),
            created_at: context.now,
            expires_at: None,
            revoked_at: None,
        };
        let mut tx = context.engine.db.write().await?;
        sql::oauth::upsert_client(&mut tx, &row).await?;
        tx.commit().await?;
        let native = metadata
            .redirect_uris
            .iter()
            .all(|address| redirect::is_loopback(address) || !address.starts_with("http"));
        let mut body = json!({
            "client_id": id,
            "client_id_issued_at": context.now.as_seconds(),
            "client_name": name,
            "redirect_uris": metadata.redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": if asks_secret { BASIC } else { "none" },
            "application_type": if native { "native" } else { "web" },
            "scope": scopes.to_string(),
        });
        if let Some(secret) = secret {
            body["client_secret"] = Value::from(secret.expose().as_str());
            body["client_secret_expires_at"] = json!(0);
        }
        Ok(response::private_json(StatusCode::CREATED, &body))
    }
}

fn read(context: &RequestContext<'_>) -> Result<ClientMetadata, OAuthError> {
    if !context.has_content_type("application/json") {
        return Err(invalid("The content type must be application/json."));
    }
    let body = context.http.body();
    if body.len() > limits::REGISTRATION_BYTES_MAX {
        return Err(invalid(format!(
            "The registration must have at most {} bytes.",
            limits::REGISTRATION_BYTES_MAX
        )));
    }
    serde_json::from_slice(body).map_err(|error| invalid(format!("The registration does not read: {error}.")))
}
