//! The key exchange: OAuth 2.0 client credentials.

use portico_engine::Engine;
use portico_kernel::{CallerKind, ScopeSet, hex};

use super::target::unknown_scope;
use super::token::TokenResponse;
use super::{EndpointError, OAuthError};
use crate::claims::{AUDIENCE, Claims, Issue};
use crate::http::Params;
use crate::sql::CredentialRow;
use crate::{Identity, limits};

impl Identity {
    /// Exchanges a key for a token of 15 minutes. Nothing is written.
    pub(crate) fn exchange_key(
        &self,
        engine: &Engine,
        key: &CredentialRow,
        form: &Params,
    ) -> Result<TokenResponse, EndpointError> {
        if self.named_audience(form)?.is_some_and(|audience| audience != AUDIENCE) {
            return Err(OAuthError::new("invalid_target", format!("The audience must be {AUDIENCE}.")).into());
        }
        let held = engine.registry.catalog().scopes().known(&key.scope_set());
        let scopes = match form.get("scope").filter(|scope| !scope.trim().is_empty()) {
            None => held,
            Some(context) => granted(engine, context, &held)?,
        };
        let now = engine.clock.now();
        let issue = Issue {
            audience: AUDIENCE.to_owned(),
            subject: key.id.clone(),
            kind: CallerKind::Client,
            at: now,
            // A key below an API token ends with it.
            life: key
                .expires_at
                .map_or(limits::ACCESS_TOKEN_LIFE, |end| end.since(now).min(limits::ACCESS_TOKEN_LIFE)),
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
        Ok(self.token_response(&claims, now)?)
    }
}

/// The scopes that were asked for, if the key holds them all.
fn granted(engine: &Engine, asked: &str, held: &ScopeSet) -> Result<ScopeSet, OAuthError> {
    let asked = ScopeSet::from(asked);
    if asked.is_within(held) {
        return Ok(asked);
    }
    engine.registry.catalog().scopes().check(&asked).map_err(|_| unknown_scope())?;
    let missing = asked.names().filter(|name| !held.contains(name)).collect::<Vec<_>>();
    Err(OAuthError::new("invalid_scope", format!("The key does not hold: {}.", missing.join(" "))))
}
