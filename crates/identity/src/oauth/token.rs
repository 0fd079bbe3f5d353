//! The token endpoint.

use http::StatusCode;
use portico_engine::Engine;
use portico_kernel::{CallerKind, Problem, Timestamp, hex};
use serde::Serialize;

use super::client::Authenticated;
use super::{Fault, OAuthError};
use crate::claims::{Claims, Issue};
use crate::http::Asked;
use crate::http::reply::{self, Reply};
use crate::sql::oauth::AuthorizationRow;
use crate::sql::people::PersonRow;
use crate::{Identity, limits};

/// The answer (RFC 6749, section 5.1).
#[derive(Serialize)]
pub(crate) struct Issued {
    pub(crate) access_token: String,
    pub(crate) token_type: &'static str,
    pub(crate) expires_in: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    pub(crate) scope: String,
}

impl Identity {
    /// `POST /oauth2/token`.
    pub(crate) async fn token(&self, asked: &Asked<'_>) -> Result<Reply, Fault> {
        let form = asked.form()?;
        form.check_single()?;
        let grant =
            form.get("grant_type").ok_or_else(|| OAuthError::invalid_request("grant_type is missing."))?;
        if !["client_credentials", "authorization_code", "refresh_token"].contains(&grant) {
            let words = "The grant type must be client_credentials, authorization_code or refresh_token.";
            return Err(OAuthError::new("unsupported_grant_type", words).into());
        }
        let issued = match (grant, self.authenticate(asked, &form).await?) {
            ("client_credentials", Authenticated::Key(key)) => {
                self.exchange_key(asked.engine, &key, &form)?
            }
            ("authorization_code", Authenticated::App(client)) => {
                Box::pin(self.exchange_code(asked, &client, &form)).await?
            }
            ("refresh_token", Authenticated::App(client)) => {
                Box::pin(self.refresh(asked, &client, &form)).await?
            }
            _ => {
                let words =
                    "A key is exchanged with client_credentials, an app with a code or a refresh token.";
                return Err(OAuthError::new("unauthorized_client", words).into());
            }
        };
        Ok(reply::no_store(reply::json(StatusCode::OK, &issued)))
    }

    /// A token for what the person let the app do.
    pub(crate) fn issue_for(
        &self,
        engine: &Engine,
        row: &AuthorizationRow,
        person: &PersonRow,
        now: Timestamp,
    ) -> Result<Issued, Problem> {
        let issue = Issue {
            audience: row.audience.clone(),
            subject: person.id.to_string(),
            kind: CallerKind::Person,
            at: now,
            life: limits::ACCESS_TOKEN_LIFE,
            id: format!("{}.{}", row.id, hex(&engine.entropy.bytes::<16>())),
        };
        let claims = Claims {
            client_id: Some(row.client_id.clone()),
            scope: row.scopes.clone(),
            org: Some(row.account_id),
            email: Some(person.email.clone()),
            role: row.role,
            ..Claims::new(&self.issuer, issue).named(&person.name)
        };
        Ok(Issued {
            expires_in: claims.expires_in(now),
            access_token: self.keys.sign(&claims, now)?.token,
            token_type: "bearer",
            refresh_token: None,
            scope: row.scopes.clone().unwrap_or_default(),
        })
    }
}
