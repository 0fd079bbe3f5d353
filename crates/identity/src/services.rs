//! Credentials of services: the operator makes them, and their tokens open what is for services alone.

use portico_engine::{Ctx, Engine};
use portico_kernel::{CallerKind, Problem, ScopeSet, Secret, ServiceKeyId, Timestamp, hex};
use serde::Serialize;

use crate::claims::{AUDIENCE, Claims, Issue};
use crate::http::Params;
use crate::oauth::target::unknown_scope;
use crate::oauth::token::TokenResponse;
use crate::oauth::{EndpointError, OAuthError};
use crate::sql::services::{self, ServiceKeyRow};
use crate::{Identity, limits, secret, sql};

/// A new credential of a service. Its secret is here and nowhere else.
pub struct CreatedServiceKey {
    /// Its id, which is its client id too.
    pub id: ServiceKeyId,
    /// The client secret, shown once.
    pub secret: Secret<String>,
}

/// A credential of a service. The secret itself is never in it.
#[derive(Debug, Serialize)]
pub struct ServiceKey {
    /// The id, which is its client id too.
    pub id: ServiceKeyId,
    /// The service.
    pub service: String,
    /// The last characters of the secret.
    pub secret_hint: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a token of it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Identity {
    /// Makes a credential of a service that the configuration names.
    pub async fn create_service_key(
        &self,
        ctx: &mut Ctx,
        service: &str,
    ) -> Result<CreatedServiceKey, Problem> {
        if self.services.scopes(service).is_none() {
            return Err(Problem::field("name", "is not a service that the configuration names"));
        }
        let (id, now): (ServiceKeyId, _) = (ctx.new_id(), ctx.now());
        let secret = secret::generate(ctx.engine().entropy.as_ref());
        let tx = ctx.tx().await?;
        // So that two makers cannot both make the last one.
        sql::lock_issuer(tx).await?;
        let count = services::count_service_keys(tx, service).await?;
        if count >= limits::SERVICE_KEYS_MAX {
            let message = format!("The service already has {count} credentials, the maximum.");
            return Err(Problem::limit_reached("identity", message, limits::SERVICE_KEYS_MAX));
        }
        let row = ServiceKeyRow {
            id,
            service: service.to_owned(),
            secret_hash: secret::hash(secret.expose()),
            secret_hint: secret::hint(&secret),
            created_at: now,
            last_used_at: None,
            revoked_at: None,
        };
        services::insert_service_key(tx, &row).await?;
        tracing::info!(service, credential = %id, "Made a credential of a service");
        Ok(CreatedServiceKey { id, secret })
    }

    /// Every credential of the service, or of all services, revoked ones included.
    pub async fn service_keys(
        &self,
        ctx: &mut Ctx,
        service: Option<String>,
    ) -> Result<Vec<ServiceKey>, Problem> {
        let rows = services::service_keys(ctx.tx().await?, service).await?;
        let key = |row| {
            let ServiceKeyRow { id, service, secret_hint, created_at, last_used_at, revoked_at, .. } = row;
            ServiceKey { id, service, secret_hint, created_at, last_used_at, revoked_at }
        };
        Ok(rows.into_iter().map(key).collect())
    }

    /// Revokes a credential of a service, and the tokens that it was exchanged for.
    pub(crate) async fn revoke_service_key(&self, ctx: &mut Ctx, id: ServiceKeyId) -> Result<(), Problem> {
        let now = ctx.now();
        let tx = ctx.tx().await?;
        if !services::revoke_service_key(tx, id, now).await? {
            return Err(Problem::not_found("credential of a service that is in use", id));
        }
        sql::add_revocation(tx, &id.to_string(), false, now).await?;
        tracing::info!(credential = %id, "Revoked a credential of a service");
        Ok(())
    }

    /// The credential of that id and secret, if it was not revoked. It is read anew each time: a service exchanges it
    /// once in a quarter of an hour.
    pub(crate) async fn authenticate_service(
        &self,
        engine: &Engine,
        id: ServiceKeyId,
        given: &str,
    ) -> Result<Option<ServiceKeyRow>, Problem> {
        let row = services::active_service_key(&mut engine.db.query(), id).await?;
        let right = secret::matches(given, row.as_ref().map(|row| row.secret_hash.as_slice()));
        Ok(row.filter(|_| right))
    }

    /// Exchanges a service's credential for a token of 15 minutes. Nothing is written.
    pub(crate) fn exchange_service_key(
        &self,
        engine: &Engine,
        key: &ServiceKeyRow,
        form: &Params,
    ) -> Result<TokenResponse, EndpointError> {
        if self.named_audience(engine, form)?.is_some_and(|audience| audience != AUDIENCE) {
            return Err(OAuthError::new("invalid_target", format!("The audience must be {AUDIENCE}.")).into());
        }
        if self.services.scopes(&key.service).is_none() {
            let message = "The service of this credential is not configured any more.";
            return Err(OAuthError::new("unauthorized_client", message).into());
        }
        let held = engine.registry.catalog().service_scopes().all();
        let asked = form.get("scope").map(ScopeSet::from).filter(|scopes| !scopes.is_empty());
        let scopes = asked.unwrap_or_else(|| held.clone());
        if !scopes.is_within(&held) {
            return Err(unknown_scope().into());
        }
        let now = engine.clock.now();
        let issue = Issue {
            audience: AUDIENCE.to_owned(),
            subject: key.id.to_string(),
            kind: CallerKind::Service,
            at: now,
            life: limits::ACCESS_TOKEN_LIFE,
            id: hex(&engine.entropy.bytes::<16>()),
        };
        let claims = Claims {
            client_id: Some(key.id.to_string()),
            scope: Some(scopes.to_string()),
            ..Claims::new(&self.issuer, issue).named(&key.service)
        };
        Ok(self.token_response(&claims, now)?)
    }
}
