//! What is known of an action but its request.

use std::collections::BTreeSet;

use portico_kernel::text_enum;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::fault::Fault;
use crate::field::{DESCRIPTION_MAX, Field, FieldDefinition};
use crate::source::Table;
use crate::text::{is_action_name, shown};

/// The most parameters of an action.
pub(crate) const PARAMS_MAX: usize = 50;

text_enum! {
    /// What a call can do to the provider's data; a later one is stricter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Class {
        /// It changes nothing.
        Read = "read",
        /// What it changes can be changed back.
        WriteReversible = "write_reversible",
        /// It cannot be taken back.
        WriteIrreversible = "write_irreversible",
    }
}

text_enum! {
    /// Who sends a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Executor {
        /// This server.
        Cloud = "cloud",
        /// A program in the customer's network.
        Agent = "agent",
    }
}

/// An action, as the catalogue shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActionDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it can do to the provider's data: `read`, `write_reversible` or `write_irreversible`.
    pub class: String,
    /// Who can send it: `cloud`, `agent`.
    pub executors: Vec<String>,
    /// Its parameters.
    pub params: Vec<FieldDefinition>,
    /// A JSON Schema of its parameters, as text.
    pub schema: String,
    /// Whether its answer may hold what cannot be read without the credential.
    pub reads_private: bool,
    /// Whether its answer may hold text that others wrote.
    pub reads_untrusted: bool,
    /// Whether what the caller writes can reach others.
    pub sends_out: bool,
}

/// What is known of an action but its request: of a connector's, an endpoint's, or an inbound webhook's.
#[derive(Debug, Clone)]
pub struct ActionSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it can do to the provider's data.
    pub class: Class,
    /// Its answer may hold what cannot be read without the credential.
    pub reads_private: bool,
    /// Its answer may hold text that others wrote.
    pub reads_untrusted: bool,
    /// What the caller writes can reach others.
    pub sends_out: bool,
    pub(crate) params: Vec<Field>,
    pub(crate) executors: &'static [Executor],
}

impl ActionSpec {
    /// Reads what an action says of itself.
    pub(crate) fn read(table: &Table<'_>) -> Option<Self> {
        let name = table.required("name").and_then(|node| node.parse(32, action_name));
        let names: Vec<_> = Class::ALL.iter().map(|class| class.name()).collect();
        let class = table.required("class").and_then(|node| node.choice(&names, Class::parse));
        let label = |name| table.required(name).and_then(|node| node.flag());
        let labels = (label("reads_private"), label("reads_untrusted"), label("sends_out"));
        let params: Vec<Field> = table.list("params", PARAMS_MAX, Field::read_param);
        let mut seen = BTreeSet::new();
        for param in params.iter().filter(|param| !seen.insert(&param.name)) {
            table.fault("params", format!("has {} twice", param.name));
        }
        let description = table.text("description", DESCRIPTION_MAX);
        let (Some(reads_private), Some(reads_untrusted), Some(sends_out)) = labels else { return None };
        Some(Self {
            name: name?,
            description,
            class: class?,
            reads_private,
            reads_untrusted,
            sends_out,
            params,
            executors: &[Executor::Cloud],
        })
    }

    /// Its parameters.
    pub fn params(&self) -> Vec<FieldDefinition> {
        self.params.iter().map(Field::definition).collect()
    }

    /// Checks parameters, and gives them with their defaults. Every fault names its `params.x`.
    pub fn check_params(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut checked = Map::new();
        let known: BTreeSet<_> = self.params.iter().map(|param| param.name.as_str()).collect();
        for name in given.keys().filter(|name| !known.contains(name.as_str())) {
            faults.push(Fault::new(format!("params.{}", shown(name)), "is not a parameter of this action"));
        }
        for param in &self.params {
            let value = match given.get(&param.name).filter(|value| !value.is_null()) {
                Some(value) => param.read_value(value),
                None if param.default_value.is_empty() && param.required => Err("is required".to_owned()),
                None if param.default_value.is_empty() => continue,
                None => param.read_text(&param.default_value),
            };
            match value {
                Ok(value) => {
                    checked.insert(param.name.clone(), value);
                }
                Err(message) => faults.push(Fault::new(format!("params.{}", param.name), message)),
            }
        }
        if faults.is_empty() { Ok(checked) } else { Err(faults) }
    }

    /// The JSON Schema of its parameters.
    pub fn schema(&self) -> Value {
        let properties: Map<_, _> =
            self.params.iter().map(|param| (param.name.clone(), param.schema())).collect();
        let is_needed = |param: &&Field| param.required && param.default_value.is_empty();
        let required: Vec<_> =
            self.params.iter().filter(is_needed).map(|param| param.name.as_str()).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Its entry in the catalogue.
    pub fn definition(&self) -> ActionDefinition {
        ActionDefinition {
            name: self.name.clone(),
            description: self.description.clone(),
            class: self.class.name().to_owned(),
            executors: self.executors.iter().map(|executor| executor.name().to_owned()).collect(),
            params: self.params(),
            schema: self.schema().to_string(),
            reads_private: self.reads_private,
            reads_untrusted: self.reads_untrusted,
            sends_out: self.sends_out,
        }
    }
}

fn action_name(text: &str) -> Result<String, String> {
    if is_action_name(text) {
        Ok(text.to_owned())
    } else {
        Err("must be like [a-z][a-z0-9_-]{0,31}".to_owned())
    }
}
