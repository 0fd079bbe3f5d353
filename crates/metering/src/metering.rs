//! The state of the area, and what it does when a server starts and stops.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use foldhash::fast::{FixedState, RandomState};
use portico_engine::ports::{ConfiguredServices, Directory};
use portico_engine::{Catalog, Engine};
use portico_kernel::{AccountId, Caller, Code, Entropy, Month, Problem, RequestId, Timestamp, seconds};

use crate::account::AccountMeter;
use crate::flush::{JournalPosition, skip_lost};
use crate::journal::{Journal, NameTable, OrphanedJournal, SubjectId};
use crate::lease::{UNITS_PREFIX, units_resource};
use crate::log_bound::LoggedToday;
use crate::metrics::Metrics;
use crate::rate_limit_key::RateLimitKey;
use crate::refusals::RefusalCounts;
use crate::{limits, sql};

/// The state of the area. It counts nothing before [`Metering::start`].
pub struct Metering {
    folder: PathBuf,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) services: Arc<dyn ConfiguredServices>,
    /// May other servers use the same database?
    pub(crate) shared: bool,
    journal: OnceLock<Journal>,
    operations: OnceLock<HashMap<&'static str, u16, FixedState>>,
    pub(crate) position: tokio::sync::Mutex<JournalPosition>,
    pub(crate) accounts: DashMap<(AccountId, Month), Arc<AccountMeter>, RandomState>,
    pub(crate) rate_limit_keys: DashMap<SubjectId, Arc<RateLimitKey>, RandomState>,
    pub(crate) refusals: RefusalCounts,
    pub(crate) logged: LoggedToday,
    /// The counters for the metrics listener.
    pub metrics: Arc<Metrics>,
}

/// What the area asks of others.
pub struct MeteringPorts {
    /// Knows keys and API tokens.
    pub directory: Arc<dyn Directory>,
    /// Knows what services may do.
    pub services: Arc<dyn ConfiguredServices>,
}

impl Metering {
    /// The area's state; the journal will be in `folder`. `shared` says that other servers may use the same database.
    pub fn new(folder: impl Into<PathBuf>, shared: bool, ports: MeteringPorts) -> Self {
        let MeteringPorts { directory, services } = ports;
        Self {
            folder: folder.into(),
            directory,
            services,
            shared,
            journal: OnceLock::new(),
            operations: OnceLock::new(),
            position: tokio::sync::Mutex::default(),
            accounts: DashMap::default(),
            rate_limit_keys: DashMap::default(),
            refusals: RefusalCounts::default(),
            logged: LoggedToday::default(),
            metrics: Arc::default(),
        }
    }

    /// Counts what dead servers left in their journals, and begins a journal of its own.
    pub async fn start(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.write().await?;
        let database = sql::database_name(&mut tx, &new_name(engine.entropy.as_ref(), now)).await?;
        tx.commit().await?;
        for orphan in OrphanedJournal::find_all(&self.folder).map_err(journal_failure)? {
            self.take_over(engine, orphan, &database).await?;
        }
        if !self.shared {
            // Every server that used this database before is dead, also where its journal is missing.
            for missing in sql::journals(&mut engine.db.query()).await? {
                tracing::warn!(
                    journal = missing,
                    "Journal of a previous server is missing; its uncounted calls are lost"
                );
                close(engine, &missing).await?;
            }
            self.restore_windows(engine, now).await?;
        }
        let names = NameTable {
            operations: engine
                .registry
                .catalog()
                .entries()
                .iter()
                .map(|entry| entry.spec.name.to_owned())
                .collect(),
            codes: Code::ALL.iter().map(|code| code.name().to_owned()).collect(),
            database,
            ..NameTable::default()
        };
        let catalog = engine.registry.catalog();
        let operations = (0..).zip(catalog.entries()).map(|(at, entry)| (entry.spec.name, at));
        let id = new_name(engine.entropy.as_ref(), now);
        let journal = Journal::create(&self.folder, id.clone(), names, limits::SEGMENTS_MAX)
            .map_err(journal_failure)?;
        let mut tx = engine.db.write().await?;
        sql::insert_journal(&mut tx, &id, now).await?;
        tx.commit().await?;
        if self.operations.set(operations.collect()).is_err() || self.journal.set(journal).is_err() {
            return Err(Problem::internal("metering was started twice"));
        }
        Ok(())
    }

    /// Counts the journal of a dead server, unless it belongs to another database.
    async fn take_over(
        &self,
        engine: &Arc<Engine>,
        orphan: OrphanedJournal,
        database: &str,
    ) -> Result<(), Problem> {
        if orphan.names.database != database {
            tracing::warn!(journal = orphan.id(), "Skipped a journal that belongs to another database");
            return Ok(());
        }
        let position = sql::journal_position(&mut engine.db.query(), orphan.id()).await?;
        // Without a row it was counted to its end and closed; only its files are left.
        if let Some(position) = position {
            let (mut at, mut calls) = (position, 0);
            loop {
                let next = orphan.skip_missing(at).map_err(journal_failure)?;
                if next > at {
                    tracing::error!(lost = next - at, "Database lost calls that it had counted");
                    at = skip_lost(engine, orphan.id(), at, next).await?;
                }
                let Some(slots) = orphan.read(at).map_err(journal_failure)? else { break };
                calls += slots.iter().flatten().count();
                let counted = self.count(engine, orphan.id(), &orphan.names, at, &slots).await;
                let position = sql::journal_position(&mut engine.db.query(), orphan.id()).await?;
                let position = position.unwrap_or(at);
                // The last commit of the dead server may have become visible in between: then the position is ahead.
                if position == at {
                    counted?;
                }
                at = position;
            }
            self.settle_shares_of_dead(engine, orphan.id()).await?;
            close(engine, orphan.id()).await?;
            tracing::info!(calls, "Counted the calls in the journal of a dead server");
        }
        orphan.remove().map_err(journal_failure)
    }

    /// Counts the rest of the journal and releases all leases, after the last call. Waits a moment for calls whose
    /// clients have disconnected.
    pub async fn stop(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let Some(journal) = self.journal.get() else { return Ok(()) };
        let began = engine.clock.now();
        while self.metrics.open() > 0 && engine.clock.now().since(began) < limits::STOP_TIME_MAX {
            engine.clock.sleep(limits::STOP_PAUSE).await;
        }
        self.flush(engine).await?;
        if self.metrics.open() > 0 {
            // They still run; the next start counts them.
            return Ok(());
        }
        let now = engine.clock.now();
        let used = |subject: SubjectId| self.rate_limit_keys.get(&subject)?.limiter().window.latest(now);
        self.settle_shares(engine, journal.id(), used).await?;
        close(engine, journal.id()).await?;
        journal.remove().map_err(journal_failure)
    }

    pub(crate) fn journal(&self) -> Result<&Journal, Problem> {
        self.journal.get().ok_or_else(|| Problem::internal("metering was not started"))
    }

    /// Can the journal take calls for as long as they come? Before it has begun, nobody asks.
    pub(crate) fn can_record(&self) -> bool {
        self.journal.get().is_none_or(|journal| !journal.is_broken())
    }

    /// The name under which this server holds leases.
    pub(crate) fn holder(&self) -> Result<&str, Problem> {
        self.journal().map(Journal::id)
    }

    pub(crate) fn operation(&self, name: &str) -> Option<u16> {
        let known = self.operations.get()?.get(name).copied();
        // Those of services that were read since have a number among the names that were added.
        known.or_else(|| self.number_of(service_of(name), name).ok())
    }

    /// The number of a call that the service serves under that name.
    pub(crate) fn number_of(&self, service: &str, name: &str) -> Result<u16, Problem> {
        let number = self.journal()?.number_of(service, name).map_err(journal_failure)?;
        let words = || format!("is one of more than {} names", limits::NAMES_OF_SERVICE_MAX);
        number.ok_or_else(|| Problem::field("name", words()))
    }

    /// From now on calls of these operations are counted too.
    pub fn add_operations(&self, catalog: &Catalog) -> Result<(), Problem> {
        let Some(known) = self.operations.get() else { return Ok(()) };
        let names = catalog.entries().iter().map(|entry| entry.spec.name);
        let mut new = names.filter(|name| !known.contains_key(name));
        new.try_for_each(|name| self.number_of(service_of(name), name).map(drop))
    }

    /// The name of the account's plan, as this server knows it; empty before the account's first call.
    pub fn plan(&self, account: AccountId, month: Month) -> Arc<str> {
        self.accounts.get(&(account, month)).map_or_else(|| "".into(), |meter| meter.plan())
    }

    /// The rate limit of a caller, which the gateway caches with their token; `None` for the platform itself.
    pub fn rate_limit_key(&self, caller: &Caller) -> Option<Arc<RateLimitKey>> {
        // All credentials of a service share one limit.
        let id = match caller.service() {
            Some(service) => SubjectId::of_service(service),
            None => SubjectId::parse(&caller.subject)?,
        };
        Some(self.rate_limit_keys.entry(id).or_insert_with(|| Arc::new(RateLimitKey::new(id))).clone())
    }

    pub(crate) fn find_rate_limit_key(&self, id: &str) -> Option<Arc<RateLimitKey>> {
        self.rate_limit_keys.get(&SubjectId::parse(id)?).map(|key| key.clone())
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
        let month: Month = resource.strip_prefix(UNITS_PREFIX)?.parse().ok()?;
        self.accounts.get(&(id, month)).map(|account| account.clone())
    }

    /// Evicts idle accounts and rate limits, and releases the leases of those accounts. An account stays until what it
    /// spent is counted: until then its lease covers that.
    pub(crate) async fn evict_idle(&self, engine: &Arc<Engine>, now: Timestamp) -> Result<(), Problem> {
        self.logged.forget_old(now);
        let counted = self.position.lock().await.number;
        let is_idle = |meter: &AccountMeter| {
            now.since(meter.last_call()) >= limits::IDLE_LIFE && meter.is_counted(counted)
        };
        let idle: Vec<_> =
            self.accounts.iter().filter(|entry| is_idle(entry.value())).map(|entry| *entry.key()).collect();
        for at in idle {
            let Some(meter) = self.accounts.get(&at).map(|meter| meter.clone()) else { continue };
            // Locked, so that a call that comes now leases again after this.
            let Ok(guard) = meter.lease_lock.try_lock() else { continue };
            meter.forget_plan();
            // Two references, the map's and this one: no call uses it.
            if Arc::strong_count(&meter) > 2 || !is_idle(&meter) {
                continue;
            }
            meter.take_all();
            let lease = self.lease_at(at.0.to_string(), units_resource(at.1))?;
            let mut tx = engine.db.write().await?;
            sql::set_lease(&mut tx, &lease, 0, now).await?;
            tx.commit().await?;
            meter.set_pending_change(None);
            drop(guard);
            drop(meter);
            self.accounts.remove_if(&at, |_, meter| Arc::strong_count(meter) == 1 && is_idle(meter));
        }
        for entry in &self.rate_limit_keys {
            entry.value().limiter().window.free_memory(now);
        }
        self.rate_limit_keys
            .retain(|_, key| Arc::strong_count(key) > 1 || key.limiter().window.used(now) > 0);
        Ok(())
    }
}

/// A unique name.
pub(crate) fn new_name(entropy: &dyn Entropy, now: Timestamp) -> String {
    let id: RequestId = entropy.id(now);
    // An id of the usual kind without its prefix, which would say that it is a request's.
    id.to_string().split_off(4)
}

async fn close(engine: &Engine, journal: &str) -> Result<(), Problem> {
    let mut tx = engine.db.write().await?;
    sql::close_journal(&mut tx, journal, UNITS_PREFIX).await?;
    Ok(tx.commit().await?)
}

/// 503: the journal's files cannot be written or read.
pub(crate) fn journal_failure(error: io::Error) -> Problem {
    not_countable().because(error)
}

/// 503: the call could not be counted.
pub(crate) fn not_countable() -> Problem {
    Problem::unavailable("Calls cannot be counted right now.", seconds(1))
}

/// The service that an operation of that name belongs to.
fn service_of(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}
