//! Tokens into callers, without a database when warm.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use portico_engine::{Engine, timed_out};
use portico_identity::Identity;
use portico_identity::verify::refused;
use portico_kernel::Problem;
use portico_metering::Metering;
use prometheus_client::metrics::counter::Counter;
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

use crate::credential::Credential;

/// How many verified tokens are remembered.
const TOKENS_MAX: usize = 100_000;
/// Longer than any token of ours.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Verifies tokens and remembers those that were good, whole. Every use asks whether the token has ended or was revoked
/// since.
pub struct Tokens {
    pub(crate) identity: Arc<Identity>,
    pub(crate) metering: Arc<Metering>,
    /// Counts tokens that were known, and those that were verified.
    counters: OnceLock<(Counter, Counter)>,
    cache: Cache<GoodToken, Credential>,
}

/// A token that was good. It is found by a hash with a key of this process, which says little, so every byte is compared;
/// and in a time that tells nobody how many of them are right.
struct GoodToken(Box<[u8]>);

/// A token as it is sent.
struct SentToken<'a>(&'a [u8]);

impl PartialEq for GoodToken {
    fn eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

impl Eq for GoodToken {}

impl Hash for GoodToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Hash for SentToken<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<GoodToken> for SentToken<'_> {
    fn equivalent(&self, known: &GoodToken) -> bool {
        verify_slices_are_equal(self.0, &known.0).is_ok()
    }
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
    /// None are known yet.
    pub fn new(identity: Arc<Identity>, metering: Arc<Metering>) -> Self {
        Self { identity, metering, counters: OnceLock::new(), cache: Cache::new(TOKENS_MAX) }
    }

    /// From here on it counts what it does.
    pub(crate) fn count(&self, known: Counter, verified: Counter) {
        let _ = self.counters.set((known, verified));
    }

    /// Who sends these headers; 401 without a valid token.
    pub(crate) async fn authenticate_headers(
        &self,
        engine: &Engine,
        headers: &HeaderMap,
    ) -> Result<Credential, Problem> {
        self.authenticate(engine, bearer_token(headers)?.ok_or_else(refused)?).await
    }

    /// Who holds that token; 401 when it is not valid.
    pub(crate) async fn authenticate(&self, engine: &Engine, token: &str) -> Result<Credential, Problem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused());
        }
        let sent = SentToken(token.as_bytes());
        if let Some(credential) = self.cache.get(&sent) {
            let now = engine.clock.now();
            if self.identity.is_valid(credential.verified(), now)? {
                self.counters.get().inspect(|(known, _)| {
                    known.inc();
                });
                self.identity.note_use(credential.verified(), now);
                return Ok(credential);
            }
            self.cache.remove(&sent);
        }
        self.counters.get().inspect(|(_, verified)| {
            verified.inc();
        });
        // Boxed, because the way through the database is large and seldom taken.
        let verifying = Box::pin(self.identity.verify(engine, token));
        let verified = tokio::time::timeout(engine.operation_time_max, verifying).await;
        let verified = verified.unwrap_or_else(|_| Err(timed_out()))?;
        self.identity.note_use(&verified, engine.clock.now());
        let rate_limit_key = self.metering.rate_limit_key(&verified.caller);
        let credential = Credential::new(verified, rate_limit_key);
        self.cache.insert(GoodToken(token.as_bytes().into()), credential.clone());
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
