//! The message of an input error, for a person.

use serde::de::{Expected, Unexpected};

/// serde names types as Rust does; a caller knows only JSON.
pub(super) fn expected(expected: &dyn Expected) -> String {
    let rust = expected.to_string();
    match rust.as_str() {
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "usize" | "isize" => {
            "a whole number within range"
        }
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
    .to_owned()
}

/// What was given instead. Long strings are not repeated to the caller, who knows them.
pub(super) fn given(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(value) if value.chars().count() <= 64 => format!("{value:?}"),
        Unexpected::Str(_) => "a string".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        other => other.to_string(),
    }
}

/// Names with commas between them.
pub(super) fn names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
