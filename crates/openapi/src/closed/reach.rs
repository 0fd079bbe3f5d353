//! Which schemas stay as they are: those of answers, parameters and other bodies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{targets, unit};
use crate::body;
use crate::model::{self, Kind};
use crate::pointer;

/// Keywords whose schemas ask something of a value, and do not describe it.
const ASKING: [&str; 5] = ["not", "if", "contains", "propertyNames", "contentSchema"];

/// The schemas of bodies that are checked.
pub(super) fn bodies(document: &Value) -> BTreeSet<String> {
    let mut bodies = BTreeSet::new();
    walk_published(document, &mut |kind, place, value| {
        let content = value.get("content").and_then(Value::as_object).filter(|_| kind == Kind::RequestBody);
        for (name, media) in content.into_iter().flatten() {
            if body::is_checked(name) && media.get("schema").is_some() {
                let media = pointer::join(&pointer::join(place, "content"), name);
                bodies.insert(format!("{media}/schema"));
            }
        }
        kind != Kind::Schema
    });
    bodies
}

/// Goes through what may be published of a document: events have schemas of their own, and callbacks are left out.
fn walk_published<'a>(document: &'a Value, visit: &mut dyn FnMut(Kind, &str, &'a Value) -> bool) {
    model::walk(document, Kind::Document, &mut String::new(), &mut |kind, place, value| {
        let is_published = kind != Kind::Callback && !place.starts_with("/webhooks/");
        is_published && visit(kind, place, value)
    });
}

/// What is reached from elsewhere than the bodies of requests.
pub(super) struct Reach {
    units: BTreeSet<String>,
    bodies: BTreeSet<String>,
}

impl Reach {
    pub(super) fn of(document: &Value, bodies: BTreeSet<String>, visited: &BTreeSet<String>) -> Self {
        let mut reach = Self { units: BTreeSet::new(), bodies };
        let mut waiting = Vec::new();
        walk_published(document, &mut |kind, place, _| {
            if kind == Kind::Schema
                && !place.starts_with("/components/schemas/")
                && !reach.bodies.contains(place)
            {
                reach.units.insert(place.to_owned());
                waiting.push(place.to_owned());
            }
            kind != Kind::Schema
        });
        let asking = visited.iter().flat_map(|place| ASKING.map(|keyword| pointer::join(place, keyword)));
        waiting.extend(asking.filter(|place| document.pointer(place).is_some()));
        reach.follow(document, waiting);
        reach
    }

    /// Adds everything that is referred to from these places.
    fn follow(&mut self, document: &Value, mut waiting: Vec<String>) {
        let mut seen = BTreeSet::new();
        while let Some(place) = waiting.pop() {
            let Some(schema) = document.pointer(&place).filter(|_| seen.insert(place)) else { continue };
            model::walk(schema, Kind::Schema, &mut String::new(), &mut |_, _, schema| {
                for target in targets(document, schema) {
                    self.units.insert(unit(&target));
                    waiting.push(target);
                }
                true
            });
        }
    }

    /// Must this schema stay as it is?
    pub(super) fn holds(&self, unit: &str) -> bool {
        self.units.contains(unit)
    }

    /// Can requests refer to a copy of it instead? A body that something else refers to stands where it stands.
    pub(super) fn can_be_copied(&self, unit: &str) -> bool {
        !self.bodies.contains(unit)
    }
}
