//! What is wrong with a document, and where.

use std::collections::BTreeSet;
use std::fmt;

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The name of the document.
    pub document: String,
    /// `line 12` of a text that does not read, otherwise the JSON pointer of what is wrong; empty for all of it.
    pub place: String,
    /// What is wrong with it, for whoever wrote the document.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            return write!(f, "{}: {}", self.document, self.message);
        }
        write!(f, "{}: {}: {}", self.document, self.place, self.message)
    }
}

/// How many findings one document may have: whoever has more to mend reads it again.
const FINDINGS_MAX: usize = 10_000;

/// Collects findings while a document is read.
#[derive(Debug)]
pub(crate) struct Findings {
    document: String,
    found: BTreeSet<Finding>,
}

impl Findings {
    pub(crate) fn new(document: &str) -> Self {
        Self { document: document.to_owned(), found: BTreeSet::new() }
    }

    /// Notes what is wrong; the same thing is noted once.
    pub(crate) fn add(&mut self, place: impl Into<String>, message: impl Into<String>) {
        let (place, message) = (place.into(), message.into());
        if self.found.len() < FINDINGS_MAX {
            self.found.insert(Finding { document: self.document.clone(), place, message });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of them, in the order of their places.
    pub(crate) fn into_vec(self) -> Vec<Finding> {
        self.found.into_iter().collect()
    }
}

/// As much of a text of the document as a message repeats.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
