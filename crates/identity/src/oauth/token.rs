//! The token endpoint.

use http::StatusCode;
use portico_engine::Engine;
use portico_kernel::{CallerKind, Problem, ScopeSet, Timestamp, hex};
use serde::Serialize;

use super::client::AuthenticatedClient;
use super::{EndpointError, OAuthError};
use crate::claims::{Claims, Issue};
use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::sql::oauth::AuthorizationRow;
use crate::sql::people::PersonRow;
use crate::{Identity, limits};

/// The answer (RFC 6749, section 5.1).
#[derive(Serialize)]
pub(crate) struct TokenResponse {
    pub(crate) access_token: String,
    pub(crate) token_type: &'static str,
    pub(crate) expires_in: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    pub(crate) scope: String,
}

impl Identity {
    /// `POST /oauth2/token`.
    pub(crate) async fn token(&self, context: &RequestContext<'_>) -> Result<AuthResponse, EndpointError> {
        let form = context.form()?;
        form.check_single()?;
        let grant = form.required("grant_type")?;
        if !["client_credentials", "authorization_code", "refresh_token"].contains(&grant) {
            let message = "The grant type must be client_credentials, authorization_code or refresh_token.";
            return Err(OAuthError::new("unsupported_grant_type", message).into());
        }
        let response = match (grant, self.authenticate(context, &form).await?) {
            ("client_credentials", AuthenticatedClient::Key(key)) => {
                self.exchange_key(context.engine, &key, &form)?
            }
            ("client_credentials", AuthenticatedClient::Service(key)) => {
                self.exchange_service_key(context.engine, &key, &form)?
            }
            ("authorization_code", AuthenticatedClient::App(client)) => {
                Box::pin(self.exchange_code(context, &client, &form)).await?
            }
            ("refresh_token", AuthenticatedClient::App(client)) => {
                Box::pin(self.refresh(context, &client, &form)).await?
            }
            _ => {
                let message = "A key or a service is exchanged with client_credentials, an app with a code or a refresh token.";
                return Err(OAuthError::new("unauthorized_client", message).into());
            }
        };
        Ok(response::private_json(StatusCode::OK, &response))
    }

    /// A token for what the person let the app do.
    pub(crate) fn issue_for(
        &self,
        engine: &Engine,
        row: &AuthorizationRow,
        person: &PersonRow,
        now: Timestamp,
    ) -> Result<TokenResponse, Problem> {
        let issue = Issue {
            audience: row.audience.clone(),
            subject: person.id.to_string(),
            kind: CallerKind::Person,
            at: now,
            life: limits::ACCESS_TOKEN_LIFE,
            id: format!("{}.{}", row.id, hex(&engine.entropy.bytes::<16>())),
        };
        let known =
            |scopes: &str| engine.registry.catalog().scopes().known(&ScopeSet::from(scopes)).to_string();
        let claims = Claims {
            client_id: Some(row.client_id.clone()),
            scope: row.scopes.as_deref().map(known),
            org: Some(row.account_id),
            email: Some(person.email.clone()),
            email_verified: Some(person.email_verified),
            role: row.role,
            ..Claims::new(&self.issuer, issue).named(&person.name)
        };
        self.token_response(&claims, now)
    }

    pub(crate) fn token_response(&self, claims: &Claims, now: Timestamp) -> Result<TokenResponse, Problem> {
        Ok(TokenResponse {
            expires_in: claims.expires_in(now),
            access_token: self.keys.sign(claims, now)?.token,
            token_type: "bearer",
            refresh_token: None,
            scope: claims.scope.clone().unwrap_or_default(),
        })
    }
}
