//! What a refusal says: the same sentences as those of the platform's own input.

use serde_json::Value;

use super::place::shown;

/// How many names a sentence lists, and how long the list may be.
const NAMES_MAX: usize = 20;
const LIST_CHARACTERS_MAX: usize = 400;

/// What a JSON type is called.
pub(super) fn type_name(kind: &str) -> &'static str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        _ => "null",
    }
}

/// What was given instead. A long string is not repeated to the caller, who knows it.
pub(super) fn given(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(value) if value.chars().count() <= 64 => format!("{value:?}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// One value of a document, such as a constant.
pub(super) fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{}`", shown(text)),
        other => format!("`{}`", shown(&other.to_string())),
    }
}

/// Names with commas between them; `None` for too many.
pub(super) fn list<T>(items: &[T], write: impl Fn(&T) -> String) -> Option<String> {
    if items.is_empty() || items.len() > NAMES_MAX {
        return None;
    }
    let list = items.iter().map(write).collect::<Vec<_>>().join(", ");
    (list.chars().count() <= LIST_CHARACTERS_MAX).then_some(list)
}

/// Choices with `or` before the last, which is null if that is one.
pub(super) fn either(items: &[&str]) -> String {
    let mut items = items.to_vec();
    items.sort_by_key(|item| *item == "null");
    match items.as_slice() {
        [] => "something else".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A number of things.
pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// That a field is unknown, and which are known.
pub(crate) fn unknown(known: &[&str]) -> String {
    match list(known, |name| format!("`{}`", shown(name))) {
        Some(known) => format!("is not known here; known are {known}"),
        None => "is not known here".to_owned(),
    }
}

/// That a value must be one of these.
pub(super) fn one_of(values: &[Value], value: &Value) -> String {
    match list(values, literal) {
        Some(values) => format!("must be one of {values}, not {}", given(value)),
        None => "is not one of the values that it may have".to_owned(),
    }
}

/// What a text of this format is.
pub(super) fn format(format: &str) -> String {
    let known = match format {
        "date-time" => "a date and a time, such as 2026-01-31T12:00:00Z",
        "date" => "a date, such as 2026-01-31",
        "time" => "a time, such as 12:00:00Z",
        "duration" => "a duration, such as P1DT12H",
        "email" | "idn-email" => "an e-mail address",
        "hostname" | "idn-hostname" => "the name of a host",
        "ipv4" => "an IPv4 address",
        "ipv6" => "an IPv6 address",
        "uri" | "iri" => "a URI",
        "uri-reference" | "iri-reference" => "a URI or a reference",
        "uuid" => "a UUID",
        "byte" => "base64",
        "regex" => "a regular expression",
        "json-pointer" => "a JSON pointer",
        other => return format!("must have the format `{}`", shown(other)),
    };
    format!("must be {known}")
}
