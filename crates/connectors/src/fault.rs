//! What is wrong, and where.

use std::cell::RefCell;
use std::fmt;

/// How many faults one manifest may have: whoever has more to mend reads it again.
const FAULTS_MAX: usize = 1_000;

/// One thing that is wrong, and where: `actions[0].class`, `config.host`, `credentials.api_key`, `params.path`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The field; empty for the whole.
    pub path: String,
    /// What is wrong with it, for whoever wrote it.
    pub message: String,
}

impl Fault {
    /// One thing that is wrong.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{} {}", self.path, self.message)
        }
    }
}

/// Collects faults while something is read.
#[derive(Debug, Default)]
pub(crate) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    /// Notes what is wrong; the same thing is noted once.
    pub(crate) fn add(&self, path: impl Into<String>, message: impl Into<String>) {
        let fault = Fault::new(path, message);
        let mut found = self.0.borrow_mut();
        if found.len() < FAULTS_MAX && !found.contains(&fault) {
            found.push(fault);
        }
    }

    /// What was read, or all that is wrong with it.
    pub(crate) fn into_result<T>(self, read: Option<T>) -> Result<T, Vec<Fault>> {
        let mut found = self.0.into_inner();
        match read {
            Some(read) if found.is_empty() => Ok(read),
            _ => {
                if found.is_empty() {
                    found.push(Fault::new("", "cannot be read"));
                }
                Err(found)
            }
        }
    }
}

/// The field `name` of what stands at `path`.
pub(crate) fn field(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The item at `index` of the list at `path`.
pub(crate) fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}
