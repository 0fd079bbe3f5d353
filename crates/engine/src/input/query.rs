//! Queries and path variables into a message.

use std::collections::btree_map::Entry;

use super::{DEPTH_MAX, Fields, HOLDS_NULL, InputError, Node};

/// How many names a query may give.
const PAIRS_MAX: usize = 1_000;

/// The names and values of a query or a form, decoded, in their order.
fn pairs(text: &str) -> impl Iterator<Item = Result<(String, String), InputError>> {
    text.split('&').filter(|pair| !pair.is_empty()).enumerate().map(|(count, pair)| {
        if count == PAIRS_MAX {
            return Err(InputError::of("query", format!("has more than {PAIRS_MAX} names")));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name, true)
            .map_err(|fault| InputError::of("query", format!("has a name that {fault}")))?;
        let value = decode(value, true).map_err(|fault| InputError::of(&name, fault))?;
        Ok((name, value))
    })
}

/// Reads a query. A list repeats its name; a nested field is dotted.
pub fn parse_query(query: &str) -> Result<Fields, InputError> {
    let mut fields = Fields::new();
    for pair in pairs(query) {
        let (name, value) = pair?;
        if name.split('.').any(str::is_empty) {
            return Err(InputError::of("query", "has a name that is empty"));
        }
        insert(&mut fields, &name, value)?;
    }
    Ok(fields)
}

/// Reads a form, whose names mean nothing but themselves.
pub fn parse_form(form: &str) -> Result<Vec<(String, String)>, InputError> {
    pairs(form).collect()
}

/// Puts `value` where the dotted `name` says.
fn insert(fields: &mut Fields, name: &str, value: String) -> Result<(), InputError> {
    let mixed = || InputError::of(name, "is given both as a value and as a field with parts");
    let mut steps = name.split('.');
    let last = steps.next_back().unwrap_or(name);
    let mut here = fields;
    for (depth, step) in steps.enumerate() {
        if depth == DEPTH_MAX {
            return Err(InputError::of("query", format!("nests deeper than {DEPTH_MAX} levels")));
        }
        let inner = here.entry(step.to_owned()).or_insert_with(|| Node::Object(Fields::new()));
        let Node::Object(inner) = inner else { return Err(mixed()) };
        here = inner;
    }
    match here.entry(last.to_owned()) {
        Entry::Vacant(place) => {
            place.insert(Node::Texts(vec![value]));
        }
        Entry::Occupied(mut place) => match place.get_mut() {
            Node::Texts(words) => words.push(value),
            _ => return Err(mixed()),
        },
    }
    Ok(())
}

/// Reads one segment of a path; it may hold `%2F`.
pub fn decode_segment(name: &str, segment: &str) -> Result<Node, InputError> {
    let word = decode(segment, false).map_err(|fault| InputError::of(name, fault))?;
    Ok(Node::Texts(vec![word]))
}

/// Decodes a value as forms write it, where a plus is a space.
pub fn decode_form(text: &str) -> Option<String> {
    decode(text, true).ok()
}

/// Percent-decodes. Refuses a broken escape, bytes that are not UTF-8, and U+0000, which PostgreSQL cannot keep.
fn decode(text: &str, plus_is_space: bool) -> Result<String, &'static str> {
    let text = unescape(text, plus_is_space).and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or("is badly encoded")?;
    if text.contains('\0') { Err(HOLDS_NULL) } else { Ok(text) }
}

fn unescape(text: &str, plus_is_space: bool) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}
