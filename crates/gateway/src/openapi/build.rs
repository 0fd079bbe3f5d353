//! A whole document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use portico_engine::Catalog;
use portico_openapi::{Errors, Mount, Operation};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{Cut, hash, operation, problem};
use crate::forward::{Service, ServiceOperation};

const DEFINITIONS: &str = "/components/schemas";
const INTRODUCTION: &str = "Everything a developer needs beside the product itself: identity, accounts with keys and \
    scopes, units, audit and events. Input is strict: a name that is not known, or given twice, is refused, and no text may hold a null character. Every \
    refusal is a `Problem`, and every answer carries `x-request-id`.";

/// Makes schemas of answers, whose parts stand in the document by name.
fn answers() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings
        .with(|settings| {
            settings.definitions_path = DEFINITIONS.into();
            settings.meta_schema = None;
        })
        .into_generator()
}

/// The document of what `cut` holds.
pub fn document(catalog: &Catalog, base_url: &str, cut: &Cut) -> Value {
    let mut generator = answers();
    let mut paths = Map::new();
    let mut areas = BTreeSet::new();
    let of_areas = catalog.entries().iter().filter(|entry| !entry.is_documented());
    for entry in of_areas.filter(|entry| cut.holds(entry)) {
        let path = paths.entry(entry.spec.path).or_insert_with(|| json!({}));
        path[entry.spec.method.name().to_lowercase()] = operation::describe(entry, &mut generator);
        areas.insert(entry.area);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.extend(problem::schemas());
    let components = json!({
        "schemas": schemas,
        "responses": problem::responses(),
        "headers": problem::headers(),
        "securitySchemes": { "bearer": {
            "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
            "description": "An API token, or a token that a key was exchanged for. `info.x-platform-scopes` says what each scope lets it do.",
        } },
    });
    let mut components = prune(components, &paths);
    catalog.scopes().list_in_schema(&mut components);
    paths.values_mut().for_each(|path| catalog.scopes().list_in_schema(path));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portico",
            "version": env!("CARGO_PKG_VERSION"),
            "description": INTRODUCTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "x-platform-scopes": scopes(catalog),
            "x-platform-cut": { "plan": cut.plan, "account": cut.account, "scopes": cut.scopes.clone().unwrap_or_default() },
        },
        "servers": [{ "url": base_url, "description": "This server." }],
        "tags": areas.into_iter().map(|area| json!({ "name": area, "description": tag(area) })).collect::<Vec<_>>(),
        "paths": paths,
        "components": components,
    });
    add_services(&mut document, catalog, cut);
    let hash = hash::of(document["paths"].as_object().unwrap_or(&Map::new()), &document["components"]);
    document["info"]["x-platform-cut"]["hash"] = json!(hash);
    document
}

/// Puts in what the cut holds of a company's own services.
fn add_services(document: &mut Value, catalog: &Catalog, cut: &Cut) {
    let mut services: BTreeMap<&str, &Arc<Service>> = BTreeMap::new();
    let operations = catalog.entries().iter().filter_map(|entry| entry.document::<ServiceOperation>());
    for operation in operations {
        services.insert(operation.service.name, &operation.service);
    }
    if services.is_empty() {
        return;
    }
    let mut taken = schema_names(catalog);
    let mut titles = Map::new();
    for (name, service) in services {
        let keeps = |operation: &Operation| {
            let entry = catalog.entry(&format!("{name}.{}", operation.id));
            entry.is_some_and(|entry| cut.holds(entry))
        };
        let errors = if service.wraps_errors { Errors::Envelope } else { Errors::Pass };
        let checks_requests = service.checks_requests;
        let mount = Mount { service: name, errors, checks_requests, taken: &taken, keeps: &keeps };
        service.document.merge_into(document, &mount);
        if service.document.operations.iter().any(keeps) {
            titles.insert(name.to_owned(), json!({ "title": service.document.title }));
        }
        taken.extend(service.document.schema_names(checks_requests).map(str::to_owned));
    }
    document["info"]["x-platform-services"] = titles.into();
}

/// Every component that `value` refers to.
fn references<'a>(value: &'a Value, into: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(object) => {
            into.extend(object.get("$ref").and_then(Value::as_str));
            object.values().for_each(|inner| references(inner, into));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, into)),
        _ => {}
    }
}

/// The components that are used, by the paths or by each other.
fn prune(mut components: Value, paths: &Map<String, Value>) -> Value {
    loop {
        let before = components.clone();
        let mut used = BTreeSet::new();
        paths.values().for_each(|path| references(path, &mut used));
        references(&before, &mut used);
        for kind in ["schemas", "responses", "headers"] {
            if let Some(named) = components[kind].as_object_mut() {
                named.retain(|name, _| used.contains(format!("#/components/{kind}/{name}").as_str()));
            }
        }
        if components == before {
            return components;
        }
    }
}

/// The names of the schemas of the areas, whatever a cut holds of them.
fn schema_names(catalog: &Catalog) -> BTreeSet<String> {
    let mut generator = answers();
    for entry in catalog.entries().iter().filter(|entry| !entry.is_documented()) {
        entry.answer_schema(&mut generator);
    }
    let definitions = generator.take_definitions(true);
    definitions.into_iter().chain(problem::schemas()).map(|(name, _)| name).collect()
}

fn tag(area: &str) -> String {
    format!("Operations of the area `{area}`.")
}

/// What each scope lets a token do.
fn scopes(catalog: &Catalog) -> Vec<Value> {
    let scopes = catalog.scopes().iter();
    scopes.map(|scope| json!({ "name": scope.name, "description": scope.description })).collect()
}
