//! What the schemas about one value say together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::pointer;

/// How many schemas are looked at for one value.
const PARTS_MAX: usize = 200;

/// What the schemas about one value say together, through references and `allOf`.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The types; empty for any.
    pub(super) types: BTreeSet<String>,
    pub(super) values: Option<Vec<Value>>,
    /// The fields, and where their schemas stand.
    pub(super) fields: BTreeMap<String, String>,
    pub(super) required: BTreeSet<String>,
    /// Are other fields allowed?
    pub(super) open: bool,
    pub(super) items: Option<String>,
    pub(super) additional: Option<String>,
    /// The choices of `anyOf` and `oneOf` by what they are called.
    pub(super) choices: BTreeMap<String, String>,
    /// The keywords that bound a value, with their values.
    pub(super) bounds: BTreeMap<&'static str, Value>,
}

/// Keywords that bound a value, and whether more is narrower; none for those that are other or not.
pub(super) const BOUNDS: [(&str, Option<bool>); 13] = [
    ("minimum", Some(true)),
    ("exclusiveMinimum", Some(true)),
    ("minLength", Some(true)),
    ("minItems", Some(true)),
    ("minProperties", Some(true)),
    ("maximum", Some(false)),
    ("exclusiveMaximum", Some(false)),
    ("maxLength", Some(false)),
    ("maxItems", Some(false)),
    ("maxProperties", Some(false)),
    ("pattern", None),
    ("format", None),
    ("multipleOf", None),
];

impl View {
    pub(super) fn of(document: &Value, place: &str) -> Self {
        let mut view = Self::default();
        let mut places = vec![place.to_owned()];
        let mut at = 0;
        while let Some(place) = places.get(at).cloned().filter(|_| at < PARTS_MAX) {
            at += 1;
            let Some(value) = document.pointer(&place) else { continue };
            view.open |= *value == Value::Bool(true);
            let Some(schema) = value.as_object() else { continue };
            view.add(document, &place, schema);
            let target = pointer::target(document, value).map(|(target, _)| target);
            let parts = schema.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
            let parts = (0..parts).map(|index| format!("{place}/allOf/{index}"));
            for inner in target.into_iter().chain(parts) {
                if !places.contains(&inner) {
                    places.push(inner);
                }
            }
        }
        view
    }

    fn add(&mut self, document: &Value, place: &str, schema: &Map<String, Value>) {
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        let texts = |list: &Vec<Value>| -> BTreeSet<String> {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        match schema.get("type") {
            Some(Value::String(one)) => self.types.extend([one.clone()]),
            Some(Value::Array(several)) => self.types.extend(texts(several)),
            _ => {}
        }
        let only = schema.get("const").map(|only| vec![only.clone()]);
        self.values = only.or_else(|| list("enum").cloned()).or(self.values.take());
        let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let fields = pointer::join(place, "properties");
        self.fields.extend(named.map(|(name, _)| (name.clone(), pointer::join(&fields, name))));
        self.required.extend(list("required").map(texts).unwrap_or_default());
        let additional = schema.get("additionalProperties");
        self.open |= additional.is_some_and(|additional| *additional != Value::Bool(false))
            || schema.contains_key("patternProperties");
        if additional.is_some_and(Value::is_object) {
            self.additional = Some(pointer::join(place, "additionalProperties"));
        }
        if schema.contains_key("items") {
            self.items = Some(pointer::join(place, "items"));
        }
        for keyword in ["anyOf", "oneOf"] {
            for (index, choice) in list(keyword).into_iter().flatten().enumerate() {
                let inner = format!("{place}/{keyword}/{index}");
                self.choices.insert(choice_name(document, choice, index), inner);
            }
        }
        for (keyword, _) in BOUNDS {
            if let Some(value) = schema.get(keyword) {
                self.bounds.insert(keyword, value.clone());
            }
        }
    }
}

/// What a choice is called: by its reference, its title, its constant or its type, else by its number.
fn choice_name(document: &Value, choice: &Value, index: usize) -> String {
    if let Some((target, _)) = pointer::target(document, choice) {
        return pointer::steps(&target).last().unwrap_or_default();
    }
    let title = choice.get("title").and_then(Value::as_str);
    let kind = choice.get("type").and_then(Value::as_str);
    title.or(kind).map_or_else(|| format!("choice {}", index + 1), str::to_owned)
}
