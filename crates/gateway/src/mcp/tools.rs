//! The tools, derived from the registry: an operation whose `Spec` says `tool` is one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use portico_engine::input::{Fields, Node};
use portico_engine::{Catalog, Engine, Entry, EntryPoint, Spec};
use portico_kernel::{Caller, Code, Problem, Role};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::json;

use super::schema::{self, names_account};

/// An operation as a tool.
pub(super) struct ToolEntry {
    pub(super) entry: Arc<Entry>,
    pub(super) tool: portico_engine::Tool,
    /// As `tools/list` shows it.
    listed: String,
}

/// Every tool, by name.
pub(crate) struct Tools {
    all: Vec<ToolEntry>,
    names: HashMap<&'static str, usize>,
}

impl Tools {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let tool =
            |entry: &Arc<Entry>| entry.spec.tool.map(|tool| ToolEntry::new(catalog, entry.clone(), tool));
        let mut all: Vec<_> = catalog.entries().iter().filter_map(tool).collect();
        all.sort_by_key(|tool| tool.tool.name);
        let names = all.iter().enumerate().map(|(at, tool)| (tool.tool.name, at)).collect();
        Self { all, names }
    }

    pub(super) fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.names.get(name).and_then(|at| self.all.get(*at))
    }

    /// The tools that the caller may call, as JSON: no other is shown, and each that is shown can be called.
    pub(super) async fn listed(&self, engine: &Engine, caller: &Arc<Caller>) -> Result<Vec<&str>, Problem> {
        let mut roles = Roles::default();
        let mut listed = Vec::new();
        for tool in self.all.iter().filter(|tool| tool.missing(caller).is_empty()) {
            if roles.allow(engine, tool.entry.spec, caller).await? {
                listed.push(tool.listed.as_str());
            }
        }
        Ok(listed)
    }

    /// The tools that are not shown, by what the token or its person would need for them.
    pub(super) async fn hidden(
        &self,
        engine: &Engine,
        caller: &Arc<Caller>,
    ) -> Result<BTreeMap<String, Vec<&'static str>>, Problem> {
        let mut roles = Roles::default();
        let mut hidden: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
        for tool in &self.all {
            let (spec, missing) = (tool.entry.spec, tool.missing(caller));
            let mut needed: Vec<_> = missing.iter().map(|scope| (*scope).to_owned()).collect();
            if missing.is_empty() && !roles.allow(engine, spec, caller).await? {
                needed.push(format!("the role {}", spec.role.name()));
            }
            if !needed.is_empty() {
                hidden.entry(needed.join(" and ")).or_default().push(tool.tool.name);
            }
        }
        Ok(hidden)
    }
}

/// What the caller's role allows, each asked once.
#[derive(Default)]
struct Roles(Vec<(Role, bool)>);

impl Roles {
    /// May the caller do it in their account? Whoever acts for a person may do what the person may.
    async fn allow(&mut self, engine: &Engine, spec: &Spec, caller: &Arc<Caller>) -> Result<bool, Problem> {
        if let Some((_, may)) = self.0.iter().find(|(role, _)| *role == spec.role) {
            return Ok(*may);
        }
        let may = match engine.admit(spec, EntryPoint::Tool, caller.clone(), &Fields::new()).await {
            Ok(_) => true,
            Err(problem) if problem.code() == Code::Forbidden => false,
            Err(problem) => return Err(problem),
        };
        self.0.push((spec.role, may));
        Ok(may)
    }
}

impl ToolEntry {
    fn new(catalog: &Catalog, entry: Arc<Entry>, tool: portico_engine::Tool) -> Self {
        let spec = entry.spec;
        let (description, input) = schema::input(&entry);
        let description = [description.as_str(), tool.hint].join(" ").trim().to_owned();
        let annotations = ToolAnnotations::new()
            .read_only(spec.only_reads())
            .destructive(tool.irreversible)
            .idempotent(spec.is_idempotent())
            .open_world(spec.reaches_out());
        let mut listed = Tool::new(tool.name, description, input).with_title(tool.title);
        // A service's answer may be no object, of which alone a schema can be told.
        if !entry.is_documented() {
            listed = listed.with_raw_output_schema(Arc::new(schema::output(&entry)));
        }
        let listed = listed.with_annotations(annotations);
        let mut listed = json!(listed);
        catalog.scopes().list_in_schema(&mut listed);
        Self { entry, tool, listed: listed.to_string() }
    }

    /// The scopes of the tool that the caller lacks.
    pub(super) fn missing(&self, caller: &Caller) -> Vec<&'static str> {
        EntryPoint::Tool.missing(self.entry.spec, caller)
    }

    /// Would the operation take this message?
    pub(super) fn checked(&self, message: &Fields) -> Result<(), Problem> {
        self.entry.check(message.clone())
    }

    /// Fills in the token's account, which the assistant need not name.
    pub(super) fn fill_account(&self, caller: &Caller, fields: &mut Fields) {
        let Some(account) = caller.org else { return };
        for name in self.entry.spec.variables().filter(|name| names_account(name)) {
            if fields.get(name).is_none_or(|named| *named == Node::Null) {
                fields.insert(name.to_owned(), Node::Text(account.to_string()));
            }
        }
    }
}
