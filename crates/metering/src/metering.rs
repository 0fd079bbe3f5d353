//! What the area holds, and how a server begins and ends with it.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use portico_engine::Engine;
use portico_engine::ports::Directory;
use portico_kernel::{AccountId, Caller, Code, Entropy, Month, Problem, RequestId, Timestamp, seconds};

use crate::account::AccountMeter;
use crate::flush::{Counted, skip};
use crate::journal::{Journal, Left, Names, SubjectId};
use crate::lease::{UNITS, units_of};
use crate::metrics::Metrics;
use crate::rate_limit_key::RateLimitKey;
use crate::{limits, sql};

/// What the area holds. It counts nothing before [`Metering::start`].
pub struct Metering {
    folder: PathBuf,
    pub(crate) directory: Arc<dyn Directory>,
    /// May other servers use the same database?
    pub(crate) shared: bool,
    journal: OnceLock<Journal>,
    operations: OnceLock<HashMap<&'static str, u16>>,
    pub(crate) counted: tokio::sync::Mutex<Counted>,
    pub(crate) accounts: DashMap<(AccountId, Month), Arc<AccountMeter>>,
    pub(crate) subjects: DashMap<SubjectId, Arc<RateLimitKey>>,
    /// What the area counts of itself.
    pub metrics: Arc<Metrics>,
}

impl Metering {
    /// The area's state; the journal will be in `folder`. `shared` says that other servers may use the same database.
    pub fn new(folder: impl Into<PathBuf>, shared: bool, directory: Arc<dyn Directory>) -> Self {
        Self {
            folder: folder.into(),
            directory,
            shared,
            journal: OnceLock::new(),
            operations: OnceLock::new(),
            counted: tokio::sync::Mutex::default(),
            accounts: DashMap::new(),
            subjects: DashMap::new(),
            metrics: Arc::default(),
        }
    }

    /// Counts what servers before this one left uncounted, and begins a journal.
    pub async fn start(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.write().await?;
        let database = sql::database_name(&mut tx, &new_name(engine.entropy.as_ref(), now)).await?;
        tx.commit().await?;
        for left in Left::find(&self.folder).map_err(unreadable)? {
            self.take_over(engine, left, &database).await?;
        }
        if !self.shared {
            // Whoever served from this database before is dead, also where its journal is gone.
            for gone in sql::journals(&mut engine.db.query()).await? {
                tracing::warn!(
                    journal = gone,
                    "A journal is gone; what a server before had not counted is lost"
                );
                close(engine, &gone).await?;
            }
            self.restore_minutes(engine, now).await?;
        }
        let names = Names {
            operations: engine.registry.entries().iter().map(|entry| entry.spec.name.to_owned()).collect(),
            codes: Code::ALL.iter().map(|code| code.name().to_owned()).collect(),
            database,
        };
        let operations = (0..).zip(engine.registry.entries()).map(|(at, entry)| (entry.spec.name, at));
        let id = new_name(engine.entropy.as_ref(), now);
        let journal =
            Journal::create(&self.folder, id.clone(), names, limits::SEGMENTS_MAX).map_err(unreadable)?;
        let mut tx = engine.db.write().await?;
        sql::insert_journal(&mut tx, &id, now).await?;
        tx.commit().await?;
        if self.operations.set(operations.collect()).is_err() || self.journal.set(journal).is_err() {
            return Err(Problem::internal("metering was started twice"));
        }
        Ok(())
    }

    /// Counts what a dead server left, unless it served from another database.
    async fn take_over(&self, engine: &Arc<Engine>, left: Left, database: &str) -> Result<(), Problem> {
        if left.names.database != database {
            tracing::warn!(
                journal = left.id(),
                "A journal in this folder is of another database; it is left alone"
            );
            return Ok(());
        }
        let position = sql::journal_position(&mut engine.db.query(), left.id()).await?;
        // Without a row it was counted to its end and closed; only its files are left.
        if let Some(position) = position {
            let (mut at, mut calls) = (position, 0);
            loop {
                let there = left.skip_missing(at).map_err(unreadable)?;
                if there > at {
                    tracing::error!(lost = there - at, "The database has lost calls that it had counted");
                    at = skip(engine, left.id(), at, there).await?;
                }
                let Some(places) = left.read(at).map_err(unreadable)? else { break };
                calls += places.iter().flatten().count();
                let counted = self.count(engine, left.id(), &left.names, at, &places).await;
                let position = sql::journal_position(&mut engine.db.query(), left.id()).await?;
                let position = position.unwrap_or(at);
                // The last commit of the dead server may have come to be while this one looked: then it is ahead.
                if position == at {
                    counted?;
                }
                at = position;
            }
            self.settle_minutes_of_dead(engine, left.id()).await?;
            close(engine, left.id()).await?;
            tracing::info!(calls, "Counted the calls that a server before left in its journal");
        }
        left.remove().map_err(unreadable)
    }

    /// Counts what is left and lets go of everything that was leased; after the last call. Calls whose callers have gone
    /// are waited for a moment.
    pub async fn stop(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let Some(journal) = self.journal.get() else { return Ok(()) };
        let began = engine.clock.now();
        while self.metrics.open() > 0 && engine.clock.now().since(began) < limits::STOP_TIME_MAX {
            engine.clock.sleep(limits::STOP_PAUSE).await;
        }
        self.flush(engine).await?;
        if self.metrics.open() > 0 {
            // They go on; the next start counts them.
            return Ok(());
        }
        let now = engine.clock.now();
        let used = |subject: SubjectId| self.subjects.get(&subject)?.minute().window.latest(now);
        self.settle_minutes(engine, journal.id(), used).await?;
        close(engine, journal.id()).await?;
        journal.remove().map_err(unreadable)
    }

    pub(crate) fn journal(&self) -> Result<&Journal, Problem> {
        self.journal.get().ok_or_else(|| Problem::internal("metering was not started"))
    }

    /// The name under which this server holds leases.
    pub(crate) fn holder(&self) -> Result<&str, Problem> {
        self.journal().map(Journal::id)
    }

    pub(crate) fn operation(&self, name: &str) -> Option<u16> {
        self.operations.get()?.get(name).copied()
    }

    /// The minute of a caller, to be kept beside what is known of them; nothing for the platform itself.
    pub fn subject(&self, caller: &Caller) -> Option<Arc<RateLimitKey>> {
        let id = SubjectId::parse(&caller.subject)?;
        Some(self.subjects.entry(id).or_insert_with(|| Arc::new(RateLimitKey::new(id))).clone())
    }

    pub(crate) fn find_subject(&self, id: &str) -> Option<Arc<RateLimitKey>> {
        self.subjects.get(&SubjectId::parse(id)?).map(|subject| subject.clone())
    }

    pub(crate) fn account(&self, id: AccountId, month: Month) -> Arc<AccountMeter> {
        let at = (id, month);
        if let Some(known) = self.accounts.get(&at) {
            return known.clone();
        }
        self.accounts.entry(at).or_insert_with(|| Arc::new(AccountMeter::new(id, month))).clone()
    }

    pub(crate) fn find_account(&self, id: &str, resource: &str) -> Option<Arc<AccountMeter>> {
        let id: AccountId = id.parse().ok()?;
        let month: Month = resource.strip_prefix(UNITS)?.parse().ok()?;
        self.accounts.get(&(id, month)).map(|account| account.clone())
    }

    /// Forgets accounts and minutes that are idle, and gives their leases back. What an account spent must be counted
    /// before: until then its lease stands for it.
    pub(crate) async fn tidy(&self, engine: &Arc<Engine>, now: Timestamp) -> Result<(), Problem> {
        let counted = self.counted.lock().await.position;
        let is_idle = |meter: &AccountMeter| {
            now.since(meter.last_call()) >= limits::IDLE_LIFE && meter.is_counted(counted)
        };
        let idle: Vec<_> =
            self.accounts.iter().filter(|entry| is_idle(entry.value())).map(|entry| *entry.key()).collect();
        for at in idle {
            let Some(meter) = self.accounts.get(&at).map(|meter| meter.clone()) else { continue };
            // Held, so that a call that comes now asks anew, and after it: what is leased then stands.
            let Ok(turn) = meter.asking.try_lock() else { continue };
            meter.forget();
            // The map and this hand alone: no call has it, and with everything counted it should hold its room alone.
            if Arc::strong_count(&meter) > 2 || !is_idle(&meter) {
                continue;
            }
            meter.take_all();
            let lease = self.lease_at(at.0.to_string(), units_of(at.1))?;
            let mut tx = engine.db.write().await?;
            sql::set_lease(&mut tx, &lease, 0, now).await?;
            tx.commit().await?;
            meter.set_unsettled(None);
            drop(turn);
            drop(meter);
            self.accounts.remove_if(&at, |_, meter| Arc::strong_count(meter) == 1 && is_idle(meter));
        }
        for entry in &self.subjects {
            entry.value().minute().window.rest(now);
        }
        self.subjects
            .retain(|_, subject| Arc::strong_count(subject) > 1 || subject.minute().window.used(now) > 0);
        Ok(())
    }
}

/// A name that nothing else has.
pub(crate) fn new_name(entropy: &dyn Entropy, now: Timestamp) -> String {
    let id: RequestId = entropy.id(now);
    // An id of the usual kind without its prefix, which would say that it is a request's.
    id.to_string().split_off(4)
}

async fn close(engine: &Engine, journal: &str) -> Result<(), Problem> {
    let mut tx = engine.db.write().await?;
    sql::close_journal(&mut tx, journal, UNITS).await?;
    Ok(tx.commit().await?)
}

/// The journal's files cannot be used.
pub(crate) fn unreadable(error: io::Error) -> Problem {
    Problem::unavailable("Calls cannot be counted right now.", seconds(1)).because(error)
}
