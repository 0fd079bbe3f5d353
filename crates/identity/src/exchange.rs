//! The key exchange: OAuth 2.0 client credentials.

use portico_engine::Engine;
use portico_kernel::{CallerKind, Problem, ScopeSet, hex};
use serde::Serialize;

use crate::claims::{AUDIENCE, Claims, Issue};
use crate::sql::{self, CredentialRow};
use crate::{Identity, limits, secret};

/// Why the provider refuses, in OAuth's own words (RFC 6749, section 5.2).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OAuthError {
    pub(crate) error: &'static str,
    pub(crate) description: String,
}

impl OAuthError {
    pub(crate) fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: description.into() }
    }

    /// A client that is unknown, revoked, or whose secret is wrong: one answer for all three.
    fn invalid_client() -> Self {
        Self::new("invalid_client", "The client id or the client secret is wrong, or the key was revoked.")
    }
}

/// What went wrong: a refusal in OAuth's words, or a fault of ours.
pub(crate) enum ExchangeError {
    Refused(OAuthError),
    Fault(Problem),
}

impl From<OAuthError> for ExchangeError {
    fn from(error: OAuthError) -> Self {
        Self::Refused(error)
    }
}

impl<E: Into<Problem>> From<E> for ExchangeError {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// A client id and secret, as HTTP Basic brought them.
pub(crate) struct ClientCredentials {
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// The form of the request.
pub(crate) struct ExchangeForm {
    pub(crate) audience: Option<String>,
    pub(crate) scope: Option<String>,
}

/// The answer (RFC 6749, section 5.1).
#[derive(Serialize)]
pub(crate) struct Exchanged {
    access_token: String,
    token_type: &'static str,
    expires_in: i64,
    scope: String,
}

impl Identity {
    /// Exchanges a key for a token of 15 minutes. Nothing is written.
    pub(crate) async fn exchange(
        &self,
        engine: &Engine,
        client: &ClientCredentials,
        form: &ExchangeForm,
    ) -> Result<Exchanged, ExchangeError> {
        let key = self.authenticate(engine, client).await?;
        if form.audience.as_deref().is_some_and(|audience| audience != AUDIENCE) {
            return Err(OAuthError::new("invalid_target", format!("The audience must be {AUDIENCE}.")).into());
        }
        let held = key.scope_set()?;
        let scopes = match form.scope.as_deref().filter(|scope| !scope.trim().is_empty()) {
            None => held,
            Some(asked) => granted(asked, held)?,
        };
        Ok(self.issue(engine, &key, scopes)?)
    }

    async fn authenticate(
        &self,
        engine: &Engine,
        client: &ClientCredentials,
    ) -> Result<CredentialRow, ExchangeError> {
        let mut tx = engine.db.read().await?;
        let row = sql::credential(&mut tx, &client.id).await?;
        tx.rollback().await?;
        let standing = row.filter(|row| row.revoked_at.is_none());
        let kept = standing.as_ref().and_then(|row| row.secret_hash.as_deref());
        let right = secret::matches(&client.secret, kept);
        standing.filter(|_| right).ok_or_else(|| OAuthError::invalid_client().into())
    }

    fn issue(&self, engine: &Engine, key: &CredentialRow, scopes: ScopeSet) -> Result<Exchanged, Problem> {
        let now = engine.clock.now();
        let issue = Issue {
            subject: key.id.clone(),
            kind: CallerKind::Client,
            at: now,
            life: limits::ACCESS_TOKEN_LIFE,
            id: hex(&engine.entropy.bytes::<16>()),
        };
        let claims = Claims {
            client_id: Some(key.id.clone()),
            scope: Some(scopes.to_string()),
            org: Some(key.account_id),
            key: Some(key.id.clone()),
            parent: key.parent.clone(),
            ..Claims::new(&self.issuer, issue).named(&key.name)
        };
        // What is left of its life in whole seconds, and the second that has begun is not left any more: 899.
        let left = claims.expires_at().as_micros() - now.as_micros() - 1;
        let access_token = self.keys.sign(&claims)?;
        Ok(Exchanged {
            access_token,
            token_type: "bearer",
            expires_in: left / 1_000_000,
            scope: scopes.to_string(),
        })
    }
}

/// The scopes that were asked for, if the key holds them all.
fn granted(asked: &str, held: ScopeSet) -> Result<ScopeSet, OAuthError> {
    let asked: ScopeSet = asked
        .parse()
        .map_err(|_| OAuthError::new("invalid_scope", "A scope that was asked for is not known."))?;
    if asked.is_within(held) {
        return Ok(asked);
    }
    let missing = asked.names().into_iter().filter(|name| !held.names().contains(name)).collect::<Vec<_>>();
    Err(OAuthError::new("invalid_scope", format!("The key does not hold: {}.", missing.join(" "))))
}
