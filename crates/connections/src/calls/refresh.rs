//! Fresh tokens: one request at a time for a connection, in this process and over all servers.
//!
//! In a process, whoever needs a fresh token joins the one flight that there is. Over servers, the row of the credential has
//! a lease; whoever does not get it looks until the version of the row has changed. A new token is written where the version
//! is still the one that was seen, before anybody uses it. A flight is a task of its own: a provider that rotates refresh
//! tokens has ended the old one by the time it answers, so nobody may walk away from the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, ready};
use portico_connectors::Mode;
use portico_engine::clock::Stopwatch;
use portico_engine::{Ctx, Engine};
use portico_kernel::{Problem, Timestamp, hex};
use portico_store::StoreError;
use serde_json::json;

use super::credential::{ACCESS_TOKEN, REFRESH_TOKEN, seal};
use super::tokens::TokenError;
use super::tracker::Tracker;
use super::{Calls, Opened};
use crate::events::ConnectionNeedsReconnect;
use crate::limits;
use crate::metrics::RefreshOutcome;
use crate::model::{ErrorClass, is_due, retry_after};
use crate::provider::Provider;
use crate::records::config_of;
use crate::sql::{self, ConnectionRow, CredentialRow, Refreshed};

/// How often a token that was refreshed is tried to be written: the one before it is worth nothing any more.
const WRITES_MAX: u32 = 20;
const WRITE_PAUSE: Duration = Duration::from_millis(250);

/// Why there is no credential that could be sent.
#[derive(Debug, Clone)]
pub(crate) enum AccessError {
    /// What is stored does not open.
    Unreadable,
    /// The provider will never give a fresh token for it.
    Dead,
    /// It was replaced or deleted meanwhile.
    Gone,
    /// There is no OAuth client to ask with.
    NoClient,
    /// The host of the provider is in no verified domain of the account.
    NotVerified(String),
    /// The provider failed, and is left alone for a while.
    Failed { class: ErrorClass, wait: Option<Duration> },
    /// The database failed.
    Store(StoreError),
}

impl From<StoreError> for AccessError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

type Landing = Result<CredentialRow, AccessError>;
type Flight = Shared<BoxFuture<'static, Landing>>;

/// A credential, and its version that is no longer good enough.
type Route = (String, i64);

/// Refreshes under way in this process, which a stop waits for.
#[derive(Clone, Default)]
pub(crate) struct Flights(Arc<Mutex<HashMap<Route, Flight>>>, Tracker);

/// A refresh that is under way, until this is dropped.
struct UnderWay(Flights, Route);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

impl Flights {
    /// Joins the refresh of that version of a credential, or begins it.
    fn join(&self, route: Route, begin: impl FnOnce() -> BoxFuture<'static, Landing>) -> Flight {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = flights.get(&route) {
            return flight.clone();
        }
        let Some(tracked) = self.1.begin() else {
            let refused: Landing = Err(AccessError::Failed { class: ErrorClass::Timeout, wait: None });
            return ready(refused).boxed().shared();
        };
        let (under_way, work) = (UnderWay(self.clone(), route.clone()), begin());
        let task = tokio::spawn(async move {
            let _under_way = (under_way, tracked);
            work.await
        });
        let landed =
            task.map(|ended| ended.unwrap_or_else(|panic| Err(AccessError::Store(StoreError::fault(panic)))));
        let flight = landed.boxed().shared();
        flights.insert(route, flight.clone());
        flight
    }

    /// Waits for the refreshes that are under way, and begins no other; returns how many did not end in time.
    pub(crate) async fn close(&self) -> usize {
        self.1.close(limits::STOP_WAIT_MAX).await
    }
}

impl Calls {
    /// The connection's credential, ready to be sent: refreshed first, if little of its life is left.
    pub(crate) async fn usable(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        row: Option<CredentialRow>,
    ) -> Result<Opened, AccessError> {
        let row = row.ok_or(AccessError::Gone)?;
        let opened = Opened::of(engine, connection, &row).ok_or(AccessError::Unreadable)?;
        let now = engine.clock.now();
        let is_due = opened.lacks_token() || is_due(row.issued_at, row.expires_at, now);
        if !is_due || !opened.can_refresh() {
            return Ok(opened);
        }
        let still_good = !opened.lacks_token() && row.expires_at.is_some_and(|end| end > now);
        let landing = match row.retry_at.filter(|at| *at > now) {
            Some(at) => {
                Err(AccessError::Failed { class: ErrorClass::Provider5xx, wait: Some(at.since(now)) })
            }
            None => self.fly(engine, connection, &row.id, row.version).await,
        };
        match landing {
            Ok(fresh) => Opened::of(engine, connection, &fresh).ok_or(AccessError::Unreadable),
            Err(AccessError::Failed { .. } | AccessError::NoClient) if still_good => Ok(opened),
            Err(error) => Err(error),
        }
    }

    /// Refreshes a token, whether or not its life is nearly over.
    pub(crate) async fn refresh_idle(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        row: Option<CredentialRow>,
    ) -> Result<(), AccessError> {
        let row = row.ok_or(AccessError::Gone)?;
        let opened = Opened::of(engine, connection, &row).ok_or(AccessError::Unreadable)?;
        if opened.can_refresh() {
            self.fly(engine, connection, &row.id, row.version).await?;
        }
        Ok(())
    }

    /// Another credential than the one that the provider has just refused.
    pub(crate) async fn renewed(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        refused: &Opened,
    ) -> Result<Opened, AccessError> {
        let fresh = self.fly(engine, connection, &refused.id, refused.version).await?;
        Opened::of(engine, connection, &fresh).ok_or(AccessError::Unreadable)
    }

    /// Waits for a version of the credential after `seen`.
    async fn fly(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        id: &str,
        seen: i64,
    ) -> Landing {
        let flight = self.flights.join((id.to_owned(), seen), || {
            let (calls, engine) = (self.clone(), engine.clone());
            let (connection, id) = (connection.clone(), id.to_owned());
            async move { calls.refresh(&engine, &connection, &id, seen).await }.boxed()
        });
        flight.await
    }

    async fn refresh(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        id: &str,
        seen: i64,
    ) -> Landing {
        let watch = Stopwatch::start();
        let mut looks = tokio::time::interval(limits::REFRESH_POLL);
        loop {
            looks.tick().await;
            let row = sql::credential(&mut engine.db.query(), id).await?.ok_or(AccessError::Gone)?;
            if row.version != seen {
                return Ok(row);
            }
            let now = engine.clock.now();
            if let Some(at) = row.retry_at.filter(|at| *at > now) {
                let wait = Some(at.since(now));
                return Err(AccessError::Failed { class: ErrorClass::Provider5xx, wait });
            }
            let claim = hex(&engine.entropy.bytes::<16>());
            if self.claim(engine, &row, &claim, now).await? {
                return self.refresh_claimed(engine, connection, row, &claim).await;
            }
            if watch.elapsed() > limits::REFRESH_WAIT_MAX {
                return Err(AccessError::Failed { class: ErrorClass::Timeout, wait: None });
            }
        }
    }

    async fn claim(
        &self,
        engine: &Engine,
        row: &CredentialRow,
        claim: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut tx = engine.db.write().await?;
        let until = now + limits::REFRESH_LEASE;
        let claimed = sql::claim_refresh(&mut tx, &row.id, row.version, claim, now, until).await?;
        tx.commit().await?;
        if claimed.as_ref().is_some_and(|claimed| claimed.interrupted.is_some()) {
            self.metrics.refreshed(RefreshOutcome::Interrupted);
        }
        Ok(claimed.is_some())
    }

    async fn refresh_claimed(
        &self,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        row: CredentialRow,
        claim: &str,
    ) -> Landing {
        let Some(mut opened) = Opened::of(engine, connection, &row) else {
            let mut tx = engine.db.write().await?;
            sql::fail_refresh(&mut tx, &row.id, claim, row.failures, row.retry_at).await?;
            tx.commit().await?;
            return Err(AccessError::Unreadable);
        };
        let tokens = match self.fresh_tokens(engine, connection, &opened).await {
            Ok(tokens) => tokens,
            Err(error) => return self.fail(engine, &row, claim, error).await,
        };
        opened.values.insert(ACCESS_TOKEN, tokens.access_token.expose().as_str());
        if let Some(refresh) = &tokens.refresh_token {
            opened.values.insert(REFRESH_TOKEN, refresh.expose().as_str());
        }
        let sealed = seal(engine, connection.account_id, connection.id, &row.id, &opened.values);
        let issued_at = engine.clock.now();
        let new = Refreshed { sealed: &sealed, issued_at, expires_at: tokens.expires_at };
        self.write(engine, &row, &new).await?;
        if let Some(fresh) = sql::credential(&mut engine.db.query(), &row.id).await? {
            return Ok(fresh);
        }
        // Nobody has use for what has just come.
        if opened.mode == Some(Mode::OAuth2)
            && let Some(Provider::Connector(manifest)) = Provider::of(&connection.kind)
        {
            let config = config_of(&connection.config);
            self.revoke(engine, connection.account_id, manifest, &config, &opened.values).await;
        }
        Err(AccessError::Gone)
    }

    /// Writes the new token, and does not give up soon: the old one may be worth nothing any more.
    async fn write(
        &self,
        engine: &Engine,
        row: &CredentialRow,
        new: &Refreshed<'_>,
    ) -> Result<(), AccessError> {
        let mut pauses = tokio::time::interval(WRITE_PAUSE);
        let mut tries = 0;
        let written = loop {
            pauses.tick().await;
            match write_once(engine, row, new).await {
                Err(error) if tries < WRITES_MAX => {
                    tries += 1;
                    tracing::warn!(%error, credential = row.id, "Failed to write a token that was refreshed");
                }
                ended => break ended,
            }
        };
        let is_ours = written.inspect_err(|error| {
            tracing::error!(%error, credential = row.id, "A token that was refreshed is lost");
        })?;
        self.metrics.refreshed(if is_ours { RefreshOutcome::Refreshed } else { RefreshOutcome::Failed });
        Ok(())
    }

    /// Ends a claim whose refresh failed.
    async fn fail(&self, engine: &Engine, row: &CredentialRow, claim: &str, error: TokenError) -> Landing {
        let now = engine.clock.now();
        let outcome = match error {
            TokenError::Dead => RefreshOutcome::Dead,
            TokenError::Unanswered(_) => RefreshOutcome::Unknown,
            _ => RefreshOutcome::Failed,
        };
        let (failures, retry_at, error) = match error {
            TokenError::Dead => (row.failures, None, AccessError::Dead),
            TokenError::NoClient => (row.failures, row.retry_at, AccessError::NoClient),
            TokenError::NotVerified(host) => (row.failures, row.retry_at, AccessError::NotVerified(host)),
            TokenError::Store(error) => (row.failures, row.retry_at, AccessError::Store(error)),
            TokenError::Refused
            | TokenError::Failed { .. }
            | TokenError::Unanswered(_)
            | TokenError::BadCredential => {
                let (class, told) = match error {
                    TokenError::Failed { class, retry_after } => (class, retry_after),
                    TokenError::Unanswered(class) => (class, None),
                    _ => (ErrorClass::Provider4xx, None),
                };
                let failures = row.failures.saturating_add(1);
                let told = told.map_or(Duration::ZERO, |told| Duration::from_secs(told.into()));
                let wait = retry_after(failures).max(told);
                (failures, Some(now + wait), AccessError::Failed { class, wait: Some(wait) })
            }
        };
        self.metrics.refreshed(outcome);
        let mut tx = engine.db.write().await?;
        sql::fail_refresh(&mut tx, &row.id, claim, failures, retry_at).await?;
        tx.commit().await?;
        // Somebody whose lease had run out may have had more luck.
        let current = sql::credential(&mut engine.db.query(), &row.id).await?.ok_or(AccessError::Gone)?;
        if current.version == row.version { Err(error) } else { Ok(current) }
    }

    /// Marks the connection where the error says that its credential is of no use any more.
    pub(crate) async fn lose_with(
        &self,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        credential: Option<&CredentialRow>,
        error: &AccessError,
    ) {
        if matches!(error, AccessError::Unreadable | AccessError::Dead)
            && let Some(row) = credential
        {
            self.lose(engine, connection, &row.id, row.version).await;
        }
    }

    /// From now on nothing is sent with this credential, if it is still the connection's. Should this fail, the next call
    /// finds out by itself.
    pub(crate) async fn lose(
        &self,
        engine: &Arc<Engine>,
        connection: &ConnectionRow,
        id: &str,
        version: i64,
    ) {
        if let Err(problem) = lose(engine, connection, id, version).await {
            tracing::warn!(connection = %connection.id, %problem, cause = ?problem.cause(), "Failed to mark a connection");
        }
    }
}

async fn write_once(engine: &Engine, row: &CredentialRow, new: &Refreshed<'_>) -> Result<bool, StoreError> {
    let mut tx = engine.db.write().await?;
    let is_ours = sql::write_refreshed(&mut tx, &row.id, row.version, new).await?;
    tx.commit().await?;
    Ok(is_ours)
}

async fn lose(
    engine: &Arc<Engine>,
    connection: &ConnectionRow,
    id: &str,
    version: i64,
) -> Result<(), Problem> {
    let mut ctx = Ctx::platform(engine);
    ctx.set_account(connection.account_id);
    let now = ctx.now();
    let tx = ctx.tx().await?;
    if sql::lose_credential(tx, connection.id, id, version, now).await? {
        sql::note_change(tx, connection.account_id, now).await?;
        ctx.audit_with("connection.needs_reconnect", &connection.id, json!({}))?;
        let actor = ctx.caller().subject.clone();
        ctx.emit(&ConnectionNeedsReconnect { connection_id: connection.id.to_string(), actor })?;
    }
    ctx.finish().await
}
