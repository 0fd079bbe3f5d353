//! Every operation, event and job there is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use portico_kernel::{AccountId, Problem};
use portico_store::{StoreError, Tx, args};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::area::Probe;
use crate::event::AuditWritten;
use crate::jobs::{PruneEvents, PruneIdempotency, PruneQueues};
use crate::queue::{self, Queue};
use crate::{
    Area, Engine, Entry, EntryPoint, EventType, JobOutcome, Method, Metric, Metrics, Offer, Scopes, Service,
    Spec, jobs, sql,
};

/// Every operation, event and job there is. All transports and documents walk it.
pub struct Registry {
    areas: Vec<&'static str>,
    scopes: Scopes,
    service_scopes: Scopes,
    entries: Vec<Arc<Entry>>,
    events: Vec<EventType>,
    jobs: Vec<Arc<jobs::Entry>>,
    services: Vec<Arc<dyn Service>>,
    queues: Vec<Arc<Queue>>,
    metrics: Vec<Metrics>,
    tool_subjects: Vec<&'static str>,
    probes: BTreeMap<&'static str, Probe>,
    erasures: Vec<&'static str>,
    offers: Vec<Arc<dyn Offer>>,
}

/// Two things of one name, route or type, or a name that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryError(String);

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
            .probe(sql::PROBE)
            .erases(&sql::ERASE)
            .build();
        let mut registry = Self {
            areas: Vec::new(),
            scopes: Scopes::default(),
            service_scopes: Scopes::default(),
            entries: Vec::new(),
            events: Vec::new(),
            jobs: Vec::new(),
            services: Vec::new(),
            queues: Vec::new(),
            metrics: Vec::new(),
            tool_subjects: Vec::new(),
            probes: BTreeMap::new(),
            erasures: Vec::new(),
            offers: Vec::new(),
        };
        for area in std::iter::once(own).chain(areas) {
            registry.areas.push(area.name);
            registry.scopes.extend(area.scopes);
            registry.service_scopes.extend(area.service_scopes);
            registry.probes.extend(area.probe.map(|probe| (area.name, probe)));
            registry.erasures.extend(area.erasures);
            registry.offers.extend(area.offers);
            registry.entries.extend(area.entries.into_iter().map(Arc::new));
            registry.events.extend(area.events);
            registry.jobs.extend(area.jobs.into_iter().map(Arc::new));
            registry.services.extend(area.services);
            registry.queues.extend(area.queues.into_iter().map(Arc::new));
            registry.metrics.extend(area.metrics);
            registry.tool_subjects.extend(area.tool_subjects);
        }
        registry.entries.sort_by_key(|entry| (entry.spec.path, entry.spec.method));
        registry.events.sort_by_key(|event| event.r#type);
        registry.check()?;
        Ok(registry)
    }

    fn check(&self) -> Result<(), RegistryError> {
        let mut scopes = BTreeSet::new();
        let mut all = self.scopes.iter().chain(self.service_scopes.iter());
        if let Some(twice) = all.find(|scope| !scopes.insert(scope.name)) {
            return Err(RegistryError(format!("two areas bring the scope {}", twice.name)));
        }
        let mut names = BTreeSet::new();
        let mut routes = BTreeSet::new();
        let mut tools = BTreeSet::new();
        for entry in &self.entries {
            let spec = entry.spec;
            if !names.insert(spec.name) {
                return Err(RegistryError(format!("two operations are named {}", spec.name)));
            }
            if !routes.insert((spec.method.name(), spec.path)) {
                return Err(RegistryError(format!(
                    "two operations serve {} {}",
                    spec.method.name(),
                    spec.path
                )));
            }
            if let Some(unknown) = asked_scopes(spec).find(|name| !scopes.contains(name)) {
                return Err(RegistryError(format!(
                    "{} asks for the scope {unknown}, which no area brings",
                    spec.name
                )));
            }
            if let Some(error) = spec.tool_error() {
                return Err(RegistryError(format!("{} {error}", spec.name)));
            }
            if spec.tool.is_some() && !entry.is_callable() {
                return Err(RegistryError(format!("{} is a tool, and cannot be called by name", spec.name)));
            }
            if spec.idempotency_key && (!entry.is_callable() || spec.time_limit.is_some()) {
                return Err(RegistryError(format!(
                    "{} takes an Idempotency-Key; its request and answer must be JSON, within the usual time",
                    spec.name
                )));
            }
            if let Some(tool) = spec.tool.filter(|tool| !tools.insert(tool.name)) {
                return Err(RegistryError(format!("two tools are named {}", tool.name)));
            }
            if spec.idempotency_key && spec.method != Method::Post {
                return Err(RegistryError(format!("{} takes an Idempotency-Key and is no POST", spec.name)));
            }
        }
        let mut types = BTreeSet::new();
        match self.events.iter().find(|event| !types.insert(event.r#type)) {
            Some(twice) => Err(RegistryError(format!("two events are of type {}", twice.r#type))),
            None => Ok(()),
        }
    }

    /// The names of the areas.
    pub fn areas(&self) -> &[&'static str] {
        &self.areas
    }

    /// Every scope there is.
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// Every scope of services' own tokens, which nobody else can hold.
    pub fn service_scopes(&self) -> &Scopes {
        &self.service_scopes
    }

    /// Every operation, by path and method.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Every event type, by name.
    pub fn events(&self) -> &[EventType] {
        &self.events
    }

    /// Refuses a name that is no event type, as the field `field`.
    pub fn check_event_type(&self, field: &str, name: &str) -> Result<(), Problem> {
        if self.events.iter().any(|known| known.r#type == name) {
            return Ok(());
        }
        Err(Problem::field(field, "is not an event type; GET /v1/events/types lists them"))
    }

    /// Refuses a name that is no operation, as the field `field`.
    pub fn check_operation(&self, field: &str, name: &str) -> Result<(), Problem> {
        if self.entries.iter().any(|known| known.spec.name == name) {
            return Ok(());
        }
        Err(Problem::field(field, "is not an operation; `x-platform-rpc` in GET /openapi.json names them"))
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

/// The scopes that an operation asks for, of its own callers and of assistants.
fn asked_scopes(spec: &Spec) -> impl Iterator<Item = &'static str> {
    let of_tool = spec.tool.is_some().then(|| EntryPoint::Tool.scopes(spec)).into_iter().flatten();
    EntryPoint::Api.scopes(spec).iter().chain(of_tool).copied()
}
