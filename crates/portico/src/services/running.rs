//! What the gateway makes of services: where they are reached, and what they bring to the catalog.

use std::sync::Arc;
use std::time::Duration;

use portico_engine::{Access, CatalogPart, Entry, EventType, Scope, ServiceAudience, Spec, Tool};
use portico_gateway::forward::{CallsInFlight, Service, ServiceList, ServiceOperation};
use portico_identity::Identity;
use portico_kernel::{intern, intern_all, intern_lists};
use portico_metering::Metering;
use portico_openapi::{
    EventType as DocumentedEvent, FieldError, Method as DocumentedMethod, Operation, Security,
};
use portico_services::table::{ServiceDefinition, ServiceEvent, ServiceTable};
use portico_upstream::{Target, Timing, Upstream, UpstreamConfig};

use serde_json::Value;

use super::LoadedService;
use super::settings::{Check, Errors, ServiceSettings};
use crate::app::Environment;

/// How long the answer to a call by name may take once it has begun.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Services that can be called.
pub struct RunningServices {
    /// Each of them.
    pub services: Vec<Arc<Service>>,
    /// What each brings to the catalog.
    pub parts: Vec<CatalogPart>,
}

/// What services need of the platform.
pub(crate) struct ServiceParts<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) identity: &'a Arc<Identity>,
    pub(crate) metering: &'a Arc<Metering>,
    /// Those that run already.
    pub(crate) services: &'a ServiceList,
}

impl RunningServices {
    /// The services that were loaded; says what is wrong with their targets.
    pub(crate) fn new(loaded: &[LoadedService], of: &ServiceParts<'_>) -> Result<Self, Vec<String>> {
        let (mut services, mut parts, mut findings) = (Vec::new(), Vec::new(), Vec::new());
        for one in loaded {
            match service(one, of) {
                Ok(service) => {
                    let service = Arc::new(service);
                    parts.push(part(&service, &one.settings));
                    services.push(service);
                }
                Err(found) => findings.extend(found),
            }
        }
        if findings.is_empty() { Ok(Self { services, parts }) } else { Err(findings) }
    }
}

fn service(loaded: &LoadedService, of: &ServiceParts<'_>) -> Result<Service, Vec<String>> {
    let settings = &loaded.settings;
    let name = &settings.name;
    let (mut targets, mut findings) = (Vec::new(), Vec::new());
    for text in &settings.targets {
        match Target::parse(text) {
            Ok(target) => targets.push(target),
            Err(error) => findings.push(format!("services.{name}: the target {text:?}: {error}")),
        }
    }
    let own = [of.identity.audiences(), vec![of.environment.base_url.clone()]].concat();
    if let Some(audience) = settings.audience.as_ref().filter(|audience| is_among(audience, &own)) {
        findings.push(format!("services.{name}: the audience {audience} is the platform's own"));
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let config = UpstreamConfig {
        name: name.as_str().into(),
        targets,
        health: settings.health.clone(),
        timeout: settings.timeout,
        roots: of.environment.egress_roots.clone(),
        timing: Timing::default(),
    };
    let running = of.services.all().into_iter().find(|service| service.name == name);
    let upstream = match running {
        Some(running) => running.upstream.succeeding(config),
        None => Upstream::new(config),
    };
    Ok(Service {
        name: intern(name),
        document: loaded.document.clone(),
        upstream: upstream.map_err(|error| vec![format!("services.{name}: {error}")])?,
        is_required: settings.required,
        checks_requests: settings.check == Check::Requests,
        wraps_errors: settings.errors == Errors::Envelope,
        body_max: settings.body_max,
        identity: of.identity.clone(),
        metering: of.metering.clone(),
        trusted_proxies: of.environment.trusted_proxies.clone(),
        is_https: of.environment.base_url.starts_with("https:"),
        in_flight: CallsInFlight::default(),
    })
}

/// What services may tell by themselves.
pub(crate) fn table(loaded: &[LoadedService]) -> ServiceTable {
    let definition = |loaded: &LoadedService| {
        let (name, document) = (loaded.settings.name.clone(), &loaded.document);
        let event = |event: &DocumentedEvent| {
            let (name, event) = (event.name.clone(), event.clone());
            let check = move |data: &Value| {
                let fault = |fault: FieldError| (fault.field, fault.description);
                event.check(data).map_err(|faults| faults.into_iter().map(fault).collect())
            };
            (name, ServiceEvent { check: Box::new(check) })
        };
        let definition = ServiceDefinition {
            name: name.clone(),
            title: document.title.clone(),
            scopes: document.scopes.iter().map(|scope| scope.name.clone()).collect(),
            calls_per_minute: loaded.settings.calls_per_minute,
            events: document.events.iter().map(event).collect(),
        };
        (name, Arc::new(definition))
    };
    ServiceTable { services: loaded.iter().map(definition).collect() }
}

/// What a service brings to the catalog.
fn part(service: &Arc<Service>, settings: &ServiceSettings) -> CatalogPart {
    let document = &service.document;
    let scopes = document.scopes.iter();
    let scopes =
        scopes.map(|scope| Scope { name: intern(&scope.name), description: intern(&scope.description) });
    let entries = document.operations.iter().enumerate().map(|(index, operation)| {
        // A call by name ends with its answer, which comes after the head that the service's own time is about.
        let spec = Spec { time_limit: Some(settings.timeout + ANSWER_TIME), ..spec(service.name, operation) }
            .intern();
        let operation = Arc::new(ServiceOperation { service: service.clone(), index });
        Arc::new(Entry::documented(service.name, spec, operation))
    });
    CatalogPart {
        scopes: scopes.collect(),
        service_scopes: Vec::new(),
        entries: entries.collect(),
        events: document.events.iter().map(event_type).collect(),
        audience: settings.audience.as_ref().map(|audience| ServiceAudience {
            name: audience.clone(),
            service: service.name.into(),
            title: document.title.clone(),
            scopes: document.scopes.iter().map(|scope| &scope.name).collect(),
        }),
    }
}

/// Is the address among these? A slash at the end makes no difference.
fn is_among(address: &str, those: &[String]) -> bool {
    let plain = |text: &str| text.trim_end_matches('/').to_owned();
    those.iter().any(|known| plain(known) == plain(address))
}

fn spec(service: &str, operation: &Operation) -> Spec {
    let (name, path) = (intern(&format!("{service}.{}", operation.id)), intern(&operation.path));
    let mut spec = match operation.method {
        DocumentedMethod::Get => Spec::get(name, path),
        DocumentedMethod::Put => Spec::put(name, path),
        DocumentedMethod::Post => Spec::post(name, path),
        DocumentedMethod::Delete => Spec::delete(name, path),
        DocumentedMethod::Patch => Spec::patch(name, path),
    };
    spec.access = access(&operation.security);
    spec.category = Some(operation.category);
    spec.units = operation.units.map(|units| u32::try_from(units).unwrap_or(u32::MAX));
    spec.plans = operation.plans.as_ref().map(|plans| intern_all(plans));
    if let Some(tool) = &operation.tool {
        spec = spec.tool(Tool::new(intern(&tool.name), intern(&tool.title)));
    }
    spec
}

fn access(security: &Security) -> Access {
    match security {
        Security::Open => Access::Open,
        Security::AnyOf(lists) if lists.iter().any(Vec::is_empty) => Access::AnyToken,
        Security::AnyOf(lists) => match lists.as_slice() {
            [only] if only.len() == 1 => Access::Scope(intern(&only[0])),
            lists => Access::AnyOf(intern_lists(lists)),
        },
    }
}

fn event_type(event: &DocumentedEvent) -> EventType {
    EventType::documented(
        intern(&event.name),
        &event.description,
        event.schema.clone(),
        event.examples.first(),
    )
}
