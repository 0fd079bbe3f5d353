//! The check of one value, with all schemas that are about it at once.
//!
//! A value is looked at together with every schema about it: those that refer to each other, those of `allOf`, and the
//! choices of `anyOf` and `oneOf` that it fits. So a field is unknown only if none of them knows it, however they are
//! composed, and each value is reported on once. Whether it fits a choice is asked by [`Check::fits`], which remembers
//! its answers: without that, choices within choices would double the work at every level.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::graph::{Id, Node, Schemas};
use super::place::{FieldError, Place};
use super::{leaf, words};

/// How many errors a refusal lists.
pub const ERRORS_MAX: usize = 16;
/// How many schemas one request may be held against, repetitions included: some seconds of work at the very most.
const STEPS_MAX: usize = 2_000_000;
/// How deep schemas may call for each other, choices within choices included.
const DEPTH_MAX: usize = 400;

/// How many parts are looked through one by one.
const PARTS_FEW: usize = 32;

/// A schema that is about the value at hand.
pub(super) struct Part {
    pub(super) id: Id,
    /// The parts that brought it in, by their places in the list.
    pub(super) from: Vec<usize>,
    /// Does nothing but references lead to it?
    pub(super) direct: bool,
}

/// The schemas about one value.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) list: Vec<Part>,
    /// Where each stands, once they are many.
    places: HashMap<Id, usize>,
    /// Does the value fit each of them, as far as is known?
    pub(super) fit: bool,
    /// Is it unknown which of the choices the value means? Then nobody knows its fields.
    pub(super) undecided: bool,
}

impl Parts {
    pub(super) fn add(&mut self, id: Id, from: Option<usize>, direct: bool) {
        let place = if self.list.len() < PARTS_FEW {
            self.list.iter().position(|part| part.id == id)
        } else {
            if self.places.is_empty() {
                self.places = self.list.iter().enumerate().map(|(place, part)| (part.id, place)).collect();
            }
            let next = self.list.len();
            Some(*self.places.entry(id).or_insert(next)).filter(|place| *place < next)
        };
        match place {
            Some(place) => self.list[place].from.extend(from),
            None => self.list.push(Part { id, from: from.into_iter().collect(), direct }),
        }
    }

    /// Is the part `inner` the part `outer`, or was it brought in by it?
    fn is_within(&self, inner: usize, outer: usize) -> bool {
        let mut seen = vec![inner];
        let mut at = 0;
        while let Some(part) = seen.get(at).copied() {
            if part == outer {
                return true;
            }
            for from in &self.list[part].from {
                if !seen.contains(from) {
                    seen.push(*from);
                }
            }
            at += 1;
        }
        false
    }
}

/// One check, with what it found and what it may still do.
pub(crate) struct Check<'a> {
    pub(super) schemas: &'a Schemas,
    /// Are fields unknown that no schema names, where schemas say nothing else?
    pub(super) closed: bool,
    errors: Vec<FieldError>,
    /// Whether values fit schemas; values are known by their addresses, which do not change while this lives.
    known: HashMap<(Id, *const Value), bool>,
    pub(super) steps: usize,
    depth: usize,
    exhausted: bool,
}

impl<'a> Check<'a> {
    /// A check that refuses unknown fields, as requests are checked.
    pub(crate) fn closed(schemas: &'a Schemas) -> Self {
        Self {
            schemas,
            closed: true,
            errors: Vec::new(),
            known: HashMap::new(),
            steps: 0,
            depth: 0,
            exhausted: false,
        }
    }

    /// A check by what JSON Schema says and nothing else.
    pub(crate) fn open(schemas: &'a Schemas) -> Self {
        Self { closed: false, ..Self::closed(schemas) }
    }

    /// Notes an error that was found elsewhere.
    pub(crate) fn report(&mut self, place: &Place<'_>, description: impl Into<String>) {
        if self.errors.len() < ERRORS_MAX {
            let error = FieldError::new(place.to_string(), description);
            if !self.errors.contains(&error) {
                self.errors.push(error);
            }
        }
    }

    /// Everything that was found.
    pub(crate) fn finish(mut self) -> Result<(), Vec<FieldError>> {
        if self.exhausted {
            let error = FieldError::new("body", "is too complicated to be checked");
            return Err(vec![error]);
        }
        if self.errors.is_empty() {
            return Ok(());
        }
        self.errors.truncate(ERRORS_MAX);
        Err(self.errors)
    }

    /// Checks the value by this schema, and notes what is wrong with it.
    pub(crate) fn value(&mut self, schema: Id, value: &Value, place: &Place<'_>) {
        // What was at an address before may have been another value.
        self.known.clear();
        let before = self.errors.len();
        let fits = self.at(&[schema], value, place, true);
        // Whatever does not fit is refused, also where no sentence was found for it.
        if !fits && self.errors.len() == before {
            self.report(place, "does not fit the schema");
        }
    }

    /// Does the value fit the schema?
    pub(crate) fn fits(&mut self, schema: Id, value: &Value) -> bool {
        let key = (schema, std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let fits = self.at(&[schema], value, &Place::body(), false);
        // Anything else is found out again sooner than it is remembered.
        if value.is_object() || value.is_array() {
            self.known.insert(key, fits);
        }
        fits
    }

    /// Does a value fit that lives for this question only?
    pub(super) fn fits_briefly(&mut self, schema: Id, value: &Value) -> bool {
        let mut check = Self::closed(self.schemas);
        check.closed = self.closed;
        (check.steps, check.depth) = (self.steps, self.depth);
        let fits = check.at(&[schema], value, &Place::body(), false);
        self.steps = check.steps;
        self.exhausted |= check.exhausted;
        fits
    }

    /// Checks the value by all of these schemas. Without `report` it only answers, with the first that does not fit.
    fn at(&mut self, schemas: &[Id], value: &Value, place: &Place<'_>, report: bool) -> bool {
        self.depth += 1;
        let fits = if self.depth > DEPTH_MAX {
            self.exhausted = true;
            false
        } else {
            self.at_once(schemas, value, place, report)
        };
        self.depth -= 1;
        fits
    }

    fn at_once(&mut self, schemas: &[Id], value: &Value, place: &Place<'_>, report: bool) -> bool {
        let mut parts = Parts { fit: true, ..Parts::default() };
        for schema in schemas {
            parts.add(*schema, None, true);
        }
        let mut at = 0;
        while at < parts.list.len() {
            self.steps += 1;
            if self.exhausted || self.steps > STEPS_MAX {
                self.exhausted = true;
                return false;
            }
            self.part(at, &mut parts, value, place, report);
            if !parts.fit && !report {
                return false;
            }
            at += 1;
        }
        match value {
            Value::Object(fields) => parts.fit &= self.fields(&parts, fields, place, report),
            Value::Array(items) => parts.fit &= self.items(&parts, items, place, report),
            _ => {}
        }
        parts.fit
    }

    /// What one part says of the value by itself, and which other parts it brings in.
    fn part(&mut self, at: usize, parts: &mut Parts, value: &Value, place: &Place<'_>, report: bool) {
        let schemas = self.schemas;
        let (id, direct) = (parts.list[at].id, parts.list[at].direct);
        let node = schemas.node(id);
        if node.never {
            self.refuse(parts, place, report, || "must not be there".to_owned());
        }
        if let Some(leaf) = &node.leaf
            && !leaf.is_valid(value)
        {
            parts.fit = false;
            if report {
                leaf::errors(leaf, value, |field, description| match field {
                    Some(field) => self.report(&place.field(field), description),
                    None => self.report(place, description),
                });
            }
        }
        if let Some(target) = node.reference {
            parts.add(target, Some(at), direct);
        }
        for inner in &node.all_of {
            parts.add(*inner, Some(at), false);
        }
        if node.not.is_some_and(|not| self.fits(not, value)) {
            self.refuse(parts, place, report, || "has a form that it must not have".to_owned());
        }
        if let Some((condition, then, otherwise)) = node.condition {
            let holds = self.fits(condition, value);
            let inner = if holds { then } else { otherwise };
            let condition = holds.then_some(condition);
            for inner in condition.into_iter().chain(inner) {
                parts.add(inner, Some(at), false);
            }
        }
        for (field, inner) in &node.dependent {
            if value.get(field).is_some() {
                parts.add(*inner, Some(at), false);
            }
        }
        self.choose(at, node, parts, value, place, report);
    }

    pub(super) fn refuse(
        &mut self,
        parts: &mut Parts,
        place: &Place<'_>,
        report: bool,
        say: impl FnOnce() -> String,
    ) {
        parts.fit = false;
        if report {
            self.report(place, say());
        }
    }

    fn fields(
        &mut self,
        parts: &Parts,
        fields: &Map<String, Value>,
        place: &Place<'_>,
        report: bool,
    ) -> bool {
        let nodes: Vec<&Node> = parts.list.iter().map(|part| self.schemas.node(part.id)).collect();
        let closes =
            self.closed && report && !parts.undecided && nodes.iter().any(|node| node.properties.is_some());
        let mut fit = true;
        for (name, value) in fields {
            self.steps += nodes.len();
            for names in nodes.iter().filter_map(|node| node.names) {
                if !self.fits_briefly(names, &Value::String(name.clone())) {
                    fit = false;
                    self.say(&place.field(name), report, || "has a name that is not allowed".to_owned());
                }
            }
            let mut schemas = Vec::new();
            let mut knowing = Vec::new();
            for (at, node) in nodes.iter().enumerate() {
                let before = schemas.len();
                schemas.extend(node.properties.as_ref().and_then(|named| named.get(name)));
                if !node.patterns.is_empty() {
                    let text = Value::String(name.clone());
                    let matching = node.patterns.iter().filter(|(pattern, _)| pattern.is_valid(&text));
                    schemas.extend(matching.map(|(_, schema)| schema));
                }
                if schemas.len() == before {
                    schemas.extend(node.additional);
                }
                if schemas.len() > before {
                    knowing.push(at);
                }
            }
            for (at, node) in nodes.iter().enumerate() {
                if let Some(unevaluated) = node.unevaluated
                    && !knowing.iter().any(|inner| parts.is_within(*inner, at))
                {
                    schemas.push(unevaluated);
                }
            }
            let refused = schemas.iter().any(|schema| self.schemas.node(*schema).never);
            if refused || (schemas.is_empty() && closes) {
                fit = false;
                self.say(&place.field(name), report, || unknown(&nodes));
            } else if !schemas.is_empty() {
                schemas.sort_unstable();
                schemas.dedup();
                fit &= self.at(&schemas, value, &place.field(name), report);
            }
            if self.is_done(fit, report) {
                return false;
            }
        }
        fit
    }

    fn items(&mut self, parts: &Parts, items: &[Value], place: &Place<'_>, report: bool) -> bool {
        let nodes: Vec<&Node> = parts.list.iter().map(|part| self.schemas.node(part.id)).collect();
        let mut fit = true;
        for (least, most, found) in self.contained(&nodes, items) {
            let too_few = u64::try_from(found).is_ok_and(|found| found < least);
            if too_few || most.is_some_and(|most| u64::try_from(found).is_ok_and(|found| found > most)) {
                fit = false;
                self.say(place, report, || "does not hold the items that it must hold".to_owned());
            }
        }
        for (index, value) in items.iter().enumerate() {
            self.steps += nodes.len();
            let mut schemas = Vec::new();
            let mut knowing = Vec::new();
            for (at, node) in nodes.iter().enumerate() {
                let schema = node.prefix.get(index).copied().or(node.items);
                schemas.extend(schema);
                let mut contained = || node.contains.is_some_and(|(contains, ..)| self.fits(contains, value));
                if schema.is_some() || contained() {
                    knowing.push(at);
                }
            }
            for (at, node) in nodes.iter().enumerate() {
                if let Some(unevaluated) = node.unevaluated_items
                    && !knowing.iter().any(|inner| parts.is_within(*inner, at))
                {
                    schemas.push(unevaluated);
                }
            }
            if !schemas.is_empty() {
                schemas.sort_unstable();
                schemas.dedup();
                fit &= self.at(&schemas, value, &place.item(index), report);
            }
            if self.is_done(fit, report) {
                return false;
            }
        }
        fit
    }

    /// The bounds of each `contains`, and how many items fit it.
    fn contained(&mut self, nodes: &[&Node], items: &[Value]) -> Vec<(u64, Option<u64>, usize)> {
        let mut found = Vec::new();
        for (schema, least, most) in nodes.iter().filter_map(|node| node.contains) {
            let count = items.iter().filter(|item| self.fits(schema, item)).count();
            found.push((least, most, count));
        }
        found
    }

    fn say(&mut self, place: &Place<'_>, report: bool, say: impl FnOnce() -> String) {
        if report {
            self.report(place, say());
        }
    }

    /// Is there nothing more to find out?
    fn is_done(&self, fit: bool, report: bool) -> bool {
        self.exhausted || (!fit && (!report || self.errors.len() == ERRORS_MAX))
    }
}

/// That a field is unknown, with the names that the parts know.
fn unknown(nodes: &[&Node]) -> String {
    let named = nodes.iter().filter_map(|node| node.properties.as_ref()).flat_map(|named| named.keys());
    let mut known: Vec<&str> = named.map(String::as_str).collect();
    known.sort_unstable();
    known.dedup();
    words::unknown(&known)
}
