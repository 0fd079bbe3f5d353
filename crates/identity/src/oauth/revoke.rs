//! Token revocation (RFC 7009).

use http::StatusCode;
use portico_engine::Ctx;
use portico_kernel::Caller;
use serde_json::json;

use super::client::Authenticated;
use super::refresh::Presented;
use super::{Fault, OAuthError};
use crate::claims::Claims;
use crate::http::Asked;
use crate::http::reply::{self, Reply};
use crate::people::attempts::{self, REVOCATIONS};
use crate::people::ending;
use crate::sql::oauth::Ending;
use crate::{Identity, sql};

impl Identity {
    /// The claims of one of our tokens, whichever audience it is for.
    pub(crate) fn decode_any(&self, asked: &Asked<'_>, token: &str) -> Option<Claims> {
        self.decode(token, asked.now).map(|(claims, _)| claims)
    }

    /// `POST /oauth2/revoke`. A token that is unknown, or another client's, is no error: it is of no use to this one.
    pub(crate) async fn revoke_token(&self, asked: &Asked<'_>) -> Result<Reply, Fault> {
        let form = asked.form()?;
        let client = self.authenticate(asked, &form).await?;
        let token = form.get("token").ok_or_else(|| OAuthError::invalid_request("token is missing."))?;
        if let Some(presented) = Presented::read(token) {
            self.revoke_refresh_token(asked, &client, &presented).await?;
        } else if let Some(claims) = self.decode_any(asked, token)
            && claims.client_id.as_deref() == Some(client.id())
        {
            self.revoke_access_token(asked, client.id(), &claims).await?;
        }
        Ok(reply::no_store(reply::json(StatusCode::OK, &json!({}))))
    }

    async fn revoke_access_token(
        &self,
        asked: &Asked<'_>,
        client: &str,
        claims: &Claims,
    ) -> Result<(), Fault> {
        let own = [claims.jti.clone()];
        let mut tx = asked.engine.db.read().await?;
        let known = sql::any_revoked(&mut tx, &own, asked.now).await?;
        tx.rollback().await?;
        if known {
            return Ok(());
        }
        // Each costs every server a little memory for a while, so nobody may do it without end.
        let whose = format!("{client} {}", claims.sub);
        let limited = attempts::take(asked.engine, asked.now, &[(REVOCATIONS, &whose)]).await?;
        limited.map_err(OAuthError::too_often)?;
        let mut tx = asked.engine.db.write().await?;
        sql::add_revocation(&mut tx, &claims.jti, false, asked.now).await?;
        Ok(tx.commit().await?)
    }

    /// The refresh token goes, and with it everything that came from it.
    async fn revoke_refresh_token(
        &self,
        asked: &Asked<'_>,
        client: &Authenticated,
        presented: &Presented<'_>,
    ) -> Result<(), Fault> {
        let mut tx = asked.engine.db.read().await?;
        let row = sql::oauth::authorization(&mut tx, presented.authorization).await?;
        tx.rollback().await?;
        let Some(row) = row.filter(|row| row.client_id == client.id()) else { return Ok(()) };
        if presented.is_genuine(asked.engine, &row)? {
            let mut ctx = Ctx::acting(asked.engine, Caller::person(row.person_id, ""), &asked.request_id);
            ending::end(&mut ctx, &Ending::One(row.id)).await?;
            ctx.finish().await?;
        }
        Ok(())
    }
}
