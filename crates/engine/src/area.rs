//! An area: its operations, events and jobs, one line each.

use std::sync::Arc;

use portico_store::SealedColumn;

use crate::queue::{Queue, Worker};
use crate::{Entry, Event, EventType, Job, Metric, Metrics, Offer, Operation, Scope, Service, jobs};

/// Lists what an area has, one line each.
pub struct AreaBuilder<S> {
    state: Arc<S>,
    area: Area,
}

/// An area of the platform as the registry takes it: what it has, its types erased.
pub struct Area {
    /// The area's name.
    pub name: &'static str,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) service_scopes: Vec<Scope>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) events: Vec<EventType>,
    pub(crate) jobs: Vec<jobs::Entry>,
    pub(crate) services: Vec<Arc<dyn Service>>,
    pub(crate) queues: Vec<Queue>,
    pub(crate) metrics: Vec<Metrics>,
    pub(crate) tool_subjects: &'static [&'static str],
    pub(crate) probe: Option<Probe>,
    pub(crate) erasures: Vec<&'static str>,
    pub(crate) sealed: Vec<SealedColumn>,
    pub(crate) offers: Vec<Arc<dyn Offer>>,
}

/// What shows whether an area can serve.
pub(crate) struct Probe {
    pub(crate) statement: &'static str,
    pub(crate) is_ready: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Area {
    /// An area without anything yet; its operations share `state`.
    pub fn builder<S: Send + Sync + 'static>(name: &'static str, state: Arc<S>) -> AreaBuilder<S> {
        let area = Self {
            name,
            scopes: Vec::new(),
            service_scopes: Vec::new(),
            entries: Vec::new(),
            events: Vec::new(),
            jobs: Vec::new(),
            services: Vec::new(),
            queues: Vec::new(),
            metrics: Vec::new(),
            tool_subjects: &[],
            probe: None,
            erasures: Vec::new(),
            sealed: Vec::new(),
            offers: Vec::new(),
        };
        AreaBuilder { state, area }
    }
}

impl<S: Send + Sync + 'static> AreaBuilder<S> {
    /// Adds a scope, `noun:verb`, and what it lets a token do.
    #[must_use]
    pub fn scope(mut self, name: &'static str, description: &'static str) -> Self {
        self.area.scopes.push(Scope { name, description });
        self
    }

    /// Adds a scope of services' own tokens: it is offered to nobody, and no key, app or person can hold it.
    #[must_use]
    pub fn service_scope(mut self, name: &'static str, description: &'static str) -> Self {
        self.area.service_scopes.push(Scope { name, description });
        self
    }

    /// Adds an operation.
    #[must_use]
    pub fn op<O: Operation<Area = S>>(mut self) -> Self {
        self.area.entries.push(Entry::new::<O>(self.area.name, self.state.clone()));
        self
    }

    /// Adds an event type.
    #[must_use]
    pub fn event<E: Event>(mut self) -> Self {
        self.area.events.push(EventType::of::<E>());
        self
    }

    /// Adds a job.
    #[must_use]
    pub fn job<J: Job>(mut self, job: J) -> Self {
        self.area.jobs.push(jobs::Entry::new(job));
        self
    }

    /// Adds work that goes on as long as the server does.
    #[must_use]
    pub fn service(mut self, service: Arc<dyn Service>) -> Self {
        self.area.services.push(service);
        self
    }

    /// Adds a queue and the worker that does its items.
    #[must_use]
    pub fn worker<W: Worker>(mut self, worker: Arc<W>) -> Self {
        self.area.queues.push(Queue::new(worker));
        self
    }

    /// Adds what the area counts of itself.
    #[must_use]
    pub fn metrics(mut self, metrics: impl Fn() -> Vec<Metric> + Send + Sync + 'static) -> Self {
        self.area.metrics.push(Box::new(metrics));
        self
    }

    /// What the area's tools are about, in a word or two each: assistants are told before they choose among tools.
    #[must_use]
    pub fn tool_subjects(mut self, subjects: &'static [&'static str]) -> Self {
        self.area.tool_subjects = subjects;
        self
    }

    /// Adds what it offers to assistants beside its operations.
    #[must_use]
    pub fn offers(mut self, offer: Arc<dyn Offer>) -> Self {
        self.area.offers.push(offer);
        self
    }

    /// The statement that shows whether the area can serve: it must run, whatever it answers.
    #[must_use]
    pub fn probe(self, statement: &'static str) -> Self {
        self.probe_with(statement, || true)
    }

    /// The statement that shows whether the area can serve, and what beside the database must be so.
    #[must_use]
    pub fn probe_with(
        mut self,
        statement: &'static str,
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.area.probe = Some(Probe { statement, is_ready: Box::new(is_ready) });
        self
    }

    /// The statements that erase what the area keeps of an account: `$1` is the account, `$2` how many rows to erase at
    /// most. They run in this order, each until it finds nothing more.
    #[must_use]
    pub fn erases(mut self, statements: &[&'static str]) -> Self {
        self.area.erasures.extend(statements);
        self
    }

    /// The columns in which the area keeps what the keyring sealed.
    #[must_use]
    pub fn seals(mut self, columns: &[SealedColumn]) -> Self {
        self.area.sealed.extend(columns);
        self
    }

    /// The area, ready for the registry.
    pub fn build(self) -> Area {
        self.area
    }
}
