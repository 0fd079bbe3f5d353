//! What the area holds, and how a server begins and ends with it.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use portico_engine::Engine;
use portico_engine::ports::Directory;
use portico_kernel::{AccountId, Caller, Code, Month, Problem, RequestId, Timestamp, seconds};

use crate::account::AccountMeter;
use crate::block::{Logged, Unpacked};
use crate::flush::{Counted, skip};
use crate::journal::{Journal, Left, Names, SubjectId};
use crate::lease::{UNITS, units_of};
use crate::numbers::Numbers;
use crate::subject::Subject;
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
    pub(crate) subjects: DashMap<SubjectId, Arc<Subject>>,
    /// What the area counts of itself.
    pub numbers: Arc<Numbers>,
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
            numbers: Arc::default(),
        }
    }

    /// Counts what servers before this one left uncounted, and begins a journal.
    pub async fn start(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let now = engine.clock.now();
        let mut tx = engine.db.write().await?;
        let database = sql::database_name(&mut tx, &new_name(engine, now)).await?;
        tx.commit().await?;
        for left in Left::find(&self.folder).map_err(unreadable)? {
            self.take_over(engine, left, &database).await?;
        }
        if !self.shared {
            // Whoever served from this database before is dead, also where its journal is gone.
            for gone in sql::journals(&mut engine.db.glance().await?).await? {
                tracing::warn!(
                    journal = gone,
                    "A journal is gone; what a server before had not counted is lost"
                );
                close(engine, &gone).await?;
            }
        }
        if !self.shared {
            self.restore_minutes(engine, now).await?;
        }
        let names = Names {
            operations: engine.registry.entries().iter().map(|entry| entry.spec.name.to_owned()).collect(),
            codes: Code::ALL.iter().map(|code| code.name().to_owned()).collect(),
            database,
        };
        let operations = (0..).zip(engine.registry.entries()).map(|(at, entry)| (entry.spec.name, at));
        let id = new_name(engine, now);
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
        let position = sql::journal_position(&mut engine.db.glance().await?, left.id()).await?;
        // Without a row it was counted to its end and closed; only its files are left.
        if let Some(position) = position {
            let (mut at, mut calls) = (u64::try_from(position).unwrap_or(0), 0);
            loop {
                let there = left.skip_missing(at).map_err(unreadable)?;
                if there > at {
                    tracing::error!(lost = there - at, "The database has lost calls that it had counted");
                    at = skip(engine, left.id(), at, there).await?;
                }
                let Some(places) = left.read(at).map_err(unreadable)? else { break };
                calls += places.iter().flatten().count();
                let counted = self.count(engine, left.id(), &left.names, at, &places).await;
                let position = sql::journal_position(&mut engine.db.glance().await?, left.id()).await?;
                let position = position.and_then(|position| u64::try_from(position).ok()).unwrap_or(at);
                // The last commit of the dead server may have come to be while this one looked: then it is ahead.
                if position == at {
                    counted?;
                }
                at = position;
            }
            let admitted = self.admitted_by(engine, left.id()).await?;
            self.settle_minutes(engine, left.id(), |subject| admitted.get(&subject).copied()).await?;
            close(engine, left.id()).await?;
            tracing::info!(calls, "Counted the calls that a server before left in its journal");
        }
        left.remove().map_err(unreadable)
    }

    /// Fills the minutes of callers with what the server before admitted of them: a restart must not let a key pass its
    /// limit. Where there are other servers, they reckon with it instead.
    async fn restore_minutes(&self, engine: &Arc<Engine>, now: Timestamp) -> Result<(), Problem> {
        let mut tx = engine.db.read().await?;
        let since = now - limits::SHARE_LIFE;
        for body in sql::blocks_since(&mut tx, since, limits::RESTORED_BLOCKS_MAX).await? {
            // A piece of the log that does not read is no reason not to start.
            let Ok(block) = Unpacked::new(&body) else { continue };
            let admitted = |request: &Logged<'_>| {
                request.at >= since.as_micros() && !REFUSED_BEFORE.contains(&request.code)
            };
            for request in block.requests().filter(admitted) {
                let subject = self
                    .subjects
                    .entry(request.subject)
                    .or_insert_with(|| Arc::new(Subject::new(request.subject)));
                subject.minute().window.restore(now, Timestamp::from_micros(request.at));
            }
        }
        Ok(tx.rollback().await?)
    }

    /// What a server that died admitted of callers' minutes, as the log has it.
    async fn admitted_by(
        &self,
        engine: &Arc<Engine>,
        journal: &str,
    ) -> Result<HashMap<SubjectId, (u32, Timestamp)>, Problem> {
        let mut admitted: HashMap<_, (u32, Timestamp)> = HashMap::new();
        if !self.shared {
            return Ok(admitted);
        }
        let since = engine.clock.now() - limits::SHARE_LIFE;
        let mut tx = engine.db.glance().await?;
        for body in sql::blocks_since(&mut tx, since, limits::RESTORED_BLOCKS_MAX).await? {
            let Ok(block) = Unpacked::new(&body) else { continue };
            let own = block.requests().filter(|request| {
                request.journal == journal
                    && request.at >= since.as_micros()
                    && !REFUSED_BEFORE.contains(&request.code)
            });
            for request in own {
                let at = Timestamp::from_micros(request.at);
                let (count, latest) = admitted.entry(request.subject).or_insert((0, at));
                (*count, *latest) = (*count + 1, at.max(*latest));
            }
        }
        Ok(admitted)
    }

    /// Counts what is left and lets go of everything that was leased; after the last call. Calls whose callers have gone
    /// are waited for a moment.
    pub async fn stop(&self, engine: &Arc<Engine>) -> Result<(), Problem> {
        let Some(journal) = self.journal.get() else { return Ok(()) };
        let began = engine.clock.now();
        while self.numbers.open() > 0 && engine.clock.now().since(began) < limits::STOP_TIME_MAX {
            engine.clock.sleep(limits::STOP_PAUSE).await;
        }
        self.flush(engine).await?;
        if self.numbers.open() > 0 {
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
    pub fn subject(&self, caller: &Caller) -> Option<Arc<Subject>> {
        let id = SubjectId::parse(&caller.subject)?;
        Some(self.subjects.entry(id).or_insert_with(|| Arc::new(Subject::new(id))).clone())
    }

    pub(crate) fn find_subject(&self, id: &str) -> Option<Arc<Subject>> {
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

/// The codes of calls that had no place in the minute, or gave it back.
const REFUSED_BEFORE: [&str; 3] =
    [Code::Forbidden.name(), Code::RateLimited.name(), Code::QuotaExceeded.name()];

/// A name that nothing else has.
fn new_name(engine: &Engine, now: Timestamp) -> String {
    let id: RequestId = engine.entropy.id(now);
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
