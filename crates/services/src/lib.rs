//! What a service behind the gateway may do itself: publish events, report usage, and have its customers' tokens verified.
//!
//! A service calls with a token of its own, for which the operator made a credential (identity keeps those). It acts in no
//! account and by a right of its own in every one: what it tells is written into the log and the usage of the account that it
//! names. What it may tell is said by its definition, which stands in the [`table`].
//!
//! Events and usage come in batches, and go one way (`batch.rs`): each element is checked by itself and refused by its
//! index; of the others each is accepted once by its id, for 32 days; and what is accepted is in one commit with the ids,
//! with its events, their deliveries and its units. Locks are taken in one order, the same for every batch: the ids, sorted;
//! the months of accounts, sorted; the sequences of accounts, sorted.
//!
//! Invariant: an id is accepted if and only if what it stands for is in the database.

mod batch;
mod events;
mod jobs;
pub mod limits;
mod metrics;
mod sql;
pub mod table;
mod usage;
mod verify;

use std::sync::Arc;

use portico_engine::Area;
use portico_engine::ports::{ConfiguredServices, Directory, Units, Verifier};
use portico_kernel::{Caller, Code, Problem};

use metrics::Counters;
use table::{ServiceDefinition, ServiceTable, ServiceTables};

/// The state of the area.
pub struct Services {
    tables: Arc<ServiceTables>,
    directory: Arc<dyn Directory>,
    units: Arc<dyn Units>,
    verifier: Arc<dyn Verifier>,
    pub(crate) counters: Counters,
}

/// What the area asks of others.
pub struct ServicesPorts {
    /// Knows keys and API tokens.
    pub directory: Arc<dyn Directory>,
    /// Counts what is used.
    pub units: Arc<dyn Units>,
    /// Judges tokens.
    pub verifier: Arc<dyn Verifier>,
}

impl Services {
    /// The area's state, with the services of `tables`.
    pub fn new(tables: Arc<ServiceTables>, ports: ServicesPorts) -> Self {
        let ServicesPorts { directory, units, verifier } = ports;
        Self { tables, directory, units, verifier, counters: Counters::default() }
    }

    /// The services there are.
    pub fn table(&self) -> Arc<ServiceTable> {
        self.tables.get()
    }

    /// From here on these are the services. Calls that run go on with the old ones.
    pub fn replace(&self, table: ServiceTable) {
        self.tables.replace(table);
    }

    /// The service that calls.
    pub(crate) fn calling(&self, caller: &Caller) -> Result<Arc<ServiceDefinition>, Problem> {
        let name = self.tables.calling(caller)?;
        let gone = || Problem::new(Code::Forbidden, "The service is not configured any more.");
        self.table().services.get(name).cloned().ok_or_else(gone)
    }
}

/// The area's operations and jobs.
pub fn area(services: &Arc<Services>) -> Area {
    Area::builder("services", services.clone())
        .service_scope("service:events", "Publish events of the service's own types, in any account.")
        .service_scope("service:usage", "Report usage of any account.")
        .service_scope("service:accounts", "Read every account.")
        .service_scope("service:verify", "Have tokens of any account verified and charged.")
        .op::<events::PublishEvents>()
        .op::<usage::ReportUsage>()
        .op::<verify::VerifyToken>()
        .job(jobs::PruneIds)
        .metrics({
            let services = services.clone();
            move || services.counters.shown()
        })
        .probe(sql::PROBE)
        .erases(&sql::ERASE)
        .build()
}
