//! A whole document.

use std::collections::BTreeSet;

use portico_engine::Catalog;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{Cut, hash, operation, problem};

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
    for entry in catalog.entries().iter().filter(|entry| cut.holds(entry)) {
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
            "description": format!("An API token, or a token that a key was exchanged for. {}", scopes(catalog)),
        } },
    });
    let mut components = prune(components, &paths);
    catalog.scopes().list_in_schema(&mut components);
    paths.values_mut().for_each(|path| catalog.scopes().list_in_schema(path));
    let hash = hash::of(&paths, &components);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Portico",
            "version": env!("CARGO_PKG_VERSION"),
            "description": INTRODUCTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "x-platform-cut": { "plan": cut.plan, "account": cut.account, "scopes": cut.scopes.clone().unwrap_or_default(), "hash": hash },
        },
        "servers": [{ "url": base_url, "description": "This server." }],
        "tags": areas.into_iter().map(|area| json!({ "name": area, "description": tag(area) })).collect::<Vec<_>>(),
        "paths": paths,
        "components": components,
    })
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

fn tag(area: &str) -> String {
    format!("Operations of the area `{area}`.")
}

/// What each scope lets a token do.
fn scopes(catalog: &Catalog) -> String {
    let lines = catalog.scopes().iter().map(|scope| format!("`{}`: {}", scope.name, scope.description));
    format!("Scopes: {}", lines.collect::<Vec<_>>().join(" "))
}
