//! Which scopes there are: areas bring them, and operations name one of them.

use portico_kernel::{Problem, ScopeSet};
use serde_json::{Value, json};

/// A scope as an area brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// `noun:verb`: the name on the wire.
    pub name: &'static str,
    /// What it lets a token do, for a person.
    pub description: &'static str,
}

/// Every scope there is, in the order of the areas.
#[derive(Debug, Default)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Adds what an area brings.
    pub(crate) fn extend(&mut self, scopes: Vec<Scope>) {
        self.0.extend(scopes);
    }

    /// Each scope.
    pub fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter()
    }

    /// Is there a scope of that name?
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|scope| scope.name == name)
    }

    /// All of them, for a token that may call everything.
    pub fn all(&self) -> ScopeSet {
        self.0.iter().map(|scope| scope.name).collect()
    }

    /// The set of the names in the field `scopes`; refuses one that is no scope.
    pub fn read(&self, names: &[String]) -> Result<ScopeSet, Problem> {
        match names.iter().position(|name| !self.contains(name)) {
            Some(index) => Err(not_a_scope(&format!("scopes[{index}]"), &names[index])),
            None => Ok(names.iter().collect()),
        }
    }

    /// Refuses a set with a name that is no scope.
    pub fn check(&self, set: &ScopeSet) -> Result<(), Problem> {
        match set.names().find(|name| !self.contains(name)) {
            Some(name) => Err(not_a_scope("scopes", name)),
            None => Ok(()),
        }
    }

    /// The set without the names that are no scope: a stored list may hold one that no area brings any more.
    pub fn known(&self, set: &ScopeSet) -> ScopeSet {
        set.names().filter(|name| self.contains(name)).collect()
    }

    /// Lists the names wherever a schema says that a text is the name of a scope.
    pub fn list_in_schema(&self, schema: &mut Value) {
        match schema {
            Value::Object(object) => {
                if object.get("format").is_some_and(|format| format == ScopeSet::SCHEMA_FORMAT) {
                    object.remove("format");
                    let names: Vec<_> = self.0.iter().map(|scope| scope.name).collect();
                    object.insert("enum".to_owned(), json!(names));
                }
                object.values_mut().for_each(|inner| self.list_in_schema(inner));
            }
            Value::Array(items) => items.iter_mut().for_each(|inner| self.list_in_schema(inner)),
            _ => {}
        }
    }
}

fn not_a_scope(field: &str, name: &str) -> Problem {
    Problem::field(field, format!("`{name}` is not a scope"))
}
