//! Texts of a path, a query or a header as the values that their schemas mean.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::check::Check;
use super::graph::{Id, Node};

/// What a query says under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Texts {
    One(String),
    Many(Vec<Texts>),
    Named(BTreeMap<String, Texts>),
}

/// The value that these texts mean to these schemas, which are all about it.
pub(crate) fn value_of(check: &mut Check<'_>, schemas: &[Id], texts: &Texts) -> Value {
    let about = check.schemas.in_place(schemas);
    match texts {
        Texts::One(text) => scalar(check, schemas, &about, text),
        Texts::Many(items) => {
            let list = items.iter().enumerate().map(|(index, item)| {
                let inner = inner(check, &about, |node| node.prefix.get(index).copied().or(node.items));
                value_of(check, &inner, item)
            });
            Value::Array(list.collect())
        }
        Texts::Named(fields) if is_list(check, &about, fields) => {
            let mut items: Vec<_> = fields.iter().collect();
            items.sort_by_key(|(index, _)| index.parse::<usize>().unwrap_or_default());
            let items = items.into_iter().map(|(_, item)| item.clone()).collect();
            value_of(check, schemas, &Texts::Many(items))
        }
        Texts::Named(fields) => {
            let named = fields.iter().map(|(name, field)| {
                let inner = inner(check, &about, |node| {
                    let own = node.properties.as_ref().and_then(|named| named.get(name)).copied();
                    own.or(node.additional)
                });
                (name.clone(), value_of(check, &inner, field))
            });
            Value::Object(named.collect::<Map<_, _>>())
        }
    }
}

/// Are these items of a list by their numbers?
fn is_list(check: &Check<'_>, about: &[Id], fields: &BTreeMap<String, Texts>) -> bool {
    let mut types = about.iter().flat_map(|id| &check.schemas.node(*id).types);
    types.any(|kind| kind == "array")
        && fields.keys().all(|name| name.len() < 6 && name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn inner(check: &Check<'_>, about: &[Id], of: impl Fn(&Node) -> Option<Id>) -> Vec<Id> {
    about.iter().filter_map(|id| of(check.schemas.node(*id))).collect()
}

/// One text: a number or a boolean where that fits, a string where a string may stand.
fn scalar(check: &mut Check<'_>, schemas: &[Id], about: &[Id], text: &str) -> Value {
    let types: Vec<_> =
        about.iter().flat_map(|id| check.schemas.node(*id).types.iter().map(String::as_str)).collect();
    let may_be = |kind: &str| types.is_empty() || types.contains(&kind);
    let mut candidates = Vec::new();
    if may_be("integer") || may_be("number") {
        candidates.extend(number(text).map(Value::Number));
    }
    if may_be("boolean") {
        candidates.extend(text.parse().ok().map(Value::Bool));
    }
    let string = Value::String(text.to_owned());
    if may_be("string") {
        candidates.push(string.clone());
    }
    let fitting = candidates
        .iter()
        .position(|candidate| schemas.iter().all(|schema| check.fits_briefly(*schema, candidate)));
    let chosen = fitting.unwrap_or(candidates.len().saturating_sub(1));
    if chosen < candidates.len() { candidates.swap_remove(chosen) } else { string }
}

/// A number as JSON writes it: no plus, no zeros in front, no spaces.
fn number(text: &str) -> Option<Number> {
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if !is_number || text.len() > 64 {
        return None;
    }
    serde_json::from_str(text).ok()
}
