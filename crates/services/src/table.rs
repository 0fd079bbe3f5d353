//! The services that are configured, and what each of them may tell.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use portico_engine::ports::ConfiguredServices;
use portico_kernel::ScopeSet;
use serde_json::Value;

/// Every service, by its name.
#[derive(Debug, Default)]
pub struct ServiceTable {
    /// The services.
    pub services: BTreeMap<String, Arc<ServiceDefinition>>,
}

/// A service, as its document defines it.
#[derive(Debug)]
pub struct ServiceDefinition {
    /// Its name in the configuration.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// The scopes that its document declares.
    pub scopes: Vec<String>,
    /// How many calls it may make itself in 60 seconds; `None` for the usual number.
    pub calls_per_minute: Option<u32>,
    /// The types of events that it may publish.
    pub events: BTreeMap<String, ServiceEvent>,
}

/// A field, such as `data.lines[0]`, or `data` for the whole, and what is wrong with it.
pub type Fault = (String, String);

/// Checks the data of an event.
pub type EventCheck = dyn Fn(&Value) -> Result<(), Vec<Fault>> + Send + Sync;

/// A type of events that a service may publish.
pub struct ServiceEvent {
    /// Does the data match the type's schema? If not, all that is wrong, or the first of it.
    pub check: Box<EventCheck>,
}

impl fmt::Debug for ServiceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServiceEvent")
    }
}

/// The table that is in force; whoever needs to know which services there are shares it.
#[derive(Debug, Default)]
pub struct ServiceTables(RwLock<Arc<ServiceTable>>);

impl ServiceTables {
    /// The table that is in force.
    pub fn get(&self) -> Arc<ServiceTable> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another table in force.
    pub fn replace(&self, table: ServiceTable) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }
}

impl ConfiguredServices for ServiceTables {
    fn scopes(&self, service: &str) -> Option<ScopeSet> {
        self.get().services.get(service).map(|service| service.scopes.iter().collect())
    }

    fn calls_per_minute(&self, service: &str) -> Option<u32> {
        self.get().services.get(service)?.calls_per_minute
    }
}
