//! The schemas that requests are checked by, as a graph: each schema of the document is one node, whoever refers to it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::{Map, Value};

use super::leaf::Leaves;
use crate::finding::Findings;
use crate::model::{self, Kind};
use crate::pointer;

/// One schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id(u32);

/// What a discriminator chooses among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    /// The choices of `oneOf`.
    OneOf,
    /// The choices of `anyOf`.
    AnyOf,
    /// The schemas that extend the one that it stands in.
    Heirs,
}

/// What a discriminator chooses by.
#[derive(Debug)]
pub(crate) struct Discriminator {
    /// What it chooses among.
    pub(crate) among: Among,
    pub(crate) property: String,
    /// The schema that each value of the property stands for.
    pub(crate) mapping: BTreeMap<String, Id>,
}

/// One schema, taken apart. The keywords are those of JSON Schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The schema `false`, which nothing fits.
    pub(crate) never: bool,
    /// What it says of a value by itself.
    pub(crate) leaf: Option<Arc<Validator>>,
    /// The types that it names; empty for any.
    pub(crate) types: Vec<String>,
    /// The values of `enum` or `const`.
    pub(crate) values: Option<Vec<Value>>,
    pub(crate) reference: Option<Id>,
    pub(crate) all_of: Vec<Id>,
    pub(crate) any_of: Option<Vec<Id>>,
    pub(crate) one_of: Option<Vec<Id>>,
    pub(crate) not: Option<Id>,
    /// `if`, `then` and `else`.
    pub(crate) condition: Option<(Id, Option<Id>, Option<Id>)>,
    pub(crate) dependent: Vec<(String, Id)>,
    pub(crate) discriminator: Option<Discriminator>,
    /// `None` when the schema names no fields at all.
    pub(crate) properties: Option<BTreeMap<String, Id>>,
    pub(crate) patterns: Vec<(Arc<Validator>, Id)>,
    pub(crate) additional: Option<Id>,
    pub(crate) names: Option<Id>,
    pub(crate) unevaluated: Option<Id>,
    pub(crate) prefix: Vec<Id>,
    pub(crate) items: Option<Id>,
    /// `contains` with the least and the largest number of items that must fit.
    pub(crate) contains: Option<(Id, u64, Option<u64>)>,
    pub(crate) unevaluated_items: Option<Id>,
}

impl Node {
    /// The choices of `anyOf` and `oneOf`.
    pub(crate) fn choices(&self) -> impl Iterator<Item = Id> + '_ {
        self.any_of.iter().chain(&self.one_of).flatten().copied()
    }

    /// Every schema about the same value, of those that say what fields it has.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = Id> + '_ {
        let branches = self.condition.iter().flat_map(|(_, then, otherwise)| then.iter().chain(otherwise));
        let dependent = self.dependent.iter().map(|(_, id)| id);
        let mapped = self.discriminator.iter().flat_map(|chooser| chooser.mapping.values());
        let always = self.reference.iter().chain(&self.all_of);
        always.chain(branches).chain(dependent).chain(mapped).copied().chain(self.choices())
    }

    pub(crate) fn allows_type(&self, value: &Value) -> bool {
        self.types.is_empty() || self.types.iter().any(|kind| is_of_type(kind, value))
    }
}

fn is_of_type(kind: &str, value: &Value) -> bool {
    match value {
        Value::Null => kind == "null",
        Value::Bool(_) => kind == "boolean",
        Value::Number(number) => {
            let is_whole = || !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0);
            kind == "number" || (kind == "integer" && is_whole())
        }
        Value::String(_) => kind == "string",
        Value::Array(_) => kind == "array",
        Value::Object(_) => kind == "object",
    }
}

/// Every schema that requests are checked by.
#[derive(Debug, Default)]
pub(crate) struct Schemas(Vec<Node>);

impl Schemas {
    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.0[id.0 as usize]
    }

    /// The schemas and every other about the same value, each once.
    pub(crate) fn in_place(&self, ids: &[Id]) -> Vec<Id> {
        self.collect(ids, |node| node.in_place().collect())
    }

    /// The schema and those that hold whenever it holds: what it refers to, and the parts of `allOf`.
    pub(crate) fn together(&self, id: Id) -> Vec<Id> {
        self.collect(&[id], |node| node.reference.iter().chain(&node.all_of).copied().collect())
    }

    fn collect(&self, ids: &[Id], next: impl Fn(&Node) -> Vec<Id>) -> Vec<Id> {
        let mut found = ids.to_vec();
        let mut seen: HashSet<Id> = ids.iter().copied().collect();
        let mut at = 0;
        while let Some(id) = found.get(at).copied() {
            found.extend(next(self.node(id)).into_iter().filter(|inner| seen.insert(*inner)));
            at += 1;
        }
        found
    }
}

/// Takes the schemas apart that somebody asks for, and those that they need.
pub(crate) struct Builder<'a> {
    document: &'a Value,
    known: HashMap<String, Id>,
    /// Their pointers, by their ids.
    pointers: Vec<String>,
    /// The schemas of components that extend another by `allOf`: the pointer of that other, their names and pointers.
    heirs: HashMap<String, Vec<(String, String)>>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(document: &'a Value) -> Self {
        let mut heirs: HashMap<_, Vec<_>> = HashMap::new();
        let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
        for (name, schema) in schemas.into_iter().flatten() {
            let parts = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
            for (base, _) in parts.filter_map(|part| pointer::target(document, part)) {
                let heir = (name.clone(), pointer::join("/components/schemas", name));
                heirs.entry(base).or_default().push(heir);
            }
        }
        Self { document, known: HashMap::new(), pointers: Vec::new(), heirs }
    }

    /// The schema at this place.
    pub(crate) fn id(&mut self, pointer: &str) -> Id {
        if let Some(id) = self.known.get(pointer) {
            return *id;
        }
        let id = Id(u32::try_from(self.pointers.len()).unwrap_or(u32::MAX));
        self.known.insert(pointer.to_owned(), id);
        self.pointers.push(pointer.to_owned());
        id
    }

    /// Takes all of them apart.
    pub(crate) fn finish(mut self, findings: &mut Findings) -> Schemas {
        let mut leaves = Leaves::default();
        let mut nodes = Vec::new();
        while let Some(pointer) = self.pointers.get(nodes.len()).cloned() {
            nodes.push(self.node(&pointer, &mut leaves, findings));
        }
        Schemas(nodes)
    }

    fn node(&mut self, place: &str, leaves: &mut Leaves, findings: &mut Findings) -> Node {
        let schema = match self.document.pointer(place) {
            Some(Value::Object(schema)) => schema,
            Some(Value::Bool(false)) => return Node { never: true, ..Node::default() },
            // Whatever is no schema at all is a finding already.
            _ => return Node::default(),
        };
        for keyword in ["$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"] {
            if schema.contains_key(keyword) {
                let message =
                    format!("`{keyword}` is not supported; refer by `$ref: '#/components/schemas/...'`.");
                findings.add(pointer::join(place, keyword), message);
            }
        }
        let values = schema.get("enum").and_then(Value::as_array).cloned();
        let number = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
        let one = |builder: &mut Self, keyword: &str| {
            schema.contains_key(keyword).then(|| builder.id(&pointer::join(place, keyword)))
        };
        let list = |builder: &mut Self, keyword: &str| {
            let place = pointer::join(place, keyword);
            let items = schema.get(keyword)?.as_array()?;
            Some((0..items.len()).map(|at| builder.id(&format!("{place}/{at}"))).collect::<Vec<_>>())
        };
        let condition = one(self, "if").map(|condition| (condition, one(self, "then"), one(self, "else")));
        let contains =
            one(self, "contains").map(|id| (id, number("minContains").unwrap_or(1), number("maxContains")));
        let reference =
            pointer::target(self.document, &Value::Object(schema.clone())).map(|(target, _)| target);
        Node {
            never: false,
            leaf: leaves.of(schema, place, findings),
            types: types(schema),
            values: schema.get("const").map(|only| vec![only.clone()]).or(values),
            reference: reference.map(|target| self.id(&target)),
            all_of: list(self, "allOf").unwrap_or_default(),
            any_of: list(self, "anyOf"),
            one_of: list(self, "oneOf"),
            not: one(self, "not"),
            condition,
            dependent: self.named(schema, place, "dependentSchemas").unwrap_or_default(),
            discriminator: self.discriminator(schema, place, findings),
            properties: self.named(schema, place, "properties").map(|named| named.into_iter().collect()),
            patterns: self.patterns(schema, place, leaves, findings),
            additional: one(self, "additionalProperties"),
            names: one(self, "propertyNames"),
            unevaluated: one(self, "unevaluatedProperties"),
            prefix: list(self, "prefixItems").unwrap_or_default(),
            items: one(self, "items"),
            contains,
            unevaluated_items: one(self, "unevaluatedItems"),
        }
    }

    fn named(
        &mut self,
        schema: &Map<String, Value>,
        place: &str,
        keyword: &str,
    ) -> Option<Vec<(String, Id)>> {
        let place = pointer::join(place, keyword);
        let named = schema.get(keyword)?.as_object()?;
        Some(named.keys().map(|name| (name.clone(), self.id(&pointer::join(&place, name)))).collect())
    }

    fn patterns(
        &mut self,
        schema: &Map<String, Value>,
        place: &str,
        leaves: &mut Leaves,
        findings: &mut Findings,
    ) -> Vec<(Arc<Validator>, Id)> {
        let named = self.named(schema, place, "patternProperties").unwrap_or_default();
        let place = pointer::join(place, "patternProperties");
        named
            .into_iter()
            .filter_map(|(pattern, id)| Some((leaves.pattern(&pattern, &place, findings)?, id)))
            .collect()
    }

    /// Which schema each value of the property stands for: what `mapping` says, and the names of the choices' own
    /// schemas. Of a schema without choices, these are the schemas that extend it.
    fn discriminator(
        &mut self,
        schema: &Map<String, Value>,
        place: &str,
        findings: &mut Findings,
    ) -> Option<Discriminator> {
        let chooser = schema.get("discriminator")?;
        let property = chooser.get("propertyName")?.as_str()?.to_owned();
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        let (among, choices) = match (list("oneOf"), list("anyOf")) {
            (Some(choices), _) => (Among::OneOf, Some(choices)),
            (None, Some(choices)) => (Among::AnyOf, Some(choices)),
            (None, None) => (Among::Heirs, None),
        };
        let choices = choices.into_iter().flatten();
        let targets: Vec<_> = choices.filter_map(|choice| pointer::target(self.document, choice)).collect();
        let mut names: BTreeMap<String, String> = match among {
            Among::Heirs => self.heirs.get(place).cloned().unwrap_or_default().into_iter().collect(),
            Among::OneOf | Among::AnyOf => targets
                .iter()
                .filter_map(|(target, _)| Some((pointer::steps(target).last()?, target.clone())))
                .collect(),
        };
        for (value, target) in chooser.get("mapping").and_then(Value::as_object).into_iter().flatten() {
            let mapped = target.as_str().and_then(|target| mapped(self.document, target));
            let Some(mapped) = mapped else {
                let place = pointer::join(&format!("{place}/discriminator/mapping"), value);
                findings.add(place, "The mapping points to no schema of this document.");
                continue;
            };
            if among != Among::Heirs && !targets.iter().any(|(target, _)| *target == mapped) {
                // It is none of the choices, so no value can mean it.
                continue;
            }
            // A schema that the mapping gives a name has no other.
            names.retain(|_, target| *target != mapped);
            names.insert(value.clone(), mapped);
        }
        let mapping = names.into_iter().map(|(name, target)| (name, self.id(&target))).collect();
        Some(Discriminator { among, property, mapping })
    }
}

/// The pointer that a value of a mapping means: a reference, or the name of a schema.
pub(crate) fn mapped(document: &Value, target: &str) -> Option<String> {
    let pointer =
        pointer::of_reference(target).unwrap_or_else(|| pointer::join("/components/schemas", target));
    let is_schema = model::kind_at(&pointer) == Some(Kind::Schema);
    (is_schema && document.pointer(&pointer).is_some()).then_some(pointer)
}

fn types(schema: &Map<String, Value>) -> Vec<String> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one.clone()],
        several => texts(several),
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
