//! Tokens into callers, without a database when warm.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use portico_engine::{Engine, timed_out};
use portico_identity::Identity;
use portico_identity::verify::{Audience, VerifiedToken, refused};
use portico_kernel::{Caller, Problem, Timestamp};
use portico_metering::{Metering, RateLimitKey};
use quick_cache::sync::Cache;

use crate::Metrics;

/// How many verified tokens are remembered.
const TOKENS_MAX: usize = 100_000;
/// Longer than any token of ours.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Verifies tokens and remembers those that were good, by the SHA-256 of the whole token. Every use asks whether the
/// token has ended or was revoked since.
pub(crate) struct Tokens {
    identity: Arc<Identity>,
    metering: Arc<Metering>,
    known: Cache<[u8; 32], Arc<Known>>,
}

/// A token that was good when it was last seen, and the minute of whoever holds it.
struct Known {
    verified: VerifiedToken,
    subject: Option<Arc<RateLimitKey>>,
}

/// Who calls, and their minute; the platform itself has none.
#[derive(Clone)]
pub(crate) struct Bearer(Arc<Known>);

impl Bearer {
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.0.verified.caller
    }

    /// The same, if the token opens the API: one of an assistant opens its tools alone.
    pub(crate) fn for_api(self) -> Result<Self, Problem> {
        if self.0.verified.audience == Audience::Api { Ok(self) } else { Err(refused()) }
    }

    pub(crate) fn subject(&self) -> Option<&Arc<RateLimitKey>> {
        self.0.subject.as_ref()
    }

    pub(crate) fn verified(&self) -> &VerifiedToken {
        &self.0.verified
    }

    /// When the credential itself ends, if it does.
    pub(crate) fn ends(&self) -> Option<Timestamp> {
        self.0.verified.credential_ends()
    }
}

/// The token of a request; `None` when it has none.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
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
        Self { identity, metering, known: Cache::new(TOKENS_MAX) }
    }

    /// Who sends these headers; 401 when nobody can be told.
    pub(crate) async fn of_headers(
        &self,
        engine: &Engine,
        metrics: &Metrics,
        headers: &HeaderMap,
    ) -> Result<Bearer, Problem> {
        self.holder(engine, metrics, bearer(headers)?.ok_or_else(refused)?).await
    }

    /// Who holds that token; 401 when nobody does.
    pub(crate) async fn holder(
        &self,
        engine: &Engine,
        metrics: &Metrics,
        token: &str,
    ) -> Result<Bearer, Problem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused());
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.known.get(&key) {
            let now = engine.clock.now();
            if self.identity.is_valid(&known.verified, now)? {
                metrics.token_known(true);
                self.identity.note_use(&known.verified, now);
                return Ok(Bearer(known));
            }
            self.known.remove(&key);
        }
        metrics.token_known(false);
        // Boxed, because the way through the database is large and seldom taken.
        let verifying = Box::pin(self.identity.verify(engine, token));
        let verified = tokio::time::timeout(engine.operation_time_max, verifying).await;
        let verified = verified.unwrap_or_else(|_| Err(timed_out()))?;
        self.identity.note_use(&verified, engine.clock.now());
        let known = Arc::new(Known { subject: self.metering.rate_limit_key(&verified.caller), verified });
        self.known.insert(key, known.clone());
        Ok(Bearer(known))
    }

    /// Does the credential still stand? A connection outlives the token that it was opened with.
    pub(crate) fn still_stands(&self, engine: &Engine, bearer: &Bearer) -> Result<bool, Problem> {
        let (verified, now) = (&bearer.0.verified, engine.clock.now());
        let stands = self.identity.is_credential_valid(verified, now)?;
        if stands {
            self.identity.note_use(verified, now);
        }
        Ok(stands)
    }
}
