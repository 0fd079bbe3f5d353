//! Token introspection (RFC 7662).

use http::StatusCode;
use portico_kernel::{ScopeSet, Timestamp};
use serde_json::{Value, json};

use super::client::AuthenticatedClient;
use super::refresh::RefreshToken;
use super::{EndpointError, OAuthError};
use crate::claims::Claims;
use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::{Identity, sql};

impl Identity {
    /// `POST /oauth2/introspect`: for keys and apps that keep a secret. A key learns about the keys and API tokens of
    /// its own account, an app about its own, a service about those of every account that hold a scope of it; every other token is not active, as far as they are told.
    pub(crate) async fn introspect(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<AuthResponse, EndpointError> {
        let form = context.form()?;
        let client = self.authenticate(context, &form).await?;
        if !client.is_confidential() {
            return Err(OAuthError::invalid_client().into());
        }
        let token = form.required("token")?;
        let body = match RefreshToken::parse(token) {
            Some(token) => self.introspect_refresh_token(context, &client, &token).await?,
            None => self.introspect_access_token(context, &client, token).await?,
        };
        let body = body.unwrap_or_else(|| json!({ "active": false }));
        Ok(response::private_json(StatusCode::OK, &body))
    }

    async fn introspect_access_token(
        &self,
        context: &RequestContext<'_>,
        client: &AuthenticatedClient,
        token: &str,
    ) -> Result<Option<Value>, EndpointError> {
        let decoded = self.decode(context.engine, token, context.now);
        let Some((claims, _)) = decoded.filter(|(claims, _)| self.concerns(client, claims)) else {
            return Ok(None);
        };
        let mut tx = context.engine.db.read().await?;
        let revoked =
            sql::any_revoked(&mut tx, &claims.revocable(), Timestamp::from_seconds(claims.iat)).await?;
        let is_listed = match &claims.key {
            Some(key) => sql::active_credential(&mut tx, key).await?.is_some(),
            None => true,
        };
        tx.rollback();
        if revoked || !is_listed {
            return Ok(None);
        }
        let mut body = serde_json::to_value(&claims).map_err(portico_kernel::Problem::internal)?;
        body["active"] = json!(true);
        body["token_type"] = json!("bearer");
        Ok(Some(body))
    }

    /// May this client know about the token?
    fn concerns(&self, client: &AuthenticatedClient, claims: &Claims) -> bool {
        match client {
            // Of its account's keys and API tokens; what people hold is theirs.
            AuthenticatedClient::Key(key) => claims.org == Some(key.account_id) && claims.key.is_some(),
            AuthenticatedClient::App(app) => claims.client_id.as_deref() == Some(&app.id),
            // What a person may do in the console is bound by their role, and no service's business.
            AuthenticatedClient::Service(key) => {
                let own = self.services.scopes(&key.service).unwrap_or_default();
                let held = claims.scope.as_deref().map(ScopeSet::from).unwrap_or_default();
                !own.intersection(&held).is_empty()
            }
        }
    }

    async fn introspect_refresh_token(
        &self,
        context: &RequestContext<'_>,
        client: &AuthenticatedClient,
        token: &RefreshToken<'_>,
    ) -> Result<Option<Value>, EndpointError> {
        let mut tx = context.engine.db.read().await?;
        let row = sql::oauth::authorization(&mut tx, token.authorization).await?;
        let Some(row) = row.filter(|row| row.client_id == client.id()) else { return Ok(None) };
        if sql::is_closed(&mut tx, row.account_id).await? {
            return Ok(None);
        }
        tx.rollback();
        let end = row.ends_at(self.refresh_token_life);
        let active = row.revoked_at.is_none() && context.now < end && token.is_current(&row);
        if !active || !token.is_genuine(context.engine, &row)? {
            return Ok(None);
        }
        Ok(Some(json!({
            "active": true,
            "client_id": row.client_id,
            "sub": row.person_id,
            "scope": row.scopes,
            "exp": end.as_seconds(),
            "iat": row.created_at.as_seconds(),
        })))
    }
}
