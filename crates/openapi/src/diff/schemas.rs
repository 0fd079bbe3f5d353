//! Schemas of requests and answers, the old against the new.

use std::collections::{BTreeSet, HashSet, VecDeque};

use serde_json::Value;

use super::Changes;
use super::view::{BOUNDS, View};
use crate::finding::shown;
use crate::pointer;

/// Who writes the value. What a caller may no longer write breaks it, and so does what it can no longer read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    Request,
    Answer,
}

/// Two schemas that wait to be compared.
struct Pair {
    /// What they are about, such as `the body`, and the field in it.
    what: String,
    field: String,
    old: String,
    new: String,
    direction: Direction,
}

/// The comparison of all schemas of one operation.
pub(super) struct Schemas<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    label: &'a str,
    changes: &'a mut Changes,
    waiting: VecDeque<Pair>,
    seen: HashSet<(String, String, Direction)>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(old: &'a Value, new: &'a Value, label: &'a str, changes: &'a mut Changes) -> Self {
        Self { old, new, label, changes, waiting: VecDeque::new(), seen: HashSet::new() }
    }

    /// Notes a change of the operation.
    pub(super) fn note(&mut self, breaking: bool, text: &str) {
        self.changes.add(breaking, format!("{}: {text}", self.label));
    }

    /// Compares the schemas at these places, and whatever is in them.
    pub(super) fn compare(&mut self, what: String, old: String, new: String, direction: Direction) {
        self.waiting.push_back(Pair { what, field: String::new(), old, new, direction });
    }

    /// Does all that waits.
    pub(super) fn finish(mut self) {
        while let Some(pair) = self.waiting.pop_front() {
            // Each pair of schemas once, and nearest first: they refer to each other, also in rings.
            let places = (meant(self.old, &pair.old), meant(self.new, &pair.new), pair.direction);
            if self.seen.insert(places) {
                self.pair(&pair);
            }
        }
    }

    fn pair(&mut self, pair: &Pair) {
        let (old, new) = (View::of(self.old, &pair.old), View::of(self.new, &pair.new));
        self.types(pair, &old, &new);
        self.values(pair, &old, &new);
        self.bounds(pair, &old, &new);
        self.fields(pair, &old, &new);
        self.choices(pair, &old, &new);
        let inner = |suffix: &str| format!("{}{suffix}", pair.field);
        if let (Some(old), Some(new)) = (old.items, new.items) {
            self.inner(pair, inner("[]"), old, new);
        }
        if let (Some(old), Some(new)) = (old.additional, new.additional) {
            self.inner(pair, inner(".*"), old, new);
        }
    }

    fn inner(&mut self, pair: &Pair, field: String, old: String, new: String) {
        self.waiting.push_back(Pair { what: pair.what.clone(), field, old, new, direction: pair.direction });
    }

    fn say(&mut self, pair: &Pair, breaking: bool, text: &str) {
        let subject = match pair.field.trim_start_matches('.') {
            "" => pair.what.clone(),
            field => format!("`{field}` of {}", pair.what),
        };
        self.note(breaking, &format!("{subject} {text}"));
    }

    fn types(&mut self, pair: &Pair, old: &View, new: &View) {
        if old.types == new.types {
            return;
        }
        // A number may be whole.
        let covers = |types: &BTreeSet<String>, kind: &String| {
            types.is_empty() || types.contains(kind) || (kind == "integer" && types.contains("number"))
        };
        let all_in = |inner: &BTreeSet<String>, outer: &BTreeSet<String>| {
            outer.is_empty() || (!inner.is_empty() && inner.iter().all(|kind| covers(outer, kind)))
        };
        let safe = match pair.direction {
            Direction::Request => all_in(&old.types, &new.types),
            Direction::Answer => all_in(&new.types, &old.types),
        };
        let name = |types: &BTreeSet<String>| match types.len() {
            0 => "anything".to_owned(),
            _ => types.iter().cloned().collect::<Vec<_>>().join(" or "),
        };
        self.say(pair, !safe, &format!("was {} and is {}", name(&old.types), name(&new.types)));
    }

    fn values(&mut self, pair: &Pair, old: &View, new: &View) {
        match (&old.values, &new.values) {
            (Some(old), Some(new)) => {
                for value in old.iter().filter(|value| !new.contains(value)) {
                    self.say(pair, true, &format!("can no longer be {}", shown(&value.to_string())));
                }
                for value in new.iter().filter(|value| !old.contains(value)) {
                    self.say(pair, false, &format!("can now be {}", shown(&value.to_string())));
                }
            }
            (None, Some(_)) => {
                self.say(pair, pair.direction == Direction::Request, "is now one of a list of values");
            }
            (Some(_), None) => {
                self.say(pair, pair.direction == Direction::Answer, "is no longer one of a list of values");
            }
            (None, None) => {}
        }
    }

    fn bounds(&mut self, pair: &Pair, old: &View, new: &View) {
        for (keyword, more_is_narrower) in BOUNDS {
            let (was, is) = (old.bounds.get(keyword), new.bounds.get(keyword));
            if was == is {
                continue;
            }
            let narrower = match (was.and_then(Value::as_f64), is.and_then(Value::as_f64), more_is_narrower) {
                (Some(was), Some(is), Some(more)) => (is > was) == more,
                _ => is.is_some(),
            };
            let name =
                |value: Option<&Value>| value.map_or("nothing".to_owned(), |value| shown(&value.to_string()));
            let text = format!("had `{keyword}` {} and has {}", name(was), name(is));
            self.say(pair, narrower && pair.direction == Direction::Request, &text);
        }
    }

    fn fields(&mut self, pair: &Pair, old: &View, new: &View) {
        let is_request = pair.direction == Direction::Request;
        for (name, place) in &old.fields {
            let field = format!("{}.{name}", pair.field);
            let inner =
                Pair { what: pair.what.clone(), field, old: String::new(), new: String::new(), ..*pair };
            let Some(now) = new.fields.get(name) else {
                // An open schema takes it as it takes any other.
                self.say(&inner, !(is_request && new.open), "is gone");
                continue;
            };
            match (old.required.contains(name), new.required.contains(name)) {
                (false, true) => self.say(&inner, is_request, "is now required"),
                (true, false) if is_request => self.say(&inner, false, "is no longer required"),
                (true, false) => self.say(&inner, true, "may now be missing"),
                _ => {}
            }
            self.inner(pair, inner.field, place.clone(), now.clone());
        }
        for name in new.fields.keys().filter(|name| !old.fields.contains_key(*name)) {
            let required = is_request && new.required.contains(name);
            let field = format!("{}.{name}", pair.field);
            let inner =
                Pair { what: pair.what.clone(), field, old: String::new(), new: String::new(), ..*pair };
            self.say(&inner, required, if required { "is new and required" } else { "is new" });
        }
        if is_request && old.open && !new.open && !new.fields.is_empty() {
            self.say(pair, true, "no longer takes other fields");
        }
    }

    fn choices(&mut self, pair: &Pair, old: &View, new: &View) {
        for (name, place) in &old.choices {
            match new.choices.get(name) {
                None => self.say(pair, true, &format!("can no longer be `{}`", shown(name))),
                Some(now) => self.inner(pair, pair.field.clone(), place.clone(), now.clone()),
            }
        }
        for name in new.choices.keys().filter(|name| !old.choices.contains_key(*name)) {
            let narrower = old.choices.is_empty() && pair.direction == Direction::Request;
            self.say(pair, narrower, &format!("can now be `{}`", shown(name)));
        }
    }
}

/// Where the schema stands that is meant here, if this is nothing but a reference.
fn meant(document: &Value, place: &str) -> String {
    let mut place = place.to_owned();
    for _ in 0..32 {
        let value =
            document.pointer(&place).filter(|value| value.as_object().is_some_and(|one| one.len() == 1));
        match value.and_then(|value| pointer::target(document, value)) {
            Some((target, _)) => place = target,
            None => break,
        }
    }
    place
}
