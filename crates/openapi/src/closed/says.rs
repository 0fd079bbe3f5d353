//! What a schema says of a value's fields, together with every schema about the same value.

use serde_json::{Map, Value};

use crate::pointer;

/// How deep schemas are followed into each other; those that are deeper say nothing.
const DEPTH_MAX: usize = 64;
/// How many schemas are looked at to find out about one.
const LOOKS_MAX: usize = 10_000;

/// The keywords that describe what a value holds, or bring other schemas about it in.
const HOLDING: [&str; 15] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "unevaluatedItems",
    "contains",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "dependentSchemas",
    "discriminator",
    "$ref",
];

/// Does the schema, apart from these keywords, say nothing of what a value holds?
pub(super) fn holds_only(schema: &Map<String, Value>, keywords: &[&str]) -> bool {
    HOLDING.iter().all(|keyword| keywords.contains(keyword) || !schema.contains_key(*keyword))
}

/// The choices of the schema, where it is a choice and nothing else.
pub(super) fn choice_alone(schema: &Map<String, Value>) -> Option<(&'static str, &Vec<Value>)> {
    ["anyOf", "oneOf"].into_iter().find_map(|keyword| {
        let choices = schema.get(keyword)?.as_array()?;
        holds_only(schema, &[keyword, "discriminator"]).then_some((keyword, choices))
    })
}

/// One question, with how much was looked at for it.
pub(super) struct Says<'a> {
    document: &'a Value,
    pub(super) looks: usize,
}

impl<'a> Says<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document, looks: 0 }
    }

    /// Does the check refuse fields of each object that the schema takes, unless one of its parts knows them?
    pub(super) fn closes(&mut self, schema: &'a Value) -> bool {
        let closes = self.is_object(schema, 0) && self.names(schema, 0) && !self.takes_others(schema, 0);
        closes && self.looks < LOOKS_MAX
    }

    /// May a value that fits the schema be an object?
    pub(super) fn takes_objects(&mut self, schema: &'a Value) -> bool {
        self.is_object(schema, 0)
    }

    /// Is there nothing left to look at?
    fn ends(&mut self, depth: usize) -> bool {
        self.looks += 1;
        self.looks >= LOOKS_MAX || depth > DEPTH_MAX
    }

    /// What holds whenever the schema holds: what it refers to, and the parts of `allOf`.
    fn always(&self, schema: &'a Value) -> Vec<&'a Value> {
        let target = pointer::target(self.document, schema).map(|(_, target)| target);
        target.into_iter().chain(list(schema, "allOf").into_iter().flatten()).collect()
    }

    /// The choices of a keyword that an object may fit.
    fn choices(&mut self, schema: &'a Value, keyword: &str, depth: usize) -> Vec<&'a Value> {
        let choices = list(schema, keyword).into_iter().flatten();
        choices.filter(|choice| self.is_object(choice, depth + 1)).collect()
    }

    fn is_object(&mut self, schema: &'a Value, depth: usize) -> bool {
        if self.ends(depth) || *schema == Value::Bool(false) {
            return false;
        }
        let by_type = match schema.get("type") {
            Some(Value::String(one)) => one == "object",
            Some(Value::Array(several)) => several.iter().any(|one| one == "object"),
            _ => true,
        };
        let by_value = schema.get("const").is_none_or(Value::is_object)
            && list(schema, "enum").is_none_or(|values| values.iter().any(Value::is_object));
        let by_choice = |says: &mut Self, keyword: &str| {
            list(schema, keyword).is_none() || !says.choices(schema, keyword, depth).is_empty()
        };
        by_type
            && by_value
            && self.always(schema).into_iter().all(|part| self.is_object(part, depth + 1))
            && by_choice(self, "anyOf")
            && by_choice(self, "oneOf")
    }

    /// Are there named fields, whichever form an object has?
    fn names(&mut self, schema: &'a Value, depth: usize) -> bool {
        self.in_each_form(schema, depth, &|schema| schema.get("properties").is_some_and(Value::is_object))
    }

    /// Are fields that are not named spoken of already, whichever form an object has?
    fn takes_others(&mut self, schema: &'a Value, depth: usize) -> bool {
        self.in_each_form(schema, depth, &|schema| {
            schema.get("additionalProperties").is_some() || schema.get("unevaluatedProperties").is_some()
        })
    }

    /// Does this hold for a schema about the value, whichever of the choices and branches it takes?
    fn in_each_form(&mut self, schema: &'a Value, depth: usize, holds: &dyn Fn(&Value) -> bool) -> bool {
        if self.ends(depth) {
            return false;
        }
        if holds(schema)
            || self.always(schema).into_iter().any(|part| self.in_each_form(part, depth + 1, holds))
        {
            return true;
        }
        for keyword in ["anyOf", "oneOf"] {
            let choices = self.choices(schema, keyword, depth);
            if !choices.is_empty()
                && choices.into_iter().all(|choice| self.in_each_form(choice, depth + 1, holds))
            {
                return true;
            }
        }
        let Some(condition) = schema.get("if") else { return false };
        let mut branch = |branch: Option<&'a Value>| {
            branch.is_some_and(|branch| self.in_each_form(branch, depth + 1, holds))
        };
        branch(schema.get("else")) && (branch(Some(condition)) || branch(schema.get("then")))
    }
}

fn list<'a>(schema: &'a Value, keyword: &str) -> Option<&'a Vec<Value>> {
    schema.get(keyword)?.as_array()
}
