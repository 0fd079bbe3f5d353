//! Token revocation (RFC 7009).

use http::StatusCode;
use portico_engine::Ctx;
use portico_kernel::Caller;
use serde_json::json;

use super::client::AuthenticatedClient;
use super::refresh::RefreshToken;
use super::{EndpointError, OAuthError};
use crate::claims::Claims;
use crate::http::RequestContext;
use crate::http::response::{self, AuthResponse};
use crate::people::attempts::{self, REVOCATIONS};
use crate::people::ending;
use crate::sql::oauth::Ending;
use crate::{Identity, sql};

impl Identity {
    /// `POST /oauth2/revoke`. A token that is unknown, or another client's, is no error: it is of no use to this one.
    pub(crate) async fn revoke_token(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<AuthResponse, EndpointError> {
        let form = context.form()?;
        let client = self.authenticate(context, &form).await?;
        let token = form.required("token")?;
        if let Some(token) = RefreshToken::parse(token) {
            self.revoke_refresh_token(context, &client, &token).await?;
        } else if let Some((claims, _)) = self.decode(context.engine, token, context.now)
            && claims.client_id.as_deref() == Some(&*client.id())
        {
            self.revoke_access_token(context, &client.id(), &claims).await?;
        }
        Ok(response::private_json(StatusCode::OK, &json!({})))
    }

    async fn revoke_access_token(
        &self,
        context: &RequestContext<'_>,
        client: &str,
        claims: &Claims,
    ) -> Result<(), EndpointError> {
        let own = [claims.jti.clone()];
        let mut tx = context.engine.db.read().await?;
        let known = sql::any_revoked(&mut tx, &own, context.now).await?;
        tx.rollback();
        if known {
            return Ok(());
        }
        // Each costs every server a little memory for a while, so nobody may do it without end.
        let whose = format!("{client} {}", claims.sub);
        OAuthError::check_rate(attempts::take(context.engine, context.now, &[(REVOCATIONS, &whose)]).await?)?;
        let mut tx = context.engine.db.write().await?;
        sql::add_revocation(&mut tx, &claims.jti, false, context.now).await?;
        Ok(tx.commit().await?)
    }

    /// The refresh token goes, and with it everything that came from it.
    async fn revoke_refresh_token(
        &self,
        context: &RequestContext<'_>,
        client: &AuthenticatedClient,
        token: &RefreshToken<'_>,
    ) -> Result<(), EndpointError> {
        let mut tx = context.engine.db.read().await?;
        let row = sql::oauth::authorization(&mut tx, token.authorization).await?;
        tx.rollback();
        let Some(row) = row.filter(|row| row.client_id == client.id()) else { return Ok(()) };
        if token.is_genuine(context.engine, &row)? {
            let mut ctx = Ctx::acting(context.engine, Caller::person(row.person_id, ""), &context.request_id);
            ending::end(&mut ctx, &Ending::One(row.id)).await?;
            ctx.finish().await?;
        }
        Ok(())
    }
}
