//! A service in the platform's own document.

mod answers;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::bundle::{self, Names};
use crate::model::{self, Kind};
use crate::operation::{Method, Operation};
use crate::pointer;
use crate::{Document, Security};

/// What becomes of the errors of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// They come in the platform's envelope.
    Envelope,
    /// They pass as the service makes them.
    Pass,
}

/// How a service stands in the platform's document.
pub struct Mount<'a> {
    /// The name of the service.
    pub service: &'a str,
    /// What becomes of its errors.
    pub errors: Errors,
    /// Are requests checked before they reach the service? Then the bodies that callers are told of are closed.
    pub checks_requests: bool,
    /// Names of schemas that the platform or another service uses, in whichever cut: a schema of such a name gets the
    /// name of the service in front, in every cut alike.
    pub taken: &'a BTreeSet<String>,
    /// Whether an operation stands in this cut.
    pub keeps: &'a dyn Fn(&Operation) -> bool,
}

const SCHEMAS: &str = "/components/schemas";

/// New names of the service's schemas, and which of them are needed.
struct Schemas<'a> {
    mount: &'a Mount<'a>,
    names: BTreeMap<String, String>,
    used: BTreeSet<String>,
    waiting: Vec<String>,
}

impl Schemas<'_> {
    /// The name of a component for this place of the service's document.
    fn name(&mut self, place: &str) -> String {
        if let Some(name) = self.names.get(place) {
            return name.clone();
        }
        let last = pointer::steps(place).last().unwrap_or_default();
        let is_component = place.strip_prefix(SCHEMAS).is_some_and(|rest| rest.matches('/').count() == 1);
        let mut name = last.clone();
        if !is_component || self.mount.taken.contains(&name) || self.used.contains(&name) {
            name = format!("{}.{last}", self.mount.service);
        }
        let plain = name.clone();
        let mut number = 2;
        while self.used.contains(&name) || self.mount.taken.contains(&name) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        self.used.insert(name.clone());
        self.names.insert(place.to_owned(), name.clone());
        self.waiting.push(place.to_owned());
        name
    }
}

impl Names for Schemas<'_> {
    fn reference(&mut self, place: &str) -> String {
        // A place within a component stays one.
        let within = place.strip_prefix(SCHEMAS).and_then(|rest| {
            let end = rest.get(1..)?.find('/')? + 1;
            Some((place[..SCHEMAS.len() + end].to_owned(), rest[end..].to_owned()))
        });
        let (component, rest) = within.unwrap_or_else(|| (place.to_owned(), String::new()));
        format!("#{SCHEMAS}/{}{rest}", self.name(&component))
    }
}

impl Document {
    /// The names of the schemas in the document's components, those included that are made where requests are checked.
    pub fn schema_names(&self, checks_requests: bool) -> impl Iterator<Item = &str> {
        self.published(checks_requests)
            .pointer(SCHEMAS)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
    }

    /// Puts the service into a document of the platform: its paths, its tags and the schemas that they need. What says
    /// where it is and who may call it is replaced by the platform's own words, and what it says to Portico alone is
    /// left out; so are links and callbacks, which are about other addresses.
    pub fn merge_into(&self, platform: &mut Value, mount: &Mount<'_>) {
        let source = self.published(mount.checks_requests);
        let names = self.schema_names(mount.checks_requests);
        let own: BTreeSet<String> =
            names.filter(|name| !mount.taken.contains(*name)).map(str::to_owned).collect();
        let mut schemas =
            Schemas { mount, names: BTreeMap::new(), used: BTreeSet::new(), waiting: Vec::new() };
        // Names are given in one order, whatever the cut holds: the own names first, then those that are made.
        for name in own {
            schemas.name(&pointer::join(SCHEMAS, &name));
        }
        for target in schema_targets(source) {
            schemas.reference(&target);
        }
        schemas.waiting.clear();
        let mut needed = Needed::default();
        let tags = self.tags(platform, mount.service);
        let mut used_tags = BTreeSet::new();
        for operation in self.operations.iter().filter(|operation| (mount.keeps)(operation)) {
            let described = describe(source, operation, mount, &tags, &mut schemas);
            needed.note(&described);
            for tag in described["tags"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                used_tags.insert(tag.to_owned());
            }
            let path = member(member(platform, "paths"), &operation.path);
            path[operation.method.name().to_lowercase()] = described;
        }
        self.add_tags(platform, mount.service, &tags, &used_tags);
        add_schemas(source, platform, &mut schemas, needed);
    }

    /// The names that the document's tags have in the platform's.
    fn tags(&self, platform: &Value, service: &str) -> BTreeMap<String, String> {
        let taken = platform.get("tags").and_then(Value::as_array).into_iter().flatten();
        let taken: BTreeSet<_> = taken.filter_map(|tag| tag.get("name")?.as_str()).collect();
        let own = self.operations.iter().flat_map(|operation| &operation.tags);
        own.map(|tag| {
            let is_taken = taken.contains(tag.as_str()) || tag == service;
            (tag.clone(), if is_taken { format!("{service}.{tag}") } else { tag.clone() })
        })
        .collect()
    }

    fn add_tags(
        &self,
        platform: &mut Value,
        service: &str,
        tags: &BTreeMap<String, String>,
        used: &BTreeSet<String>,
    ) {
        let described = self.source.get("tags").and_then(Value::as_array);
        let mut found = Vec::new();
        for name in used {
            let own = tags.iter().find(|(_, given)| *given == name).map(|(own, _)| own.as_str());
            let tag =
                described.into_iter().flatten().find(|tag| tag.get("name").and_then(Value::as_str) == own);
            let said = tag.and_then(|tag| tag.get("description")).and_then(Value::as_str);
            let description = match said {
                Some(said) => said.to_owned(),
                None if name == service && !self.description.is_empty() => {
                    format!("{}. {}", self.title, self.description)
                }
                None => format!("Operations of {}.", self.title),
            };
            found.push(json!({ "name": name, "description": description }));
        }
        if let Some(tags) = list(platform, "tags") {
            tags.append(&mut found);
        }
    }
}

/// Every place that a schema is referred to at.
fn schema_targets(source: &Value) -> BTreeSet<String> {
    let mut targets = BTreeSet::new();
    model::walk(source, Kind::Document, &mut String::new(), &mut |kind, _, value| {
        if kind == Kind::Schema {
            targets.extend(pointer::target(source, value).map(|(target, _)| target));
        }
        true
    });
    targets
}

/// Adds the schemas that are needed, and those that these need.
fn add_schemas(source: &Value, platform: &mut Value, schemas: &mut Schemas<'_>, mut needed: Needed) {
    let mut added = BTreeSet::new();
    while let Some(name) = needed.0.pop() {
        if !added.insert(name.clone()) {
            continue;
        }
        let place = schemas.names.iter().find(|(_, given)| **given == name).map(|(place, _)| place.clone());
        let Some(mut schema) = place.and_then(|place| source.pointer(&place).cloned()) else {
            continue;
        };
        bundle::rename(source, &mut schema, Kind::Schema, schemas);
        without_extensions(&mut schema, Kind::Schema);
        needed.note(&schema);
        member(member(platform, "components"), "schemas")[&name] = schema;
    }
}

/// One operation in the platform's words.
fn describe(
    source: &Value,
    operation: &Operation,
    mount: &Mount<'_>,
    tags: &BTreeMap<String, String>,
    schemas: &mut Schemas<'_>,
) -> Value {
    let mut described = source.pointer(&operation.pointer).cloned().unwrap_or_default();
    let item = operation.pointer.rsplit_once('/').and_then(|(item, _)| source.pointer(item));
    let shared = item.and_then(|item| item.get("parameters")).and_then(Value::as_array).cloned();
    let mut parameters: Vec<Value> = shared.unwrap_or_default();
    parameters.extend(described.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default());
    described["parameters"] = parameters.into();
    inline(source, &mut described, Kind::Operation, 0);
    last_of_each(&mut described["parameters"]);
    without_extensions(&mut described, Kind::Operation);
    bundle::rename(source, &mut described, Kind::Operation, schemas);
    if let Value::Object(object) = &mut described {
        object.retain(|name, _| !matches!(name.as_str(), "servers" | "callbacks" | "externalDocs"));
    }
    let name = format!("{}.{}", mount.service, operation.id);
    if operation.summary.is_empty() {
        described["summary"] = json!(operation.id);
    }
    if let (None, Value::Object(object)) = (&operation.body, &mut described) {
        object.remove("requestBody");
    }
    described["operationId"] = json!(name);
    described["x-platform-rpc"] = json!(name);
    described["x-platform-public"] = json!(true);
    described["security"] = security(&operation.security);
    let named: Vec<_> = operation.tags.iter().filter_map(|tag| tags.get(tag)).collect();
    described["tags"] = if named.is_empty() { json!([mount.service]) } else { json!(named) };
    if operation.security != Security::Open {
        let (category, units) = (operation.category.name(), operation.price().to_string());
        described["x-platform-units"] = json!({ "category": category, "units": units });
    }
    if let Some(tool) = &operation.tool {
        described["x-platform-tool"] = json!({ "name": tool.name, "scopes": [operation.tool_scope()] });
    }
    answers::responses(&mut described, operation, mount.errors);
    described
}

impl Operation {
    /// The units that a call costs, unless its answer says otherwise. Where no token is asked for, nobody pays.
    pub fn price(&self) -> u64 {
        if self.security == Security::Open {
            return 0;
        }
        self.units.unwrap_or_else(|| u64::try_from(self.category.units()).unwrap_or_default())
    }

    /// The scope that its tool asks for.
    pub fn tool_scope(&self) -> &'static str {
        if self.method == Method::Get { "mcp:read" } else { "mcp:write" }
    }
}

/// The components that are still to be added.
#[derive(Default)]
struct Needed(Vec<String>);

impl Needed {
    fn note(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                for (key, inner) in object {
                    let name = inner.as_str().and_then(|text| text.strip_prefix("#/components/schemas/"));
                    match name {
                        // A mapping of a discriminator holds references too.
                        Some(name) => {
                            let name = name.split('/').next().unwrap_or_default();
                            self.0.extend(pointer::steps(&format!("/{name}")));
                        }
                        None if key == "example" => {}
                        None => self.note(inner),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|inner| self.note(inner)),
            _ => {}
        }
    }
}

/// The object under `name`, made where there is none.
fn member<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = json!({});
    }
    let inner = &mut value[name];
    if inner.is_null() {
        *inner = json!({});
    }
    inner
}

fn list<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Vec<Value>> {
    let inner = &mut value[name];
    if inner.is_null() {
        *inner = json!([]);
    }
    inner.as_array_mut()
}

/// Puts what references lead to in their place, except for schemas, which are components.
fn inline(document: &Value, value: &mut Value, kind: Kind, depth: usize) {
    if depth > 16 {
        return;
    }
    model::change(value, kind, &mut |kind, object| {
        if kind == Kind::Schema || !object.contains_key("$ref") {
            return;
        }
        let said = object.remove("description");
        let reference = Value::Object(object.clone());
        let (_, target) = pointer::resolve(document, String::new(), &reference);
        let mut target = target.clone();
        inline(document, &mut target, kind, depth + 1);
        if let Value::Object(mut target) = target {
            target.extend(said.map(|said| ("description".to_owned(), said)));
            *object = target;
        }
    });
}

/// Of parameters with the same name and place, the last: those of the operation win over those of its path.
fn last_of_each(parameters: &mut Value) {
    let Some(list) = parameters.as_array_mut() else { return };
    let key = |one: &Value| (one["in"].clone(), one["name"].clone());
    let keys: Vec<_> = list.iter().map(key).collect();
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        !keys[index..].contains(&keys[index - 1])
    });
}

fn without_extensions(value: &mut Value, kind: Kind) {
    model::change(value, kind, &mut |kind, object| {
        object.retain(|name, _| !name.starts_with("x-portico-") && !name.starts_with("x-platform-"));
        if kind == Kind::Response {
            object.remove("links");
        }
    });
}

fn security(security: &Security) -> Value {
    match security {
        Security::Open => json!([]),
        Security::AnyOf(lists) => lists.iter().map(|scopes| json!({ "bearer": scopes })).collect(),
    }
}

/// The names of the schemas in a document's components, as [`Mount::taken`] wants them.
impl Mount<'_> {
    /// The names of the schemas of a document, such as the platform's whole one.
    pub fn names_in(document: &Value) -> BTreeSet<String> {
        let schemas = document.pointer(SCHEMAS).and_then(Value::as_object);
        schemas.map(Map::keys).into_iter().flatten().cloned().collect()
    }
}
