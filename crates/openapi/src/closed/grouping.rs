//! Which schemas describe what a value holds, and which of them describe the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::parts::{Finder, Part, Start};
use super::says;
use crate::pointer;

/// How many schemas of one field are compared with each other.
const COMPARED_MAX: usize = 64;

/// What a schema within a part is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About<'a> {
    /// The field of this name.
    Field(&'a str),
    /// The fields whose names match a pattern.
    Matching,
    /// The fields that are not named.
    Others,
    /// Items of a list.
    Items,
}

/// A schema about something that the value holds.
struct Inner<'a> {
    about: About<'a>,
    pointer: String,
    /// The part that it stands in, by its place in the list.
    part: usize,
}

/// Those that describe one thing together, for each thing that a value of these parts holds; `None` when that is too
/// much work to find out.
pub(super) fn held<'a>(finder: &mut Finder<'a>, parts: &[Part<'a>]) -> Option<BTreeSet<BTreeSet<Start>>> {
    let found: Vec<_> = parts.iter().enumerate().flat_map(|(at, part)| inner(at, part)).collect();
    finder.step(found.len())?;
    let mut fields: BTreeMap<&str, Vec<&Inner<'_>>> = BTreeMap::new();
    let (mut loose, mut items) = (Vec::new(), Vec::new());
    for inner in &found {
        match inner.about {
            About::Field(name) => fields.entry(name).or_default().push(inner),
            About::Matching | About::Others => loose.push(inner),
            About::Items => items.push(inner),
        }
    }
    let mut groups = BTreeSet::new();
    let mut grouping = Grouping { finder, parts };
    for (name, mut members) in fields {
        grouping.finder.step(loose.len())?;
        members.extend(loose.iter().filter(|loose| may_be_about(&parts[loose.part], loose, name)));
        grouping.add(&members, &mut groups)?;
    }
    grouping.add(&loose, &mut groups)?;
    grouping.add(&items, &mut groups)?;
    Some(groups)
}

/// The schemas in a part that are about what the value holds.
fn inner<'a>(at: usize, part: &Part<'a>) -> Vec<Inner<'a>> {
    let mut found = Vec::new();
    let mut add = |about, pointer| found.push(Inner { about, pointer, part: at });
    let named = |keyword: &str| part.schema.get(keyword).and_then(Value::as_object).into_iter().flatten();
    let place = |keyword: &str| pointer::join(&part.pointer, keyword);
    for (name, _) in named("properties") {
        add(About::Field(name), pointer::join(&place("properties"), name));
    }
    for (pattern, _) in named("patternProperties") {
        add(About::Matching, pointer::join(&place("patternProperties"), pattern));
    }
    for (keyword, about) in [
        ("additionalProperties", About::Others),
        ("unevaluatedProperties", About::Others),
        ("items", About::Items),
        ("unevaluatedItems", About::Items),
    ] {
        if part.schema.get(keyword).is_some_and(Value::is_object) {
            add(about, place(keyword));
        }
    }
    let positions = part.schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
    for number in 0..positions {
        add(About::Items, format!("{}/{number}", place("prefixItems")));
    }
    found
}

/// May what stands there for several fields be about the field of this name too?
fn may_be_about(part: &Part<'_>, loose: &Inner<'_>, name: &str) -> bool {
    let is_named = part.schema.get("properties").is_some_and(|named| named.get(name).is_some());
    loose.about == About::Matching || !is_named
}

struct Grouping<'f, 'a, 'p> {
    finder: &'f mut Finder<'a>,
    parts: &'p [Part<'a>],
}

impl Grouping<'_, '_, '_> {
    /// Adds schemas of one thing: each by itself where no two of them add to each other.
    fn add(&mut self, members: &[&Inner<'_>], groups: &mut BTreeSet<BTreeSet<Start>>) -> Option<()> {
        let start = |member: &&Inner<'_>| Start {
            pointer: member.pointer.clone(),
            asks: self.parts[member.part].asks,
        };
        let starts: Vec<_> = members.iter().map(start).collect();
        let together = self.adding(members)?;
        if !together.is_empty() {
            let group: BTreeSet<_> =
                starts.iter().filter(|start| together.contains(&start.pointer)).cloned().collect();
            groups.insert(group);
            return Some(());
        }
        groups.extend(starts.into_iter().filter(|start| !start.asks).map(|start| BTreeSet::from([start])));
        Some(())
    }

    /// Those that describe what is held, where two of them do so together; otherwise none.
    fn adding(&mut self, members: &[&Inner<'_>]) -> Option<BTreeSet<String>> {
        if members.len() < 2 {
            return Some(BTreeSet::new());
        }
        let mut telling = Vec::new();
        for member in members {
            if self.tells(&member.pointer)? {
                telling.push(*member);
            }
        }
        let pointers = || telling.iter().map(|member| member.pointer.clone()).collect();
        if telling.len() > COMPARED_MAX {
            return Some(pointers());
        }
        for (at, one) in telling.iter().enumerate() {
            for other in &telling[at + 1..] {
                self.finder.step(1)?;
                if self.meet(one, other) && !self.are_same(&one.pointer, &other.pointer) {
                    return Some(pointers());
                }
            }
        }
        Some(BTreeSet::new())
    }

    /// Does a schema about the value at this place say what it holds?
    fn tells(&mut self, pointer: &str) -> Option<bool> {
        let start = Start { pointer: pointer.to_owned(), asks: false };
        let parts = self.finder.parts(&BTreeSet::from([start]))?;
        let brings =
            ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "discriminator", "contains"];
        Some(parts.iter().any(|part| !says::holds_only(part.schema, &brings)))
    }

    /// Can both be about the same thing of the same value?
    fn meet(&self, one: &Inner<'_>, other: &Inner<'_>) -> bool {
        if one.part != other.part {
            return !self.parts[one.part].excludes(&self.parts[other.part]);
        }
        matches!(
            (one.about, other.about),
            (About::Matching, About::Matching | About::Field(_)) | (About::Field(_), About::Matching)
        )
    }

    /// Do both places hold the same schema?
    fn are_same(&self, one: &str, other: &str) -> bool {
        let end = |place: &str| self.finder.chain(place).pop();
        let schema = |place: &str| self.finder.document.pointer(place);
        end(one) == end(other) || schema(one) == schema(other)
    }
}
