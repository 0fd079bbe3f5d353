//! Authorization codes: made when an app is let in, exchanged once within a minute. A code carries what it stands for,
//! sealed, so that letting an app in writes nothing before the app takes it up
//! (docs/decisions/0037-a-code-carries-what-it-stands-for.md).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use portico_engine::Ctx;
use portico_kernel::{AccountId, AuthorizationId, Caller, PersonId, Problem, Role, SessionId, Timestamp};
use portico_store::Tx;
use serde::{Deserialize, Serialize};

use super::authorize::AuthorizationRequest;
use super::client::{Client, Origin};
use super::refresh;
use super::token::TokenResponse;
use super::{EndpointError, OAuthError};
use crate::http::sealed_state::StateSeal;
use crate::http::{Params, RequestContext};
use crate::people::ending;
use crate::people::session::Session;
use crate::sql::oauth::{AuthorizationRow, Ending};
use crate::sql::people::PersonRow;
use crate::{Identity, limits, sql};

const PREFIX: &str = "pac_";

/// What a code stands for. The client and its address are what it is sealed for.
#[derive(Serialize, Deserialize)]
struct CodeGrant {
    /// The authorization that it becomes. Once there is one, the code was used.
    id: AuthorizationId,
    person: PersonId,
    session: SessionId,
    account: AccountId,
    audience: String,
    scopes: Option<String>,
    challenge: String,
    /// In microseconds.
    made_at: i64,
}

fn binding(client: &str, redirect_uri: &str) -> String {
    format!("{client} {redirect_uri}")
}

const fn seal(binding: &str) -> StateSeal<'_> {
    StateSeal { bound_to: binding, purpose: "authorization code" }
}

/// Lets the app in, for the person of the session and the account that they chose; returns the code to send back.
pub(crate) fn make(
    context: &RequestContext<'_>,
    session: &Session,
    request: &AuthorizationRequest,
    account: AccountId,
) -> Result<String, Problem> {
    let params = &request.params;
    let grant = CodeGrant {
        id: context.engine.entropy.id(context.now),
        person: session.person.id,
        session: session.id,
        account,
        audience: params.audience.clone(),
        scopes: params.scopes.as_ref().map(ToString::to_string),
        challenge: params.challenge.clone(),
        made_at: context.now.as_micros(),
    };
    let binding = binding(&request.client.id, &params.redirect_uri);
    Ok(format!("{PREFIX}{}", seal(&binding).seal(context, limits::CODE_KEPT, grant)?))
}

impl CodeGrant {
    fn made_at(&self) -> Timestamp {
        Timestamp::from_micros(self.made_at)
    }

    /// The person, and their role for the app, if all still stands that stood when the code was made. The session stands
    /// until the commit.
    async fn check(
        &self,
        identity: &Identity,
        tx: &mut Tx,
        client: &Client,
        now: Timestamp,
    ) -> Result<Option<(PersonRow, Option<Role>)>, Problem> {
        if !sql::people::hold_session(tx, self.session, now).await? {
            return Ok(None);
        }
        let Some(person) = sql::people::person(tx, &self.person.to_string()).await? else { return Ok(None) };
        if client.origin == Origin::Console {
            return Ok(Some((person, None)));
        }
        if sql::is_closed(tx, self.account).await?
            || sql::oauth::is_revoked_since(tx, self.person, &client.id, self.made_at()).await?
        {
            return Ok(None);
        }
        let memberships = identity.enrolment.memberships(tx, self.person).await?;
        let chosen = memberships.into_iter().find(|membership| membership.account == self.account);
        Ok(chosen.map(|membership| (person, Some(membership.role))))
    }

    /// What the person lets the app do from now on.
    fn authorization(
        &self,
        context: &RequestContext<'_>,
        client: &Client,
        role: Option<Role>,
    ) -> AuthorizationRow {
        let is_console = client.origin == Origin::Console;
        AuthorizationRow {
            id: self.id,
            person_id: self.person,
            client_id: client.id.clone(),
            account_id: self.account,
            // Whoever signs out of the browser signs out of the console.
            session_id: is_console.then_some(self.session),
            audience: self.audience.clone(),
            scopes: self.scopes.clone(),
            role,
            sealed_secret: refresh::new_family(context.engine, self.id),
            generation: 1,
            spent: String::new(),
            created_at: context.now,
            expires_at: context.now,
            revoked_at: None,
        }
    }
}

impl Identity {
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
        let named = self.named_audience(engine, form)?;
        let sealed = code.strip_prefix(PREFIX).unwrap_or_default();
        let grant: Option<CodeGrant> = seal(&binding(&client.id, redirect_uri)).open(context, sealed);
        let grant = grant.filter(|grant| proves(verifier, &grant.challenge));
        let grant = grant.ok_or_else(OAuthError::invalid_grant)?;
        if let Some(used) = sql::oauth::authorization(&mut engine.db.query(), grant.id).await? {
            return Err(end_reused(context, &used).await?.into());
        }
        if grant.made_at() + limits::CODE_LIFE <= now {
            return Err(OAuthError::invalid_grant().into());
        }
        if named.is_some_and(|named| named != grant.audience) {
            return Err(OAuthError::new("invalid_target", "The code is for another audience.").into());
        }
        let mut ctx = Ctx::acting(engine, Caller::person(grant.person, ""), &context.request_id);
        let stands = grant.check(self, ctx.tx().await?, client, now).await?;
        let (person, role) = stands.ok_or_else(OAuthError::invalid_grant)?;
        let mut row = grant.authorization(context, client, role);
        row.expires_at = self.refresh_end(&row, now);
        if !sql::oauth::insert_authorization(ctx.tx().await?, &row).await? {
            // Someone else was faster with the same code.
            drop(ctx);
            return Err(end_reused(context, &row).await?.into());
        }
        sql::oauth::use_client(ctx.tx().await?, &row.client_id, now).await?;
        if role.is_some() {
            ctx.set_account(row.account_id);
            let app = serde_json::json!({ "client_id": row.client_id, "scopes": row.scopes });
            ctx.audit_with("app.authorized", &row.id, app)?;
        }
        let refresh_token = refresh::token(engine, &row)?;
        let issued = self.issue_for(engine, &row, &person, now)?;
        ctx.finish().await?;
        Ok(TokenResponse { refresh_token: Some(refresh_token), ..issued })
    }
}

/// Ends what a code gave that is used again: whoever uses it now, or whoever did before, has stolen it.
async fn end_reused(context: &RequestContext<'_>, row: &AuthorizationRow) -> Result<OAuthError, Problem> {
    tracing::warn!(authorization = %row.id, "Authorization code reused; authorization revoked");
    let mut ctx = Ctx::acting(context.engine, Caller::person(row.person_id, ""), &context.request_id);
    if !ending::end(&mut ctx, &Ending::One(row.id)).await?.is_empty() {
        ctx.set_account(row.account_id);
        ctx.audit("app.code_reused", &row.id)?;
    }
    ctx.finish().await?;
    Ok(OAuthError::invalid_grant())
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
