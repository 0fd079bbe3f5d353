//! Authorization codes: made when a person says yes, exchanged once within a minute.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_engine::Ctx;
use portico_kernel::{AuthorizationId, Caller, Problem, SessionId};

use super::authorize::AuthorizationRequest;
use super::client::{Client, Origin};
use super::refresh;
use super::token::TokenResponse;
use super::{EndpointError, OAuthError};
use crate::http::{Params, RequestContext};
use crate::people::{AccountChoice, ending};
use crate::sql::oauth::{AuthorizationRow, CodeRow, Ending};
use crate::sql::people::PersonRow;
use crate::{Identity, limits, secret, sql};

const PREFIX: &str = "pac_";

impl Identity {
    /// Authorizes the app for the person and the account that they chose; returns the code to send back.
    pub(crate) async fn authorize(
        &self,
        ctx: &mut Ctx,
        person: &PersonRow,
        session: SessionId,
        request: &AuthorizationRequest,
        choice: &AccountChoice,
    ) -> Result<String, Problem> {
        let (now, engine) = (ctx.now(), ctx.engine().clone());
        let id: AuthorizationId = ctx.new_id();
        let is_console = request.client.origin == Origin::Console;
        let row = AuthorizationRow {
            id,
            person_id: person.id,
            client_id: request.client.id.clone(),
            account_id: choice.account,
            // Whoever signs out of the browser signs out of the console.
            session_id: is_console.then_some(session),
            audience: request.params.audience.clone(),
            scopes: request.params.scopes.as_ref().map(ToString::to_string),
            role: (!is_console).then_some(choice.role),
            sealed_secret: refresh::new_family(&engine, id),
            generation: 0,
            spent: String::new(),
            created_at: now,
            // Until the code is exchanged there is nothing to keep.
            expires_at: now + limits::CODE_LIFE,
            revoked_at: None,
        };
        let code = format!("{PREFIX}{}", secret::random(engine.entropy.as_ref()));
        let code_row = CodeRow {
            hash: secret::hash(&code),
            authorization_id: id,
            redirect_uri: request.params.redirect_uri.clone(),
            challenge: request.params.challenge.clone(),
            expires_at: now + limits::CODE_LIFE,
        };
        let tx = ctx.tx().await?;
        sql::oauth::insert_authorization(tx, &row).await?;
        sql::oauth::insert_code(tx, &code_row).await?;
        sql::oauth::use_client(tx, &row.client_id, now).await?;
        if !is_console {
            ctx.set_account(choice.account);
            let app = serde_json::json!({ "client_id": row.client_id, "scopes": row.scopes });
            ctx.audit_with("app.authorized", &id, app)?;
        }
        Ok(code)
    }

    /// Exchanges a code. Used again, it ends what it gave the first time.
    pub(crate) async fn exchange_code(
        &self,
        context: &RequestContext<'_>,
        client: &Client,
        form: &Params,
    ) -> Result<TokenResponse, EndpointError> {
        let (engine, now) = (context.engine, context.now);
        let code = form.required("code")?;
        let verifier = form.required("code_verifier")?;
        let redirect_uri = form.required("redirect_uri")?;
        let named = self.named_audience(form)?;
        let mut tx = engine.db.write().await?;
        let row =
            sql::oauth::code(&mut tx, secret::hash(code)).await?.ok_or_else(OAuthError::invalid_grant)?;
        let authorization = sql::oauth::authorization(&mut tx, row.authorization_id).await?;
        let authorization = authorization.filter(|authorization| authorization.client_id == client.id);
        let mut authorization = authorization.ok_or_else(OAuthError::invalid_grant)?;
        if row.redirect_uri != redirect_uri || !proves(verifier, &row.challenge) {
            return Err(OAuthError::invalid_grant().into());
        }
        if !sql::oauth::take_code(&mut tx, row.hash, now).await? {
            tx.rollback().await?;
            tracing::warn!(authorization = %authorization.id, "Authorization code reused; authorization revoked");
            let mut ctx =
                Ctx::acting(engine, Caller::person(authorization.person_id, ""), &context.request_id);
            if !ending::end(&mut ctx, &Ending::One(authorization.id)).await?.is_empty() {
                ctx.set_account(authorization.account_id);
                ctx.audit("app.code_reused", &authorization.id)?;
            }
            ctx.finish().await?;
            return Err(OAuthError::invalid_grant().into());
        }
        let active = now < row.expires_at && authorization.revoked_at.is_none();
        if !active || named.is_some_and(|named| named != authorization.audience) {
            let error =
                active.then(|| OAuthError::new("invalid_target", "The code is for another audience."));
            tx.commit().await?;
            return Err(error.unwrap_or_else(OAuthError::invalid_grant).into());
        }
        let expires_at = self.refresh_end(&authorization, now);
        if !sql::oauth::rotate_authorization(&mut tx, authorization.id, 0, "", now, expires_at).await? {
            return Err(OAuthError::invalid_grant().into());
        }
        let person = sql::people::person(&mut tx, &authorization.person_id.to_string()).await?;
        let person = person.ok_or_else(OAuthError::invalid_grant)?;
        authorization.generation = 1;
        let refresh_token = refresh::token(engine, &authorization)?;
        let issued = self.issue_for(engine, &authorization, &person, now)?;
        tx.commit().await?;
        Ok(TokenResponse { refresh_token: Some(refresh_token), ..issued })
    }
}

/// Is this what the challenge was made of (RFC 7636, S256)?
fn proves(verifier: &str, challenge: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !(43..=128).contains(&verifier.len()) || !verifier.bytes().all(plain) {
        return false;
    }
    let made = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
    verify_slices_are_equal(made.as_bytes(), challenge.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::proves;

    #[test]
    fn the_example_of_rfc_7636() {
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert!(proves("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", challenge));
        assert!(!proves("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXl", challenge));
        assert!(!proves(challenge, challenge), "plain is not offered");
        assert!(!proves("", ""));
    }
}
