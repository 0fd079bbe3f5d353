//! Tokens into callers, without a database when warm.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use portico_engine::{Engine, timed_out};
use portico_identity::Identity;
use portico_identity::verify::{Verified, refused};
use portico_kernel::{Caller, Problem};
use portico_metering::{Metering, Subject};
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
    verified: Verified,
    subject: Option<Arc<Subject>>,
}

/// Who calls, and their minute; the platform itself has none.
pub(crate) struct Bearer {
    pub(crate) caller: Arc<Caller>,
    pub(crate) subject: Option<Arc<Subject>>,
}

impl From<&Known> for Bearer {
    fn from(known: &Known) -> Self {
        Self { caller: known.verified.caller.clone(), subject: known.subject.clone() }
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
    let token = token.trim();
    let fits = scheme.eq_ignore_ascii_case("bearer") && token.len() <= TOKEN_BYTES_MAX;
    if fits { Ok(Some(token)) } else { Err(refused()) }
}

impl Tokens {
    pub(crate) fn new(identity: Arc<Identity>, metering: Arc<Metering>) -> Self {
        Self { identity, metering, known: Cache::new(TOKENS_MAX) }
    }

    /// Who calls; 401 when nobody can be told.
    pub(crate) async fn caller(
        &self,
        engine: &Engine,
        metrics: &Metrics,
        headers: &HeaderMap,
    ) -> Result<Bearer, Problem> {
        let token = bearer(headers)?.ok_or_else(refused)?;
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.known.get(&key) {
            let now = engine.clock.now();
            if self.identity.still_good(&known.verified, now)? {
                metrics.token_known(true);
                self.identity.note_use(&known.verified, now);
                return Ok(known.as_ref().into());
            }
            self.known.remove(&key);
        }
        metrics.token_known(false);
        // Boxed, because the way through the database is large and seldom taken.
        let verifying = Box::pin(self.identity.verify(engine, token));
        let verified = tokio::time::timeout(engine.operation_time_max, verifying).await;
        let verified = verified.unwrap_or_else(|_| Err(timed_out()))?;
        self.identity.note_use(&verified, engine.clock.now());
        let known = Arc::new(Known { subject: self.metering.subject(&verified.caller), verified });
        self.known.insert(key, known.clone());
        Ok(known.as_ref().into())
    }
}
