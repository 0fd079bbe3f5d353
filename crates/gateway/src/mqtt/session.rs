//! What is kept of a client that comes back.

use std::time::Duration;

use portico_engine::Engine;
use portico_events::limits::SESSION_LIFE_MAX;
use portico_events::{Session, SessionState};
use portico_kernel::{AccountId, Problem, Sleep};
use portico_store::StoreError;

use super::connect::Connect;
use crate::transport::wait;

/// How often what has moved is written down. After a crash, that much comes twice.
const KEEP_EVERY: Duration = Duration::from_secs(2);

/// The session of a client that is connected.
pub(super) struct ActiveSession {
    session: Session,
    /// How long it is kept when the client has gone; zero ends it then.
    pub(super) life: Duration,
    kept: SessionState,
    /// When to write down what has moved.
    due: Option<Sleep>,
}

impl ActiveSession {
    /// Begins the client's session, if it is to last, and returns what an earlier one left.
    pub(super) async fn begin(
        engine: &Engine,
        account: AccountId,
        actor: &str,
        connect: &Connect,
        client_id: &str,
    ) -> Result<(Option<Self>, Option<SessionState>), Problem> {
        let life = connect.session_life;
        if life.is_zero() {
            // It ends with the connection: nothing of it is ever written.
            let left = Session::take(engine, account, actor, client_id).await?;
            return Ok((None, left.filter(|_| !connect.clean)));
        }
        let first = SessionState { filters: Vec::new(), taken: 0, sent: 0 };
        let (session, left) =
            Session::begin(engine, account, actor, client_id, connect.clean, &first).await?;
        let kept = left.clone().unwrap_or(first);
        Ok((Some(Self { session, life, kept, due: None }), left))
    }

    /// Where the client stood when it was last written down.
    pub(super) fn kept(&self) -> &SessionState {
        &self.kept
    }

    /// The client has come so far; that is written down soon.
    pub(super) fn note_taken(&mut self, taken: i64) {
        if self.due.is_none() && taken != self.kept.taken {
            self.due = Some(wait(KEEP_EVERY));
        }
    }

    /// Waits until something is to be written down.
    pub(super) async fn due(&mut self) {
        match &mut self.due {
            Some(due) => due.await,
            None => std::future::pending().await,
        }
    }

    /// Writes down what the session has come to; returns false when another connection has taken it. While the client
    /// is there it does not end. What could not be written is tried again.
    pub(super) async fn keep(&mut self, engine: &Engine, state: SessionState) -> Result<bool, StoreError> {
        self.due = None;
        let kept = self.session.keep(engine, &state, SESSION_LIFE_MAX).await;
        match &kept {
            Ok(true) => self.kept = state,
            Ok(false) => {}
            Err(_) => self.due = Some(wait(KEEP_EVERY)),
        }
        kept
    }

    /// The client has gone.
    pub(super) async fn close(self, engine: &Engine, state: &SessionState) {
        let closed = if self.life.is_zero() {
            self.session.end(engine).await
        } else {
            self.session.keep(engine, state, self.life).await.map(drop)
        };
        if let Err(error) = closed {
            tracing::debug!(%error, "Failed to save the session of an MQTT client that has gone");
        }
    }
}
