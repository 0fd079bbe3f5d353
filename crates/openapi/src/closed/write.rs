//! Writes into a document what was found out about its requests.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::reach::Reach;
use super::{targets, unit};
use crate::pointer;

const SCHEMAS: &str = "/components/schemas";

/// The document with these places closed, in copies where something else needs them as they are.
pub(super) fn write(
    document: &Value,
    visited: &BTreeSet<String>,
    marks: &BTreeSet<String>,
    open: &Reach,
) -> Value {
    let copies = Copies::new(document, visited, marks, open);
    let mut closed = document.clone();
    if closed.pointer(SCHEMAS).is_none() && !copies.places.is_empty() {
        closed["components"]["schemas"] = json!({});
    }
    if let Some(schemas) = closed.pointer_mut(SCHEMAS).and_then(Value::as_object_mut) {
        for (unit, name) in &copies.places {
            schemas.insert(name.clone(), document.pointer(unit).cloned().unwrap_or_default());
        }
    }
    for place in visited.iter().filter(|place| copies.may_change(place)) {
        if let Some(Value::Object(schema)) = closed.pointer_mut(&copies.place(place)) {
            copies.redirect(document, place, schema);
            if marks.contains(place) {
                schema.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
    }
    closed
}

/// The closed copies of schemas that must stay as they are for others.
struct Copies<'a> {
    /// The name of each copy, by what it is a copy of.
    places: BTreeMap<String, String>,
    open: &'a Reach,
}

impl<'a> Copies<'a> {
    fn new(document: &Value, visited: &BTreeSet<String>, marks: &BTreeSet<String>, open: &'a Reach) -> Self {
        let needs_copy = |unit: &String| open.holds(unit) && open.can_be_copied(unit);
        // Those that refer to each schema.
        let mut from: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for place in visited {
            let schema = document.pointer(place).unwrap_or(&Value::Null);
            for target in targets(document, schema) {
                from.entry(unit(&target)).or_default().insert(unit(place));
            }
        }
        let mut found = BTreeSet::new();
        let mut waiting: Vec<_> = marks.iter().map(|mark| unit(mark)).collect();
        while let Some(unit) = waiting.pop() {
            if needs_copy(&unit) && found.insert(unit.clone()) {
                waiting.extend(from.get(&unit).into_iter().flatten().cloned());
            }
        }
        Self { places: names(document, &found), open }
    }

    /// Is the place one that requests alone need, or has it a copy?
    fn may_change(&self, place: &str) -> bool {
        let unit = unit(place);
        self.places.contains_key(&unit) || !self.open.holds(&unit)
    }

    /// Where requests find what stood at this place.
    fn place(&self, place: &str) -> String {
        let unit = unit(place);
        let copy = self.places.get(&unit);
        copy.map_or_else(
            || place.to_owned(),
            |name| format!("{}{}", pointer::join(SCHEMAS, name), &place[unit.len()..]),
        )
    }

    /// The reference to the copy of what stands at this place, if there is one.
    fn reference(&self, place: &str) -> Option<Value> {
        let is_copied = self.places.contains_key(&unit(place));
        is_copied.then(|| format!("#{}", self.place(place).replace('%', "%25")).into())
    }

    /// Makes the references of a schema lead to the copies.
    fn redirect(&self, document: &Value, place: &str, schema: &mut Map<String, Value>) {
        let Some(before) = document.pointer(place) else { return };
        let target = pointer::target(document, before).and_then(|(target, _)| self.reference(&target));
        if let Some(target) = target {
            schema.insert("$ref".to_owned(), target);
        }
        let Some(chooser) = schema.get_mut("discriminator").and_then(Value::as_object_mut) else { return };
        let mut mapping = chooser.get("mapping").and_then(Value::as_object).cloned().unwrap_or_else(Map::new);
        let mut mapped = BTreeSet::new();
        for target in mapping.values_mut() {
            let Some(found) = target.as_str().and_then(|target| crate::schema::mapped(document, target))
            else {
                continue;
            };
            if let Some(reference) = self.reference(&found) {
                *target = reference;
            }
            mapped.insert(found);
        }
        // A choice that the mapping does not name goes by the name of its schema, which is not that of the copy.
        for target in choices(document, before).difference(&mapped) {
            if let (Some(reference), Some(name)) = (self.reference(target), pointer::steps(target).last()) {
                mapping.insert(name, reference);
            }
        }
        if !mapping.is_empty() {
            chooser.insert("mapping".to_owned(), Value::Object(mapping));
        }
    }
}

/// What the choices of a schema refer to.
fn choices(document: &Value, schema: &Value) -> BTreeSet<String> {
    let lists = ["oneOf", "anyOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    lists.flatten().filter_map(|choice| pointer::target(document, choice)).map(|(target, _)| target).collect()
}

/// The names of copies, none of which the document uses already.
fn names(document: &Value, units: &BTreeSet<String>) -> BTreeMap<String, String> {
    let schemas = document.pointer(SCHEMAS).and_then(Value::as_object);
    let mut taken: BTreeSet<String> = schemas.map(Map::keys).into_iter().flatten().cloned().collect();
    let mut names = BTreeMap::new();
    for unit in units {
        let plain = format!("{}Request", pointer::steps(unit).last().unwrap_or_default());
        let mut name = plain.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        names.insert(unit.clone(), name);
    }
    names
}
