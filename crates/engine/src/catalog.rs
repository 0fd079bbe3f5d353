//! What callers can name: operations, scopes and event types.
//!
//! Those of the areas never change. Those of a company's own services change when their documents are read anew; whoever
//! derives something from the catalog, such as a table of routes, derives it again when [`Catalog::generation`] grows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use portico_kernel::{Problem, ScopeSet};

use crate::{Entry, EntryPoint, EventType, Method, RegistryError, Scope, Scopes, Spec};

/// What the areas, or one service, bring to the catalog.
#[derive(Clone, Default)]
pub struct CatalogPart {
    /// Scopes, in the order in which they are shown.
    pub scopes: Vec<Scope>,
    /// Scopes of services' own tokens, which nobody else can hold.
    pub service_scopes: Vec<Scope>,
    /// Operations.
    pub entries: Vec<Arc<Entry>>,
    /// Event types.
    pub events: Vec<EventType>,
    /// The audience of tokens that are for the service alone.
    pub audience: Option<ServiceAudience>,
}

/// What tokens are for that a service checks by itself. They open nothing of the platform.
#[derive(Debug, Clone)]
pub struct ServiceAudience {
    /// The name of the audience, an address.
    pub name: String,
    /// The service.
    pub service: Arc<str>,
    /// What the service is called.
    pub title: String,
    /// The scopes of the service, which such tokens may hold and no others.
    pub scopes: ScopeSet,
}

/// Every operation, scope and event type, as it stands at one time.
#[derive(Default)]
pub struct Catalog {
    /// Grows with each change.
    pub generation: u64,
    scopes: Scopes,
    service_scopes: Scopes,
    entries: Vec<Arc<Entry>>,
    names: HashMap<&'static str, Arc<Entry>>,
    events: Vec<EventType>,
    audiences: Vec<ServiceAudience>,
}

impl Catalog {
    /// The catalog of these parts; refuses two things of one name, route, scope or type, and what stands for nothing.
    pub(crate) fn new(
        parts: impl IntoIterator<Item = CatalogPart>,
        generation: u64,
    ) -> Result<Self, RegistryError> {
        let mut catalog = Self { generation, ..Self::default() };
        for part in parts {
            catalog.scopes.extend(part.scopes);
            catalog.service_scopes.extend(part.service_scopes);
            catalog.entries.extend(part.entries);
            catalog.events.extend(part.events);
            catalog.audiences.extend(part.audience);
        }
        catalog.entries.sort_by_key(|entry| (entry.spec.path, entry.spec.method));
        catalog.events.sort_by_key(|event| event.r#type);
        catalog.check()?;
        catalog.names = catalog.entries.iter().map(|entry| (entry.spec.name, entry.clone())).collect();
        Ok(catalog)
    }

    fn check(&self) -> Result<(), RegistryError> {
        let mut scopes = BTreeSet::new();
        let mut all = self.scopes.iter().chain(self.service_scopes.iter());
        if let Some(twice) = all.find(|scope| !scopes.insert(scope.name)) {
            return Err(RegistryError(format!("two areas bring the scope {}", twice.name)));
        }
        let mut names = BTreeSet::new();
        let mut routes = BTreeMap::new();
        let mut shapes: BTreeMap<String, &Spec> = BTreeMap::new();
        let mut tools = BTreeMap::new();
        for entry in &self.entries {
            let spec = entry.spec;
            if !names.insert(spec.name) {
                return Err(RegistryError(format!("two operations are named {}", spec.name)));
            }
            let route = (spec.method.name(), spec.path);
            if let Some(other) = routes.insert(route, spec.name) {
                let (method, path) = route;
                let both = format!("{other} and {}", spec.name);
                return Err(RegistryError(format!("two operations serve {method} {path}: {both}")));
            }
            let other = *shapes.entry(shape(spec.path)).or_insert(spec);
            if other.path != spec.path {
                let (both, first, second) =
                    (format!("{} and {}", other.name, spec.name), other.path, spec.path);
                return Err(RegistryError(format!(
                    "the paths of {both} differ by the names of variables alone: {first} and {second}"
                )));
            }
            check_spec(entry, &scopes)?;
            if let Some(tool) = spec.tool
                && let Some(other) = tools.insert(tool.name, spec.name)
            {
                let both = format!("{other} and {}", spec.name);
                return Err(RegistryError(format!("two tools are named {}: {both}", tool.name)));
            }
        }
        let mut types = BTreeSet::new();
        match self.events.iter().find(|event| !types.insert(event.r#type)) {
            Some(twice) => Err(RegistryError(format!("two events are of type {}", twice.r#type))),
            None => Ok(()),
        }
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

    /// The operation of that name.
    pub fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        self.names.get(name)
    }

    /// Every event type, by name.
    pub fn events(&self) -> &[EventType] {
        &self.events
    }

    /// The audience of that name, if it is a service's.
    pub fn audience(&self, name: &str) -> Option<&ServiceAudience> {
        self.audiences.iter().find(|audience| audience.name == name)
    }

    /// The audiences of services.
    pub fn audiences(&self) -> &[ServiceAudience] {
        &self.audiences
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
        if self.names.contains_key(name) {
            return Ok(());
        }
        Err(Problem::field(field, "is not an operation; `x-platform-rpc` in GET /openapi.json names them"))
    }
}

/// The path without the names of its variables.
fn shape(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// Refuses an operation whose description does not fit together.
fn check_spec(entry: &Entry, scopes: &BTreeSet<&'static str>) -> Result<(), RegistryError> {
    let spec = entry.spec;
    if let Some(unknown) = scopes_of(spec).into_iter().find(|name| !scopes.contains(name)) {
        let words = format!("{} asks for the scope {unknown}, which no area brings", spec.name);
        return Err(RegistryError(words));
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
    if spec.idempotency_key && spec.method != Method::Post {
        return Err(RegistryError(format!("{} takes an Idempotency-Key and is no POST", spec.name)));
    }
    Ok(())
}

/// The scopes that an operation asks for, of its own callers and of assistants.
fn scopes_of(spec: &Spec) -> Vec<&'static str> {
    let of_tool = spec.tool.is_some().then(|| EntryPoint::Tool.scopes(spec)).into_iter().flatten();
    EntryPoint::Api.scopes(spec).chain(of_tool).flatten().copied().collect()
}
