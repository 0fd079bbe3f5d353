//! MQTT sessions: the state of a client that may come back. Its messages are in the log; a session is a position in it.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Engine, Job, JobOutcome};
use portico_kernel::{AccountId, Code, Problem, RequestId};
use portico_store::StoreError;

use crate::limits::{SESSION_LIFE_MAX, SESSIONS_PER_ACCOUNT};
use crate::sql::{self, SessionKey, SessionRow};

/// A session of an MQTT client. Another connection of the same client takes it over.
#[derive(Debug, Clone)]
pub struct Session {
    key: SessionKey,
    holder: String,
}

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionState {
    /// The filters that the client subscribed, and with which quality of service.
    pub filters: Vec<(String, u8)>,
    /// The number of the last event that the client has acknowledged, with all before it.
    pub taken: i64,
    /// The number of the last event that was sent to it.
    pub sent: i64,
}

impl SessionState {
    fn from_row(row: &SessionRow) -> Option<Self> {
        let filters = serde_json::from_str(&row.filters).ok()?;
        Some(Self { filters, taken: row.taken, sent: row.sent })
    }

    fn row(&self) -> SessionRow {
        let filters = serde_json::to_string(&self.filters).unwrap_or_default();
        SessionRow { filters, taken: self.taken, sent: self.sent }
    }
}

impl Session {
    /// Begins a session of the client, which is known by who acts (`Caller::actor`) and the client id that it chose. Returns
    /// the state of an earlier session, unless the client wants a clean one. A connection that held that session loses it.
    pub async fn begin(
        engine: &Engine,
        account: AccountId,
        actor: &str,
        client_id: &str,
        clean: bool,
        first: &SessionState,
    ) -> Result<(Self, Option<SessionState>), Problem> {
        let now = engine.clock.now();
        let key = SessionKey { account, actor: actor.to_owned(), client_id: client_id.to_owned() };
        let holder: RequestId = engine.entropy.id(now);
        let session = Self { key, holder: holder.to_string() };
        let mut tx = engine.db.write().await?;
        let earlier = sql::session(&mut tx, &session.key, now).await?;
        if earlier.is_none() && sql::count_sessions(&mut tx, account, now).await? >= SESSIONS_PER_ACCOUNT {
            let message =
                format!("The account already has {SESSIONS_PER_ACCOUNT} MQTT sessions, the maximum.");
            return Err(Problem::new(Code::RateLimited, message));
        }
        let earlier = earlier.filter(|_| !clean).and_then(|row| SessionState::from_row(&row));
        let state = earlier.as_ref().unwrap_or(first).row();
        sql::begin_session(&mut tx, &session.key, &session.holder, &state, now + SESSION_LIFE_MAX).await?;
        tx.commit().await?;
        Ok((session, earlier))
    }

    /// Stores the state for `life` from now; returns false when another connection has taken the session over.
    pub async fn keep(
        &self,
        engine: &Engine,
        state: &SessionState,
        life: Duration,
    ) -> Result<bool, StoreError> {
        let expires_at = engine.clock.now() + life.min(SESSION_LIFE_MAX);
        let mut tx = engine.db.write().await?;
        let ours = sql::keep_session(&mut tx, &self.key, &self.holder, &state.row(), expires_at).await?;
        tx.commit().await?;
        Ok(ours)
    }

    /// Ends the session, unless another connection has taken it over.
    pub async fn end(&self, engine: &Engine) -> Result<(), StoreError> {
        let mut tx = engine.db.write().await?;
        sql::end_session(&mut tx, &self.key, Some(&self.holder)).await?;
        tx.commit().await
    }

    /// Removes any earlier session of that client, and returns its state. A connection that held it loses it.
    pub async fn take(
        engine: &Engine,
        account: AccountId,
        actor: &str,
        client_id: &str,
    ) -> Result<Option<SessionState>, StoreError> {
        let key = SessionKey { account, actor: actor.to_owned(), client_id: client_id.to_owned() };
        let now = engine.clock.now();
        // Mostly there is none, and nothing is to be written.
        if sql::session(&mut engine.db.query(), &key, now).await?.is_none() {
            return Ok(None);
        }
        let mut tx = engine.db.write().await?;
        let row = sql::session(&mut tx, &key, now).await?;
        sql::end_session(&mut tx, &key, None).await?;
        tx.commit().await?;
        Ok(row.as_ref().and_then(SessionState::from_row))
    }
}

/// Removes expired sessions.
pub(crate) struct PruneSessions;

impl PruneSessions {
    const BATCH_MAX: i64 = 500;
}

impl Job for PruneSessions {
    const NAME: &'static str = "events.prune_sessions";
    const EVERY: Duration = Duration::from_mins(5);

    async fn run_once(&self, engine: &Arc<Engine>) -> Result<JobOutcome, Problem> {
        let mut tx = engine.db.write().await?;
        let removed = sql::prune_sessions(&mut tx, engine.clock.now(), Self::BATCH_MAX).await?;
        tx.commit().await?;
        Ok(if removed == Self::BATCH_MAX.unsigned_abs() { JobOutcome::MoreWork } else { JobOutcome::Idle })
    }
}
