//! The key exchange: OAuth 2.0 client credentials.

use portico_engine::Engine;
use portico_kernel::{CallerKind, ScopeSet, hex};

use super::target::{scopes_for, unknown_scope};
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
        let audience = self.named_audience(engine, form)?.unwrap_or_else(|| AUDIENCE.to_owned());
        if audience == self.mcp_audience() {
            let message = format!("The audience must be {AUDIENCE}, or that of a service.");
            return Err(OAuthError::new("invalid_target", message).into());
        }
        let held = engine.registry.catalog().scopes().known(&key.scope_set());
        let of_audience = scopes_for(engine, &audience, &held);
        if of_audience.is_empty() && !held.is_empty() {
            let message = format!("The key holds no scope of {audience}.");
            return Err(OAuthError::new("invalid_scope", message).into());
        }
        let scopes = match form.get("scope").filter(|scope| !scope.trim().is_empty()) {
            None => of_audience,
            Some(asked) => {
                let asked = granted(engine, asked, &held)?;
                if !asked.is_within(&of_audience) {
                    let message = format!("A token for {audience} holds scopes of that service alone.");
                    return Err(OAuthError::new("invalid_scope", message).into());
                }
                asked
            }
        };
        let now = engine.clock.now();
        let issue = Issue {
            audience,
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
