//! The schemas about one value.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::says::{self, Says};
use crate::pointer;

/// How many schemas are looked at in a whole document: some tenths of a second of work.
const STEPS_MAX: usize = 500_000;
/// How many references in a row are followed.
const REFERENCES_MAX: usize = 32;

/// Where a value is described from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Start {
    pub(super) pointer: String,
    /// Does it only ask what the value is, as `if` does? Then it must stay as it is.
    pub(super) asks: bool,
}

/// A schema about a value.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    pub(super) pointer: String,
    pub(super) schema: &'a Map<String, Value>,
    /// The choices that lead to it, and which one of each.
    choices: Vec<(String, usize)>,
    /// As in [`Start`].
    pub(super) asks: bool,
    /// Does nothing but references and choices lead to it?
    direct: bool,
}

impl Part<'_> {
    /// Can no value fit both by the choices that lead to them?
    pub(super) fn excludes(&self, other: &Self) -> bool {
        self.choices.iter().any(|(choice, number)| {
            other.choices.iter().any(|(same, another)| same == choice && another != number)
        })
    }
}

/// Finds the schemas about values, with how much may still be looked at.
pub(super) struct Finder<'a> {
    pub(super) document: &'a Value,
    /// The schemas of components that extend another by `allOf`, by the pointer of that other.
    heirs: BTreeMap<String, BTreeSet<String>>,
    steps: usize,
}

impl<'a> Finder<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        let mut heirs: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        for (name, schema) in schemas.into_iter().flatten() {
            let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
            for (base, _) in parts.filter_map(|part| pointer::target(document, part)) {
                heirs.entry(base).or_default().insert(pointer::join("/components/schemas", name));
            }
        }
        Self { document, heirs, steps: STEPS_MAX }
    }

    /// Counts some work; `None` when there is no more to be done.
    pub(super) fn step(&mut self, count: usize) -> Option<()> {
        self.steps = self.steps.checked_sub(count)?;
        Some(())
    }

    /// The answer to a question about schemas; `None` when that is too much work.
    pub(super) fn ask(&mut self, question: impl FnOnce(&mut Says<'a>) -> bool) -> Option<bool> {
        let mut says = Says::new(self.document);
        let answer = question(&mut says);
        self.step(says.looks)?;
        Some(answer)
    }

    /// The place itself, and the places that bare references lead to from there.
    pub(super) fn chain(&self, place: &str) -> Vec<String> {
        let mut chain = vec![place.to_owned()];
        for _ in 0..REFERENCES_MAX {
            let schema = chain.last().and_then(|last| self.document.pointer(last)).and_then(Value::as_object);
            let bare = schema.filter(|schema| says::holds_only(schema, &["$ref"]));
            let target = bare.and_then(|bare| pointer::of_reference(bare.get("$ref")?.as_str()?));
            match target.filter(|target| self.document.pointer(target).is_some()) {
                Some(target) => chain.push(target),
                None => break,
            }
        }
        chain
    }

    /// Every schema about the value that these describe; `None` when that is too much work.
    pub(super) fn parts(&mut self, starts: &BTreeSet<Start>) -> Option<Vec<Part<'a>>> {
        let mut found = Vec::new();
        let mut waiting = Vec::new();
        for start in starts.iter().rev() {
            waiting.extend(self.part(start.pointer.clone(), Vec::new(), start.asks, true));
        }
        while let Some(part) = waiting.pop() {
            self.step(1)?;
            self.add_inner(&part, &mut waiting);
            found.push(part);
        }
        Some(found)
    }

    fn part(
        &self,
        pointer: String,
        choices: Vec<(String, usize)>,
        asks: bool,
        direct: bool,
    ) -> Option<Part<'a>> {
        // `true` and `false` know no fields.
        let schema = self.document.pointer(&pointer)?.as_object()?;
        Some(Part { pointer, schema, choices, asks, direct })
    }

    /// The schemas that a part brings in.
    fn add_inner(&self, part: &Part<'a>, into: &mut Vec<Part<'a>>) {
        let list = |keyword: &str| {
            let place = pointer::join(&part.pointer, keyword);
            let count = part.schema.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
            (0..count).map(move |number| (format!("{place}/{number}"), number))
        };
        let inner = |place: String, choices: Vec<_>, direct: bool| {
            self.part(place, choices, part.asks, part.direct && direct)
        };
        let chosen = |choice: &str, number: usize| {
            let mut choices = part.choices.clone();
            choices.push((choice.to_owned(), number));
            choices
        };
        let reference = part.schema.get("$ref").and_then(Value::as_str).and_then(pointer::of_reference);
        into.extend(reference.and_then(|target| inner(target, part.choices.clone(), true)));
        into.extend(list("allOf").filter_map(|(place, _)| inner(place, part.choices.clone(), false)));
        for keyword in ["anyOf", "oneOf"] {
            let choice = pointer::join(&part.pointer, keyword);
            into.extend(
                list(keyword).filter_map(|(place, number)| inner(place, chosen(&choice, number), true)),
            );
        }
        if part.schema.contains_key("if") {
            let condition = pointer::join(&part.pointer, "if");
            for (keyword, number) in [("if", 0), ("then", 0), ("else", 1)] {
                let place = pointer::join(&part.pointer, keyword);
                let branch = inner(place, chosen(&condition, number), false);
                into.extend(branch.map(|branch| Part { asks: branch.asks || keyword == "if", ..branch }));
            }
        }
        let dependent = pointer::join(&part.pointer, "dependentSchemas");
        let named = part.schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten();
        into.extend(
            named.filter_map(|(name, _)| inner(pointer::join(&dependent, name), part.choices.clone(), false)),
        );
        let heirs = pointer::join(&part.pointer, "discriminator");
        if !part.choices.iter().any(|(choice, _)| *choice == heirs) {
            for (number, heir) in self.heirs(part).into_iter().enumerate() {
                let heir = inner(heir, chosen(&heirs, number), true);
                into.extend(heir.map(|heir| Part { asks: true, ..heir }));
            }
        }
    }

    /// The schemas that a discriminator without choices may mean.
    pub(super) fn heirs(&self, part: &Part<'_>) -> BTreeSet<String> {
        let chooser = part.schema.get("discriminator").filter(|_| part.direct);
        let has_choices = part.schema.contains_key("anyOf") || part.schema.contains_key("oneOf");
        let Some(chooser) = chooser.filter(|_| !has_choices) else { return BTreeSet::new() };
        let mapping = chooser.get("mapping").and_then(Value::as_object).into_iter().flatten();
        let mapped = mapping.filter_map(|(_, target)| crate::schema::mapped(self.document, target.as_str()?));
        let heirs = self.heirs.get(&part.pointer).cloned().unwrap_or_default();
        heirs.into_iter().chain(mapped).collect()
    }
}
