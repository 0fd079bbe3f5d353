//! Every operation, event and job there is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use portico_kernel::{AccountId, Problem};
use portico_store::{SealedColumn, StoreError, Tx, args};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::area::Probe;
use crate::event::AuditWritten;
use crate::jobs::{PruneEvents, PruneIdempotency, PruneQueues};
use crate::queue::{self, Queue};
use crate::wrap_anew::{self, WrapAnew};
use crate::{Area, Catalog, CatalogPart, Engine, JobOutcome, Metric, Metrics, Offer, Service, jobs, sql};

/// Every operation, event and job there is. All transports and documents walk it.
pub struct Registry {
    areas: Vec<&'static str>,
    /// What the areas bring to the catalog.
    of_areas: CatalogPart,
    catalog: RwLock<Arc<Catalog>>,
    jobs: Vec<Arc<jobs::Entry>>,
    services: Vec<Arc<dyn Service>>,
    queues: Vec<Arc<Queue>>,
    metrics: Vec<Metrics>,
    tool_subjects: Vec<&'static str>,
    probes: BTreeMap<&'static str, Probe>,
    erasures: Vec<&'static str>,
    sealed: Vec<SealedColumn>,
    offers: Vec<Arc<dyn Offer>>,
}

/// Two things of one name, route or type, or a name that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryError(pub(crate) String);

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RegistryError {}

impl Registry {
    /// The registry of these areas; refuses two that claim one name, route, scope or event type.
    pub fn new(areas: impl IntoIterator<Item = Area>) -> Result<Self, RegistryError> {
        let own = Area::builder("engine", Arc::new(()))
            .event::<AuditWritten>()
            .job(PruneEvents)
            .job(PruneIdempotency)
            .job(PruneQueues)
            .job(WrapAnew)
            .probe(sql::PROBE)
            .erases(&sql::ERASE)
            .seals(&wrap_anew::SEALED)
            .build();
        let mut of_areas = CatalogPart::default();
        let mut registry = Self {
            areas: Vec::new(),
            of_areas: CatalogPart::default(),
            catalog: RwLock::default(),
            jobs: Vec::new(),
            services: Vec::new(),
            queues: Vec::new(),
            metrics: Vec::new(),
            tool_subjects: Vec::new(),
            probes: BTreeMap::new(),
            erasures: Vec::new(),
            sealed: Vec::new(),
            offers: Vec::new(),
        };
        for area in std::iter::once(own).chain(areas) {
            registry.areas.push(area.name);
            of_areas.scopes.extend(area.scopes);
            of_areas.service_scopes.extend(area.service_scopes);
            of_areas.entries.extend(area.entries.into_iter().map(Arc::new));
            of_areas.events.extend(area.events);
            registry.probes.extend(area.probe.map(|probe| (area.name, probe)));
            registry.erasures.extend(area.erasures);
            registry.sealed.extend(area.sealed);
            registry.offers.extend(area.offers);
            registry.jobs.extend(area.jobs.into_iter().map(Arc::new));
            registry.services.extend(area.services);
            registry.queues.extend(area.queues.into_iter().map(Arc::new));
            registry.metrics.extend(area.metrics);
            registry.tool_subjects.extend(area.tool_subjects);
        }
        registry.catalog = RwLock::new(Arc::new(Catalog::new([of_areas.clone()], 0)?));
        registry.of_areas = of_areas;
        Ok(registry)
    }

    /// What callers can name, as it stands now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The catalog that there would be with these services; refuses what clashes with an area or among them.
    pub fn catalog_with(
        &self,
        services: impl IntoIterator<Item = CatalogPart>,
    ) -> Result<Catalog, RegistryError> {
        let generation = self.catalog().generation + 1;
        Catalog::new(std::iter::once(self.of_areas.clone()).chain(services), generation)
    }

    /// From now on that is the catalog. What was found in the one before stays usable.
    pub fn set_catalog(&self, catalog: Arc<Catalog>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }

    /// The names of the areas.
    pub fn areas(&self) -> &[&'static str] {
        &self.areas
    }

    /// What the tools of the areas are about.
    pub fn tool_subjects(&self) -> &[&'static str] {
        &self.tool_subjects
    }

    /// What the areas and the queues count of themselves, as it stands now. Numbers of one name follow each other.
    pub fn metrics(&self) -> Vec<Metric> {
        let queues = self.queues.iter().flat_map(|queue| queue.metrics());
        let mut metrics: Vec<_> = self.metrics.iter().flat_map(|metrics| metrics()).chain(queues).collect();
        metrics.sort_by_key(|metric| metric.name);
        metrics
    }

    /// What areas offer to assistants beside their operations.
    pub fn offers(&self) -> &[Arc<dyn Offer>] {
        &self.offers
    }

    /// The columns in which the areas keep what the keyring sealed.
    pub fn sealed(&self) -> &[SealedColumn] {
        &self.sealed
    }

    /// The names of the areas that can be probed.
    pub fn probed_areas(&self) -> impl Iterator<Item = &'static str> {
        self.probes.keys().copied()
    }

    /// Can the area of that name serve? It can when its probe runs.
    pub async fn probe(&self, engine: &Engine, area: &str) -> Result<(), StoreError> {
        let Some(probe) = self.probes.get(area) else { return Ok(()) };
        if !(probe.is_ready)() {
            return Err(StoreError::unavailable(format!("{area} cannot serve")));
        }
        let mut tx = engine.db.read().await?;
        tx.execute(probe.statement, args![]).await.map(drop)
    }

    /// Erases up to `most` rows of what the areas keep of `account`; returns how many. Zero means that all is erased.
    pub async fn erase_some(&self, tx: &mut Tx, account: AccountId, most: i64) -> Result<u64, StoreError> {
        for statement in &self.erasures {
            let erased = tx.execute(statement, args![account, most]).await?;
            if erased > 0 {
                return Ok(erased);
            }
        }
        Ok(0)
    }

    /// Runs the job of that name once, or what is due of the queue of that name, whether or not it is its time; `None` if
    /// there is neither.
    pub async fn run_job(&self, engine: &Arc<Engine>, name: &str) -> Option<Result<JobOutcome, Problem>> {
        if let Some(job) = self.jobs.iter().find(|known| known.name == name) {
            return Some(job.run_once(engine).await);
        }
        let queue = self.queues.iter().find(|known| known.name == name)?;
        Some(queue.run_due(engine).await)
    }

    /// Starts every job, every queue and every service; they end when `stop` turns true.
    pub async fn start_jobs(
        &self,
        engine: &Arc<Engine>,
        stop: &watch::Receiver<bool>,
    ) -> Result<JoinSet<()>, StoreError> {
        let mut tasks = JoinSet::new();
        let (local, shared): (Vec<_>, Vec<_>) =
            self.jobs.iter().cloned().partition(|job| job.on_every_server);
        for job in local {
            let (engine, stop) = (engine.clone(), stop.clone());
            tasks.spawn(async move { job.run(engine, stop).await });
        }
        jobs::enqueue(engine, &shared).await?;
        let queues = self.queues.iter().cloned().chain(shared.into_iter().map(jobs::queue)).collect();
        tasks.spawn(queue::run(engine.clone(), queues, stop.clone()));
        self.start_services(engine, stop, &mut tasks);
        Ok(tasks)
    }

    /// Starts every service alone.
    pub fn start_services(
        &self,
        engine: &Arc<Engine>,
        stop: &watch::Receiver<bool>,
        tasks: &mut JoinSet<()>,
    ) {
        for service in &self.services {
            let (service, engine, stop) = (service.clone(), engine.clone(), stop.clone());
            tasks.spawn(async move { service.run(engine, stop).await });
        }
    }
}
