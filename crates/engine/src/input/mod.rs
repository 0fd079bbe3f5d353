//! Strict input: one message, whatever carried it.
//!
//! A request's path, query and body become one tree of [`Node`]s; duplicates are refused while it is read, and
//! unknown names, missing ones and values that do not convert while the operation's own type is read from it. Every
//! refusal names the path of the field. A tree of `serde_json::Value` would not do: of two equal names it keeps the
//! last without a word.

mod de;
mod fingerprint;
mod json;
mod query;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use portico_kernel::Problem;

pub use de::read;
pub use fingerprint::fingerprint;
pub use json::parse_object;
pub use query::{decode_form, decode_segment, parse_query};

/// How deep a message may nest.
pub const DEPTH_MAX: usize = 64;

/// The fields of a message or of an object in it, by name.
pub type Fields = BTreeMap<String, Node>;

/// A value of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A null inside a list; a field that is null is absent.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number beyond `i64`.
    Big(u64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// What a query or a path says: words without a type, as often as the name was given.
    Words(Vec<String>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Fields),
}

/// A step of a path into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
}

/// What is wrong with a message, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From the innermost step outwards.
    path: Vec<Step>,
    description: String,
}

impl Fault {
    /// A fault in a value; whoever holds the value says where it stands.
    fn here(description: impl Into<String>) -> Self {
        Self { path: Vec::new(), description: description.into() }
    }

    fn under(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }

    /// The same fault, in the field `name`.
    #[must_use]
    pub fn in_field(self, name: &str) -> Self {
        self.under(Step::Name(name.to_owned()))
    }

    /// A fault of the field `name` itself.
    pub fn of(name: &str, description: impl Into<String>) -> Self {
        Self::here(description).in_field(name)
    }

    /// The path of the field, such as `filter.kinds[2]`.
    fn field(&self) -> String {
        self.path.iter().rev().fold(String::new(), |path, step| match step {
            Step::Name(name) if path.is_empty() => name.clone(),
            Step::Name(name) => format!("{path}.{name}"),
            Step::Index(index) => format!("{path}[{index}]"),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field(), self.description)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let field = fault.field();
        // A fault without a path is one of the message as a whole.
        Self::field(if field.is_empty() { "body".to_owned() } else { field }, fault.description)
    }
}
