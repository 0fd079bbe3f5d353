//! Reads a tree strictly: each wrong thing is noted with its place, and what nobody asked for is refused.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::fault::{self, Faults};
use crate::text::shown;

/// A value and where it stands.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    pub(crate) value: &'a Value,
    pub(crate) path: String,
    faults: &'a Faults,
}

impl<'a> Node<'a> {
    pub(crate) fn new(value: &'a Value, faults: &'a Faults) -> Self {
        Self { value, path: String::new(), faults }
    }

    pub(crate) fn fault(&self, message: impl Into<String>) {
        self.faults.add(self.path.clone(), message);
    }

    /// Reads a table; the fields that `read` does not ask for are refused.
    pub(crate) fn table<T>(&self, read: impl FnOnce(&Table<'a>) -> T) -> Option<T> {
        let Some(fields) = self.value.as_object() else {
            self.fault("must be a table");
            return None;
        };
        let table = Table { fields, node: self.clone(), known: RefCell::default() };
        let result = read(&table);
        table.refuse_unknown();
        Some(result)
    }

    /// The entries of a table whose names are free.
    pub(crate) fn entries(&self, max: usize) -> Vec<(&'a str, Self)> {
        let Some(fields) = self.value.as_object() else {
            self.fault("must be a table");
            return Vec::new();
        };
        if fields.len() > max {
            self.fault(format!("has {} entries; {max} is the maximum", fields.len()));
            return Vec::new();
        }
        fields.iter().map(|(name, value)| (name.as_str(), self.child(name, value))).collect()
    }

    /// The items of a list.
    pub(crate) fn items(&self, max: usize) -> Vec<Self> {
        let Some(items) = self.value.as_array() else {
            self.fault("must be a list");
            return Vec::new();
        };
        if items.len() > max {
            self.fault(format!("has {} items; {max} is the maximum", items.len()));
            return Vec::new();
        }
        let at = |index| fault::item(&self.path, index);
        let items = items.iter().enumerate();
        items.map(|(index, value)| Self { value, path: at(index), faults: self.faults }).collect()
    }

    /// A text of that many characters.
    pub(crate) fn text(&self, length: RangeInclusive<usize>) -> Option<&'a str> {
        let Some(text) = self.value.as_str() else {
            self.fault("must be a string");
            return None;
        };
        if !length.contains(&text.chars().count()) {
            self.fault(format!("must have {} to {} characters", length.start(), length.end()));
            return None;
        }
        if text.chars().any(|c| c.is_control() && c != '\n') {
            self.fault("must have no control characters");
            return None;
        }
        Some(text)
    }

    /// A text that `parse` takes.
    pub(crate) fn parse<T>(&self, max: usize, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        parse(self.text(0..=max)?).map_err(|message| self.fault(message)).ok()
    }

    /// A text that has a meaning of its own.
    pub(crate) fn choice<T>(&self, names: &[&str], parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let found = self.value.as_str().and_then(parse);
        if found.is_none() {
            self.fault(format!("must be one of {}", names.join(", ")));
        }
        found
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.fault("must be true or false");
        }
        flag
    }

    fn child(&self, name: &str, value: &'a Value) -> Self {
        // A name that somebody chose can be as long as the whole text.
        Self { value, path: fault::field(&self.path, &shown(name)), faults: self.faults }
    }
}

/// A table that is being read.
pub(crate) struct Table<'a> {
    fields: &'a Map<String, Value>,
    pub(crate) node: Node<'a>,
    known: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Table<'a> {
    /// A field, unless it is left out or null.
    pub(crate) fn get(&self, name: &'static str) -> Option<Node<'a>> {
        self.known.borrow_mut().insert(name);
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        Some(self.node.child(name, value))
    }

    /// A field that may not be left out.
    pub(crate) fn required(&self, name: &'static str) -> Option<Node<'a>> {
        let found = self.get(name);
        if found.is_none() {
            self.fault(name, "is required");
        }
        found
    }

    /// A text, empty when it is left out.
    pub(crate) fn text(&self, name: &'static str, max: usize) -> String {
        self.get(name).and_then(|node| node.text(0..=max)).unwrap_or_default().to_owned()
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> bool {
        self.get(name).and_then(|node| node.flag()).unwrap_or(default)
    }

    /// A list, empty when it is left out. Items that cannot be read are noted, and missing.
    pub(crate) fn list<T>(
        &self,
        name: &'static str,
        max: usize,
        read: impl Fn(&Node<'a>) -> Option<T>,
    ) -> Vec<T> {
        let items = self.get(name).map(|node| node.items(max)).unwrap_or_default();
        items.iter().filter_map(read).collect()
    }

    pub(crate) fn fault(&self, name: &str, message: impl Into<String>) {
        self.node.faults.add(fault::field(&self.node.path, name), message);
    }

    fn refuse_unknown(&self) {
        let known = self.known.borrow();
        for name in self.fields.keys().filter(|name| !known.contains(name.as_str())) {
            self.fault(&shown(name), "is not a field of a manifest here");
        }
    }
}
