//! A cache of keys that were exchanged lately, so that an exchange reads no row of its own.

use std::iter;
use std::sync::Arc;

use portico_engine::Engine;
use portico_kernel::{Problem, Timestamp};
use quick_cache::sync::Cache;

use crate::sql::{self, CredentialRow};
use crate::{Identity, limits};

/// How many are remembered.
const KEYS_MAX: usize = 100_000;

/// Keys by id. A key never changes but by its revocation, which is checked on every use.
pub(crate) struct KeyCache(Cache<String, CachedKey>);

#[derive(Clone)]
struct CachedKey {
    row: Arc<CredentialRow>,
    /// When it must be read again; well within the time that a revocation is remembered.
    until: Timestamp,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self(Cache::new(KEYS_MAX))
    }
}

impl Identity {
    /// The key or API token of that id, if it is neither revoked nor expired. Concurrent calls share one read of the
    /// revocations, which begins after the last of them came: so a revoked key is refused at once, whoever revoked it.
    pub(crate) async fn active_key(
        &self,
        engine: &Engine,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<CredentialRow>>, Problem> {
        let known = self.key_cache.0.get(id).filter(|known| now < known.until);
        let row = if let Some(known) = known {
            self.check_cached(engine, id, known.row, now).await?
        } else {
            Box::pin(self.read_key(engine, id, now)).await?
        };
        Ok(row.filter(|row| row.expires_at.is_none_or(|end| now < end)))
    }

    async fn check_cached(
        &self,
        engine: &Engine,
        id: &str,
        row: Arc<CredentialRow>,
        now: Timestamp,
    ) -> Result<Option<Arc<CredentialRow>>, Problem> {
        self.revocations.fresh(engine).await?;
        let above = iter::once_with(|| row.account_id.to_string()).chain(row.parent.clone());
        if self.revocations.any(iter::once(row.id.clone()).chain(above), now, now)? {
            self.key_cache.0.remove(id);
            return Ok(None);
        }
        Ok(Some(row))
    }

    async fn read_key(
        &self,
        engine: &Engine,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<Arc<CredentialRow>>, Problem> {
        let row = sql::active_credential(&mut engine.db.query(), id).await?;
        let Some(row) = row.map(Arc::new) else { return Ok(None) };
        let until = now + limits::LISTED_LIFE;
        self.key_cache.0.insert(id.to_owned(), CachedKey { row: row.clone(), until });
        Ok(Some(row))
    }
}
