//! An area: its operations, events and jobs, one line each.

use std::sync::Arc;

use crate::{Entry, Event, EventType, Job, Operation, jobs};

/// An area of the platform, with the state that its operations share.
pub struct Area<S> {
    state: Arc<S>,
    catalogue: Catalogue,
}

/// What an area brings to the registry, its types erased.
pub struct Catalogue {
    /// The area's name.
    pub name: &'static str,
    pub(crate) entries: Vec<Entry>,
    pub(crate) events: Vec<EventType>,
    pub(crate) jobs: Vec<jobs::Entry>,
    pub(crate) probe: Option<&'static str>,
}

impl<S: Send + Sync + 'static> Area<S> {
    /// An area without anything yet.
    pub fn new(name: &'static str, state: Arc<S>) -> Self {
        let (entries, events, jobs) = (Vec::new(), Vec::new(), Vec::new());
        Self { state, catalogue: Catalogue { name, entries, events, jobs, probe: None } }
    }

    /// Adds an operation.
    #[must_use]
    pub fn op<O: Operation<Area = S>>(mut self) -> Self {
        self.catalogue.entries.push(Entry::new::<O>(self.catalogue.name, self.state.clone()));
        self
    }

    /// Adds an event type.
    #[must_use]
    pub fn event<E: Event>(mut self) -> Self {
        self.catalogue.events.push(EventType::of::<E>());
        self
    }

    /// Adds a job.
    #[must_use]
    pub fn job<J: Job>(mut self, job: J) -> Self {
        self.catalogue.jobs.push(jobs::Entry::new(job));
        self
    }

    /// The statement that shows whether the area can serve: it must run, whatever it answers.
    #[must_use]
    pub fn probe(mut self, statement: &'static str) -> Self {
        self.catalogue.probe = Some(statement);
        self
    }

    /// The area, ready for the registry.
    pub fn build(self) -> Catalogue {
        self.catalogue
    }
}
