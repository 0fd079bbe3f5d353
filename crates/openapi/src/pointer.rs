//! JSON pointers, as findings and references write them.

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// The pointer of the member `name` below `pointer`.
pub(crate) fn join(pointer: &str, name: &str) -> String {
    let mut joined = pointer.to_owned();
    push(&mut joined, name);
    joined
}

/// Adds a step.
pub(crate) fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    for character in name.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

/// The steps of a pointer, unescaped.
pub(crate) fn steps(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"))
}

/// The pointer that a reference within its own document names; `None` for any other reference.
pub(crate) fn of_reference(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let pointer = percent_decode_str(fragment).decode_utf8().ok()?;
    // Written anew, so that one place has one name.
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    is_pointer.then(|| steps(&pointer).fold(String::new(), |pointer, step| join(&pointer, &step)))
}

/// What the reference of this object points to: its pointer and the value there.
pub(crate) fn target<'a>(document: &'a Value, value: &Value) -> Option<(String, &'a Value)> {
    let pointer = of_reference(value.get("$ref")?.as_str()?)?;
    let found = document.pointer(&pointer)?;
    Some((pointer, found))
}

/// The value itself, or what it refers to, however many references that takes; with the pointer of where it stands.
pub(crate) fn resolve<'a>(document: &'a Value, pointer: String, value: &'a Value) -> (String, &'a Value) {
    let mut found = (pointer, value);
    // Rings are refused elsewhere; here they only must end.
    for _ in 0..32 {
        match target(document, found.1) {
            Some(next) => found = next,
            None => break,
        }
    }
    found
}
