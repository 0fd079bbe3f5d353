//! Texts that live as long as the process.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The same text, for as long as the process lives; asked twice for equal texts it returns the same one. It is for what
/// an operator's files name, such as an operation or a scope: what callers send would fill the memory.
pub fn intern(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    texts.insert(text);
    text
}

static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
static LISTS_OF_LISTS: Mutex<BTreeSet<&'static [&'static [&'static str]]>> = Mutex::new(BTreeSet::new());

/// The same list of texts, for as long as the process lives.
pub fn intern_all(texts: &[impl AsRef<str>]) -> &'static [&'static str] {
    kept(&LISTS, texts.iter().map(|text| intern(text.as_ref())).collect())
}

/// The same list of lists, for as long as the process lives.
pub fn intern_lists(lists: &[Vec<impl AsRef<str>>]) -> &'static [&'static [&'static str]] {
    kept(&LISTS_OF_LISTS, lists.iter().map(|list| intern_all(list)).collect())
}

fn kept<T: Ord>(all: &Mutex<BTreeSet<&'static [T]>>, list: Vec<T>) -> &'static [T] {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(list.as_slice()) {
        return known;
    }
    let list: &'static [T] = Box::leak(list.into());
    all.insert(list);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        let again = ["a.service", "operation"].join(".");
        let (first, second) = (intern("a.service.operation"), intern(&again));
        assert!(std::ptr::eq(first, second));
        assert_ne!(first, intern("another"));
        let list = || intern_lists(&[vec!["a:read", "b:read"], vec!["c:write"]]);
        assert!(std::ptr::eq(list(), list()));
    }
}
