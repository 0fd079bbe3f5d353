//! A whole document.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::closed;
use crate::event::{self, EventType};
use crate::extensions;
use crate::finding::{Finding, Findings, shown};
use crate::model::{self, Kind};
use crate::operation::{self, Operation, Source};
use crate::pointer;
use crate::refs;
use crate::schema::{self, Builder};
use crate::security::{Schemes, Scope};
use crate::upgrade;
use crate::yaml;

/// The largest document, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 5 << 20;
/// The most operations of one document.
pub const OPERATIONS_MAX: usize = 1_000;

/// The one dialect of JSON Schema, and OpenAPI's own name for it.
const DIALECTS: [&str; 2] =
    ["https://json-schema.org/draft/2020-12/schema", "https://spec.openapis.org/oas/3.1/dialect/base"];

/// The document of one service, read.
#[derive(Debug)]
pub struct Document {
    /// What the service is called.
    pub title: String,
    /// What it is; empty when nothing is said.
    pub description: String,
    /// The version of the service.
    pub version: String,
    /// Its operations, by path and method.
    pub operations: Vec<Operation>,
    /// The scopes that it declares, by name.
    pub scopes: Vec<Scope>,
    /// The event types that it publishes, by name.
    pub events: Vec<EventType>,
    /// The document itself, as one of OpenAPI 3.1.
    pub(crate) source: Arc<Value>,
    /// The same with its requests closed, once somebody has asked for it.
    closed: OnceLock<Arc<Value>>,
}

impl Document {
    /// Reads a document called `name`. Everything that is wrong with it is said at once; only a text that does not
    /// parse, or that is no OpenAPI document at all, is refused by that alone.
    pub fn read(text: &[u8], name: &str) -> Result<Self, Vec<Finding>> {
        let mut findings = Findings::new(name);
        let document = read(text, &mut findings);
        match document.filter(|_| findings.is_empty()) {
            Some(document) => Ok(document),
            None => Err(findings.into_vec()),
        }
    }

    /// The document as callers are to see it: where requests are checked, they are closed.
    pub(crate) fn published(&self, checks_requests: bool) -> &Value {
        if !checks_requests {
            return &self.source;
        }
        self.closed
            .get_or_init(|| closed::closed(&self.source).map_or_else(|| Arc::clone(&self.source), Arc::new))
    }

    /// The operation of this `operationId`.
    pub fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }
}

fn read(text: &[u8], findings: &mut Findings) -> Option<Document> {
    if text.len() > DOCUMENT_BYTES_MAX {
        let (size, most) = (text.len(), DOCUMENT_BYTES_MAX >> 20);
        findings.add("", format!("The document has {size} bytes; {most} MiB are the most."));
        return None;
    }
    let mut source = yaml::read(text, findings)?;
    if !is_openapi(&mut source, findings) {
        return None;
    }
    refs::check(&source, findings);
    check_schemas(&source, findings);
    let source = Arc::new(source);
    let schemes = Schemes::read(&source, findings);
    let mut builder = Builder::new(&source);
    let mut operations = read_paths(&source, &schemes, &mut builder, findings);
    let events = event::read(&source, &mut builder, findings);
    if events.len() > OPERATIONS_MAX {
        let count = events.len();
        findings.add(
            "/webhooks",
            format!("The document has {count} event types; {OPERATIONS_MAX} are the most."),
        );
    }
    let scopes = schemes.into_scopes();
    let compiled = Arc::new(builder.finish(findings));
    for operation in &mut operations {
        operation.finish(&source, &compiled, findings);
    }
    let events = events.into_iter().map(|event| event.finish(&source, &compiled)).collect();
    let title = info(&source, "title");
    if title.is_empty() {
        findings.add("/info/title", "The document has no title; it is what the service is called.");
    }
    let (description, version) = (info(&source, "description"), info(&source, "version"));
    Some(Document {
        title,
        description,
        version,
        operations,
        scopes,
        events,
        source,
        closed: OnceLock::new(),
    })
}

/// Is it a document of a known version? One of 3.0 becomes one of 3.1.
fn is_openapi(source: &mut Value, findings: &mut Findings) -> bool {
    let version = match source.get("openapi") {
        Some(Value::String(version)) => version.clone(),
        _ if source.get("swagger").is_some() => {
            findings.add("/swagger", "This is a document of Swagger 2; OpenAPI 3.0 and 3.1 are read.");
            return false;
        }
        _ => {
            findings.add("", "This is no OpenAPI document: it has no `openapi: 3.1.0`.");
            return false;
        }
    };
    let is = |line: &str| version == line || version.starts_with(&format!("{line}."));
    if is("3.0") {
        upgrade::upgrade(source);
    } else if !is("3.1") {
        let version = shown(&version);
        findings.add("/openapi", format!("OpenAPI {version} is not known; 3.0 and 3.1 are read."));
        return false;
    }
    true
}

/// A text of the document about itself. YAML takes an unquoted version for a number.
fn info(source: &Value, member: &str) -> String {
    match source.get("info").and_then(|info| info.get(member)) {
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Whether every schema is one, of the one dialect.
fn check_schemas(source: &Value, findings: &mut Findings) {
    let check_dialect = |place: String, dialect: &Value, findings: &mut Findings| {
        if !dialect.as_str().is_some_and(|dialect| DIALECTS.contains(&dialect.trim_end_matches('#'))) {
            findings.add(place, "Schemas are read as JSON Schema 2020-12, in no other dialect.");
        }
    };
    if let Some(dialect) = source.get("jsonSchemaDialect") {
        check_dialect("/jsonSchemaDialect".to_owned(), dialect, findings);
    }
    let mut outermost = Vec::new();
    model::walk(source, Kind::Document, &mut String::new(), &mut |kind, place, value| {
        if kind == Kind::Schema {
            if let Some(dialect) = value.get("$schema") {
                check_dialect(pointer::join(place, "$schema"), dialect, findings);
            }
            if !outermost.iter().any(|outer: &String| place.starts_with(outer.as_str())) {
                // Schemas come outside first, and those of one place together.
                outermost.clear();
                outermost.push(format!("{place}/"));
                schema::meta_findings(value, place, findings);
            }
        } else if let (Kind::Document | Kind::PathItem | Kind::Parameter, Some(object)) =
            (kind, value.as_object())
        {
            extensions::refuse_elsewhere(object, place, findings);
        }
        true
    });
}

fn read_paths(
    source: &Value,
    schemes: &Schemes<'_>,
    builder: &mut Builder<'_>,
    findings: &mut Findings,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    let mut forms: BTreeMap<String, &str> = BTreeMap::new();
    let paths = source.get("paths").and_then(Value::as_object);
    if paths.is_none() && source.get("webhooks").is_none() {
        findings.add("/paths", "The document has no paths.");
    }
    for (path, item) in paths.into_iter().flatten().filter(|(path, _)| !path.starts_with("x-")) {
        let place = pointer::join("/paths", path);
        operation::check_path(path, &place, findings);
        if let Some(other) = forms.insert(form(path), path) {
            findings.add(
                &place,
                format!("The paths `{}` and `{}` are the same route.", shown(other), shown(path)),
            );
        }
        let (place, item) = pointer::resolve(source, place, item);
        let from = Source { document: source, schemes, path, item: (&place, item) };
        for method in model::METHODS {
            let operation = item.get(method).filter(|operation| operation.is_object());
            operations
                .extend(operation.and_then(|operation| from.read(method, operation, builder, findings)));
        }
    }
    if operations.len() > OPERATIONS_MAX {
        let count = operations.len();
        findings
            .add("/paths", format!("The document has {count} operations; {OPERATIONS_MAX} are the most."));
    }
    check_names(&operations, findings);
    operations
}

/// A path without the names of its variables.
fn form(path: &str) -> String {
    let segments = path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// Names that stand for two operations.
fn check_names(operations: &[Operation], findings: &mut Findings) {
    let mut ids: BTreeMap<&str, &Operation> = BTreeMap::new();
    let mut tools: BTreeMap<&str, &Operation> = BTreeMap::new();
    for operation in operations {
        let route = |operation: &Operation| format!("{} {}", operation.method.name(), shown(&operation.path));
        if let Some(other) = ids.insert(&operation.id, operation).filter(|_| !operation.id.is_empty()) {
            let (one, two) = (route(other), route(operation));
            let place = pointer::join(&operation.pointer, "operationId");
            findings.add(
                place,
                format!("`{}` is the name of two operations: {one} and {two}.", shown(&operation.id)),
            );
        }
        let Some(tool) = &operation.tool else { continue };
        if let Some(other) = tools.insert(&tool.name, operation) {
            let (one, two) = (route(other), route(operation));
            let place = pointer::join(&operation.pointer, "x-portico-tool");
            findings.add(place, format!("`{}` is the name of two tools: {one} and {two}.", tool.name));
        }
    }
}
