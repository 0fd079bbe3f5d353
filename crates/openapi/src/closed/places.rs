//! The values of requests: where each is described, and where it can be said that it knows no other fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::grouping;
use super::parts::{Finder, Start};
use super::reach::Reach;
use super::says;
use super::unit;
use crate::pointer;

/// What is known of the values that one schema alone describes.
struct Place {
    /// The last of the places that bare references lead to from there.
    end: String,
    /// Does the check refuse fields that nobody knows?
    closes: bool,
}

/// The values of requests.
#[derive(Default)]
pub(super) struct Places {
    /// By where they are described.
    alone: BTreeMap<String, Place>,
    /// Places that must not say that other fields are unknown, since other schemas are about the same value.
    shared: BTreeSet<String>,
    /// Every schema that is about a value of a request.
    pub(super) visited: BTreeSet<String>,
}

impl Places {
    /// The values in these bodies; `None` when that is too much work.
    pub(super) fn find(document: &Value, bodies: &BTreeSet<String>) -> Option<Self> {
        let mut places = Self::default();
        let mut finder = Finder::new(document);
        let start = |body: &String| BTreeSet::from([Start { pointer: body.clone(), asks: false }]);
        let mut waiting: Vec<_> = bodies.iter().map(start).collect();
        let mut seen: BTreeSet<_> = waiting.iter().cloned().collect();
        while let Some(starts) = waiting.pop() {
            let inner = places.add(&mut finder, &starts)?;
            waiting.extend(inner.into_iter().filter(|inner| seen.insert(inner.clone())));
        }
        Some(places)
    }

    /// Adds the value that these describe, and gives what describes the values that it holds.
    fn add(
        &mut self,
        finder: &mut Finder<'_>,
        starts: &BTreeSet<Start>,
    ) -> Option<BTreeSet<BTreeSet<Start>>> {
        let mut ends = BTreeSet::new();
        for start in starts {
            finder.step(1)?;
            let chain = finder.chain(&start.pointer);
            let end = chain.last().cloned().unwrap_or_default();
            if !start.asks {
                self.visited.extend(chain.iter().cloned());
                if starts.len() > 1 {
                    self.shared.extend(chain);
                }
            }
            ends.insert(Start { pointer: end, asks: start.asks });
        }
        let only = starts.first().zip(ends.first()).filter(|_| starts.len() == 1);
        if let Some((_, end)) = only {
            let forms = forms(finder, &end.pointer)?;
            if !forms.is_empty() {
                return Some(forms);
            }
        }
        let parts = finder.parts(&ends)?;
        let is_end = |place: &String| ends.iter().any(|end| end.pointer == *place);
        for part in parts.iter().filter(|part| !part.asks) {
            self.visited.insert(part.pointer.clone());
            if !is_end(&part.pointer) {
                self.shared.insert(part.pointer.clone());
            }
        }
        if let Some((start, end)) = only {
            let has_heirs = parts.iter().any(|part| !finder.heirs(part).is_empty());
            let schema = finder.document.pointer(&end.pointer).unwrap_or(&Value::Null);
            let closes = !has_heirs && finder.ask(|says| says.closes(schema))?;
            self.alone.insert(start.pointer.clone(), Place { end: end.pointer.clone(), closes });
        }
        grouping::held(finder, &parts)
    }

    /// Where it is to be said that other fields are unknown: in the schema itself where nobody else needs it otherwise,
    /// beside the reference to it elsewhere.
    pub(super) fn marks(&self, open: &Reach) -> BTreeSet<String> {
        let mut marks = BTreeSet::new();
        for (start, place) in self.alone.iter().filter(|(_, place)| place.closes) {
            let can_be_there = !self.shared.contains(&place.end) && !open.holds(&unit(&place.end));
            if can_be_there {
                marks.insert(place.end.clone());
            } else if !self.shared.contains(start) {
                marks.insert(start.clone());
            }
        }
        marks
    }
}

/// The forms of a value that is a choice and nothing else, where each can be closed by itself: it has exactly one of
/// them, or only one of them is an object. There are none of any other value.
fn forms(finder: &mut Finder<'_>, place: &str) -> Option<BTreeSet<BTreeSet<Start>>> {
    let schema = finder.document.pointer(place).and_then(Value::as_object);
    let choice = schema.and_then(|schema| Some((schema, says::choice_alone(schema)?)));
    let Some((schema, (keyword, choices))) = choice else { return Some(BTreeSet::new()) };
    if keyword == "anyOf" && !schema.contains_key("discriminator") {
        let mut objects = 0;
        for choice in choices {
            objects += usize::from(finder.ask(|says| says.takes_objects(choice))?);
        }
        if objects > 1 {
            return Some(BTreeSet::new());
        }
    }
    let choice = pointer::join(place, keyword);
    let start = |number: usize| Start { pointer: format!("{choice}/{number}"), asks: false };
    Some((0..choices.len()).map(|number| BTreeSet::from([start(number)])).collect())
}
