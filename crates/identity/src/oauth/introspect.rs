//! Token introspection (RFC 7662).

use http::StatusCode;
use portico_kernel::Timestamp;
use serde_json::{Value, json};

use super::client::Authenticated;
use super::refresh::Presented;
use super::{Fault, OAuthError};
use crate::claims::Claims;
use crate::http::Asked;
use crate::http::reply::{self, Reply};
use crate::{Identity, sql};

impl Identity {
    /// `POST /oauth2/introspect`: for keys and apps that keep a secret. A key learns about the keys and API tokens of
    /// its own account, an app about its own; every other token is not active, as far as they are told.
    pub(crate) async fn introspect(&self, asked: &Asked<'_>) -> Result<Reply, Fault> {
        let form = asked.form()?;
        let client = self.authenticate(asked, &form).await?;
        if !client.is_confidential() {
            return Err(OAuthError::invalid_client().into());
        }
        let token = form.get("token").ok_or_else(|| OAuthError::invalid_request("token is missing."))?;
        let told = match Presented::read(token) {
            Some(presented) => self.introspect_refresh_token(asked, &client, &presented).await?,
            None => self.introspect_access_token(asked, &client, token).await?,
        };
        let body = told.unwrap_or_else(|| json!({ "active": false }));
        Ok(reply::no_store(reply::json(StatusCode::OK, &body)))
    }

    async fn introspect_access_token(
        &self,
        asked: &Asked<'_>,
        client: &Authenticated,
        token: &str,
    ) -> Result<Option<Value>, Fault> {
        let Some(claims) = self.decode_any(asked, token).filter(|claims| concerns(client, claims)) else {
            return Ok(None);
        };
        let mut tx = asked.engine.db.read().await?;
        let revoked =
            sql::any_revoked(&mut tx, &claims.revocable(), Timestamp::from_seconds(claims.iat)).await?;
        let is_listed = match &claims.key {
            Some(key) => sql::standing_credential(&mut tx, key).await?.is_some(),
            None => true,
        };
        tx.rollback().await?;
        if revoked || !is_listed {
            return Ok(None);
        }
        let mut told = serde_json::to_value(&claims).map_err(portico_kernel::Problem::internal)?;
        told["active"] = json!(true);
        told["token_type"] = json!("bearer");
        Ok(Some(told))
    }

    async fn introspect_refresh_token(
        &self,
        asked: &Asked<'_>,
        client: &Authenticated,
        presented: &Presented<'_>,
    ) -> Result<Option<Value>, Fault> {
        let mut tx = asked.engine.db.read().await?;
        let row = sql::oauth::authorization(&mut tx, presented.authorization).await?;
        let Some(row) = row.filter(|row| row.client_id == client.id()) else { return Ok(None) };
        if sql::is_closed(&mut tx, row.account_id).await? {
            return Ok(None);
        }
        tx.rollback().await?;
        let stands = row.revoked_at.is_none() && asked.now < row.expires_at && presented.is_current(&row);
        if !stands || !presented.is_genuine(asked.engine, &row)? {
            return Ok(None);
        }
        Ok(Some(json!({
            "active": true,
            "client_id": row.client_id,
            "sub": row.person_id,
            "scope": row.scopes,
            "exp": row.expires_at.as_seconds(),
            "iat": row.created_at.as_seconds(),
        })))
    }
}

/// May this client know about the token?
fn concerns(client: &Authenticated, claims: &Claims) -> bool {
    match client {
        // Of its account's keys and API tokens; what people hold is theirs.
        Authenticated::Key(key) => claims.org == Some(key.account_id) && claims.key.is_some(),
        Authenticated::App(app) => claims.client_id.as_deref() == Some(&app.id),
    }
}
