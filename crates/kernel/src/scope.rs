//! What a token may call: the names of scopes.
//!
//! Which scopes there are is not said here: areas bring them to the registry, each with its words.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The scopes that a key, a token or an app holds, by name. A name that no area brings lets nobody do anything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ScopeSet(Arc<Names>);

/// Sorted names, each once. They are one text, as they are stored and signed, so that reading one costs little.
#[derive(Debug, PartialEq, Eq, Hash, Default)]
struct Names {
    /// The names with a space between two.
    text: String,
    /// Where each name stands in the text.
    places: Vec<Range<usize>>,
}

impl Names {
    fn push(&mut self, name: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        let start = self.text.len();
        self.text.push_str(name);
        self.places.push(start..self.text.len());
    }
}

impl ScopeSet {
    /// The `format` of a scope's name in a schema. What publishes a schema puts the list of names in its place.
    pub const SCHEMA_FORMAT: &str = "scope";

    /// Is the scope of that name in the set?
    pub fn contains(&self, name: &str) -> bool {
        self.0.places.binary_search_by(|place| self.0.text[place.clone()].cmp(name)).is_ok()
    }

    /// Is every scope of this set in `other`?
    pub fn is_within(&self, other: &Self) -> bool {
        self.names().all(|name| other.contains(name))
    }

    /// Is there no scope in it?
    pub fn is_empty(&self) -> bool {
        self.0.places.is_empty()
    }

    /// The scopes that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.names().filter(|name| other.contains(name)).collect()
    }

    /// This set without the scope of that name.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        self.names().filter(|held| *held != name).collect()
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.places.iter().map(|place| &self.0.text[place.clone()])
    }

    /// The names with a space between two, as OAuth writes them.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

/// A space ends a name, so that a name with one in it is two.
impl<N: AsRef<str>> FromIterator<N> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        let given: Vec<N> = names.into_iter().collect();
        let mut sorted: Vec<&str> = given.iter().flat_map(|name| name.as_ref().split(' ')).collect();
        sorted.retain(|name| !name.is_empty());
        if !sorted.is_sorted() {
            sorted.sort_unstable();
        }
        sorted.dedup();
        let mut names = Names::default();
        for name in sorted {
            names.push(name);
        }
        Self(Arc::new(names))
    }
}

impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads what [`ScopeSet::as_str`] gives.
impl From<&str> for ScopeSet {
    fn from(names: &str) -> Self {
        std::iter::once(names).collect()
    }
}

impl Serialize for ScopeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}

impl<'de> Deserialize<'de> for ScopeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<String>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl JsonSchema for ScopeSet {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Scopes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "format": Self::SCHEMA_FORMAT } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_sorted_and_holds_each_name_once() {
        let set = ScopeSet::from("usage:read  account:read usage:read ");
        assert_eq!(set.to_string(), "account:read usage:read");
        assert_eq!(set, ["usage:read", "account:read"].into_iter().collect());
        assert!(set.contains("usage:read") && !set.contains("usage") && !set.contains(""));
        assert_eq!(set.without("usage:read").to_string(), "account:read");
    }

    #[test]
    fn a_set_is_within_another_when_that_one_holds_it_all() {
        let (few, many) = (ScopeSet::from("b:read"), ScopeSet::from("a:read b:read c:read"));
        assert!(few.is_within(&many) && !many.is_within(&few));
        assert!(ScopeSet::default().is_within(&few) && ScopeSet::default().is_empty());
        assert_eq!(many.intersection(&ScopeSet::from("d:read c:read b:read")).to_string(), "b:read c:read");
    }
}
