//! Reading the documents of services.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use portico_kernel::Plans;
use portico_openapi::{DOCUMENT_BYTES_MAX, Document};

use super::{ServiceSettings, ServiceTable, fetch};
use crate::config::Config;

/// A service whose document was read.
pub struct LoadedService {
    /// What the configuration says.
    pub settings: ServiceSettings,
    /// The document as it stands in its file.
    pub text: String,
    /// The same, read.
    pub document: Arc<Document>,
}

impl LoadedService {
    /// The service of that name; `table` is its table in the configuration, as TOML, and `document` its document.
    pub fn new(name: &str, table: &str, document: &str) -> Result<Self, Vec<String>> {
        let table: ServiceTable = toml::from_str(table).map_err(|error| vec![error.to_string()])?;
        let settings = ServiceSettings::read(name, table).map_err(|error| vec![error.to_string()])?;
        Self::read(&settings, document.as_bytes().to_vec())
    }

    fn read(settings: &ServiceSettings, document: Vec<u8>) -> Result<Self, Vec<String>> {
        let read = Document::read(&document, &settings.openapi);
        let read = read.map_err(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let text = String::from_utf8(document);
        let text = text.map_err(|_| vec![format!("{}: is not UTF-8", settings.openapi)])?;
        Ok(Self { settings: settings.clone(), text, document: Arc::new(read) })
    }
}

/// Reads every service of the configuration; says everything that is wrong with them, line by line.
pub async fn load(config: &Config) -> Result<Vec<LoadedService>, Vec<String>> {
    let (mut loaded, mut findings) = (Vec::new(), Vec::new());
    for settings in &config.services {
        match read(settings, config).await {
            Ok(service) => loaded.push(service),
            Err(found) => findings.extend(found),
        }
    }
    findings.extend(clashes(&loaded));
    if findings.is_empty() { Ok(loaded) } else { Err(findings) }
}

async fn read(settings: &ServiceSettings, config: &Config) -> Result<LoadedService, Vec<String>> {
    let name = &settings.openapi;
    let is_address = name.starts_with("http://") || name.starts_with("https://");
    let bytes = if is_address {
        fetch::get(name, &config.environment.egress_roots).await
    } else {
        read_file(&config.folder.join(name)).await
    };
    let bytes = bytes.map_err(|error| vec![format!("services.{}: {name}: {error}", settings.name)])?;
    let loaded = LoadedService::read(settings, bytes)?;
    let unknown = unknown_plans(&loaded.document, name, &config.plans);
    if unknown.is_empty() { Ok(loaded) } else { Err(unknown) }
}

async fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let path = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || {
        let length = fs::metadata(&path)?.len();
        if length > DOCUMENT_BYTES_MAX as u64 {
            let message = format!("has {length} bytes; a document has at most {DOCUMENT_BYTES_MAX}");
            return Err(io::Error::other(message));
        }
        fs::read(&path)
    });
    reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// The plans that the document names and the configuration does not have.
fn unknown_plans(document: &Document, name: &str, plans: &Plans) -> Vec<String> {
    let known: Vec<_> = plans.iter().map(|plan| plan.name.as_str()).collect();
    let mut findings = Vec::new();
    for operation in &document.operations {
        for plan in operation.plans.iter().flatten().filter(|plan| !known.contains(&plan.as_str())) {
            findings.push(format!(
                "{name}: {}/x-portico-plans: {} is for the plan `{plan}`, which does not exist; there are {}.",
                operation.pointer,
                operation.id,
                known.join(", ")
            ));
        }
    }
    findings
}

/// What two services both bring.
fn clashes(services: &[LoadedService]) -> Vec<String> {
    let mut findings = Vec::new();
    for (at, service) in services.iter().enumerate() {
        let names = |of: &LoadedService| -> BTreeSet<String> {
            let scopes = of.document.scopes.iter().map(|scope| format!("the scope `{}`", scope.name));
            let events = of.document.events.iter().map(|event| format!("the event type `{}`", event.name));
            let operations = of.document.operations.iter();
            let routes = operations.map(|one| format!("the route {} {}", one.method.name(), one.path));
            let audience = of.settings.audience.iter().map(|audience| format!("the audience {audience}"));
            scopes.chain(events).chain(routes).chain(audience).collect()
        };
        let own = names(service);
        for other in &services[..at] {
            for both in names(other).intersection(&own) {
                let (first, second) = (&other.settings.name, &service.settings.name);
                findings.push(format!("services.{first} and services.{second} both bring {both}"));
            }
        }
    }
    findings
}
