//! Tokens into callers, without a database when warm.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use portico_engine::{Engine, timed_out};
use portico_identity::Identity;
use portico_identity::verify::refused;
use portico_kernel::Problem;
use portico_metering::Metering;
use quick_cache::sync::Cache;

use crate::Metrics;
use crate::credential::Credential;

/// How many verified tokens are remembered.
const TOKENS_MAX: usize = 100_000;
/// Longer than any token of ours.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Verifies tokens and remembers those that were good, by the SHA-256 of the whole token. Every use asks whether the
/// token has ended or was revoked since.
pub(crate) struct Tokens {
    identity: Arc<Identity>,
    metering: Arc<Metering>,
    cache: Cache<[u8; 32], Credential>,
}

/// The token of a request; `None` when it has none.
fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused());
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(refused)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(Some(token.trim())) } else { Err(refused()) }
}

impl Tokens {
    pub(crate) fn new(identity: Arc<Identity>, metering: Arc<Metering>) -> Self {
        Self { identity, metering, cache: Cache::new(TOKENS_MAX) }
    }

    /// Who sends these headers; 401 without a valid token.
    pub(crate) async fn authenticate_headers(
        &self,
        engine: &Engine,
        metrics: &Metrics,
        headers: &HeaderMap,
    ) -> Result<Credential, Problem> {
        self.authenticate(engine, metrics, bearer_token(headers)?.ok_or_else(refused)?).await
    }

    /// Who holds that token; 401 when it is not valid.
    pub(crate) async fn authenticate(
        &self,
        engine: &Engine,
        metrics: &Metrics,
        token: &str,
    ) -> Result<Credential, Problem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused());
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(credential) = self.cache.get(&key) {
            let now = engine.clock.now();
            if self.identity.is_valid(credential.verified(), now)? {
                metrics.token_known(true);
                self.identity.note_use(credential.verified(), now);
                return Ok(credential);
            }
            self.cache.remove(&key);
        }
        metrics.token_known(false);
        // Boxed, because the way through the database is large and seldom taken.
        let verifying = Box::pin(self.identity.verify(engine, token));
        let verified = tokio::time::timeout(engine.operation_time_max, verifying).await;
        let verified = verified.unwrap_or_else(|_| Err(timed_out()))?;
        self.identity.note_use(&verified, engine.clock.now());
        let rate_limit_key = self.metering.rate_limit_key(&verified.caller);
        let credential = Credential::new(verified, rate_limit_key);
        self.cache.insert(key, credential.clone());
        Ok(credential)
    }

    /// Is the credential still valid? A connection outlives the token that it was opened with.
    pub(crate) fn is_valid(&self, engine: &Engine, credential: &Credential) -> Result<bool, Problem> {
        let (verified, now) = (credential.verified(), engine.clock.now());
        let is_valid = self.identity.is_credential_valid(verified, now)?;
        if is_valid {
            self.identity.note_use(verified, now);
        }
        Ok(is_valid)
    }
}
