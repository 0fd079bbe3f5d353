//! Texts that live as long as the process.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);

/// The same text, for as long as the process lives; asked twice for equal texts it returns the same one. It is for what
/// an operator's files name, such as an operation or a scope: what callers send would fill the memory.
pub fn intern(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_with(HashSet::new);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    texts.insert(text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let (first, second) = (intern("a.service.operation"), intern(&"a.service.operation".to_owned()));
        assert!(std::ptr::eq(first, second));
        assert_ne!(first, intern("another"));
    }
}
