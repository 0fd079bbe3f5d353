//! What kind of value a schema of a document is about, before it is compiled.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::pointer;

/// How many schemas are looked at to find out about one.
const LOOKS_MAX: usize = 1_000;

/// What the schemas about one value say of it.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The types that are named, wherever.
    pub(crate) types: BTreeSet<String>,
    /// The fields that are named, wherever.
    pub(crate) fields: BTreeSet<String>,
}

impl Shape {
    /// Of the schema and whatever is about the same value.
    pub(crate) fn of(document: &Value, schema: &Value) -> Self {
        let mut shape = Self::default();
        let mut about = vec![schema];
        let mut at = 0;
        while let Some(schema) = about.get(at).copied().filter(|_| at < LOOKS_MAX) {
            match schema.get("type") {
                Some(Value::String(one)) => shape.types.extend([one.clone()]),
                Some(Value::Array(several)) => {
                    shape.types.extend(several.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                _ => {}
            }
            shape.fields.extend(
                schema
                    .get("properties")
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.clone()),
            );
            for inner in in_place(document, schema) {
                if !about.iter().any(|known| std::ptr::eq(*known, inner)) {
                    about.push(inner);
                }
            }
            at += 1;
        }
        shape
    }

    pub(crate) fn is_list(&self) -> bool {
        self.types.contains("array")
    }

    pub(crate) fn is_object(&self) -> bool {
        self.types.contains("object") || (self.types.is_empty() && !self.fields.is_empty())
    }
}

/// The schemas about the same value as this one, of those that say what it holds.
fn in_place<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    let branches = ["then", "else"].into_iter().filter_map(|keyword| schema.get(keyword));
    let dependent = schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten();
    let target = pointer::target(document, schema).map(|(_, target)| target);
    lists.flatten().chain(branches).chain(dependent.map(|(_, schema)| schema)).chain(target).collect()
}

/// Is every value that fits the schema an object? A schema that names fields and no type is taken for one of an object.
pub(crate) fn is_object_only(document: &Value, schema: &Value) -> bool {
    ObjectOnly { document, known: HashMap::new() }.of(schema)
}

/// The question above, whose answers are remembered: choices within choices would ask it without end.
struct ObjectOnly<'a> {
    document: &'a Value,
    known: HashMap<*const Value, bool>,
}

impl<'a> ObjectOnly<'a> {
    fn of(&mut self, schema: &'a Value) -> bool {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        // A ring says nothing.
        self.known.insert(schema, false);
        let is = self.ask(schema);
        self.known.insert(schema, is);
        is
    }

    fn ask(&mut self, schema: &'a Value) -> bool {
        if let Some(kind) = schema.get("type") {
            let kinds = kind.as_array();
            return kind == "object" || kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind == "object"));
        }
        if schema.get("properties").is_some() {
            return true;
        }
        let document = self.document;
        let list =
            |keyword: &str| schema.get(keyword).and_then(Value::as_array).filter(|list| !list.is_empty());
        pointer::target(document, schema).is_some_and(|(_, target)| self.of(target))
            || list("allOf").is_some_and(|parts| parts.iter().any(|part| self.of(part)))
            || list("anyOf").is_some_and(|choices| choices.iter().all(|choice| self.of(choice)))
            || list("oneOf").is_some_and(|choices| choices.iter().all(|choice| self.of(choice)))
    }
}
