//! Schemas with everything that they refer to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::model::{self, Kind};
use crate::pointer;
use crate::schema::mapped;

/// New names for what references lead to.
pub(crate) trait Names {
    /// The reference that stands for this place from now on.
    fn reference(&mut self, pointer: &str) -> String;
}

/// Rewrites every reference in `value`, those of discriminators included.
pub(crate) fn rename(document: &Value, value: &mut Value, kind: Kind, names: &mut dyn Names) {
    model::change(value, kind, &mut |kind, object| {
        if kind != Kind::Schema {
            return;
        }
        let target = object.get("$ref").and_then(Value::as_str).and_then(pointer::of_reference);
        if let Some(target) = target {
            object.insert("$ref".to_owned(), names.reference(&target).into());
        }
        let mapping = object.get_mut("discriminator").and_then(|chooser| chooser.get_mut("mapping"));
        for target in mapping.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if let Some(found) = target.as_str().and_then(|target| mapped(document, target)) {
                *target = names.reference(&found).into();
            }
        }
    });
}

/// Definitions beside a schema: the name of each place that is referred to.
#[derive(Default)]
struct Definitions {
    names: BTreeMap<String, String>,
    taken: BTreeSet<String>,
    waiting: Vec<String>,
}

impl Names for Definitions {
    fn reference(&mut self, pointer: &str) -> String {
        if let Some(name) = self.names.get(pointer) {
            return format!("#/$defs/{name}");
        }
        let last = pointer::steps(pointer).last().unwrap_or_default();
        let plain: String = last
            .chars()
            .map(|one| if one.is_ascii_alphanumeric() || "._-".contains(one) { one } else { '_' })
            .collect();
        let mut name = plain.clone();
        let mut number = 2;
        while !self.taken.insert(name.clone()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        self.names.insert(pointer.to_owned(), name.clone());
        self.waiting.push(pointer.to_owned());
        format!("#/$defs/{name}")
    }
}

/// The schema at a place, with the schemas that it refers to as its definitions.
pub(crate) fn self_contained(document: &Value, pointer: &str) -> Value {
    with_definitions(document, document.pointer(pointer).cloned().unwrap_or(Value::Bool(true)))
}

/// A schema whose references are those of the document, with what they lead to as its definitions.
pub(crate) fn with_definitions(document: &Value, mut schema: Value) -> Value {
    let mut definitions = Definitions::default();
    rename(document, &mut schema, Kind::Schema, &mut definitions);
    let mut found = Map::new();
    while let Some(pointer) = definitions.waiting.pop() {
        let mut inner = document.pointer(&pointer).cloned().unwrap_or(Value::Bool(true));
        rename(document, &mut inner, Kind::Schema, &mut definitions);
        if let Some(name) = definitions.names.get(&pointer) {
            found.insert(name.clone(), inner);
        }
    }
    if let Value::Object(schema) = &mut schema
        && !found.is_empty()
    {
        schema.insert("$defs".to_owned(), Value::Object(found));
    }
    schema
}
