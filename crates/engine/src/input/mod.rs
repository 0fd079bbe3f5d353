//! Strict input: one message, whatever carried it.
//!
//! A request's path, query and body become one tree of [`Node`]s; duplicates are refused while it is read, and
//! unknown names, missing ones and values that do not convert while the operation's own type is read from it. Every
//! refusal names the path of the field. A tree of `serde_json::Value` would not do: of two equal names it keeps the
//! last without a word.

mod attachment;
mod de;
mod fingerprint;
mod json;
mod query;
mod text;
mod verbatim;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use portico_kernel::Problem;

pub use attachment::{Attachment, RawRequest, Upload, UploadSender, too_large};
pub use de::read;
pub use fingerprint::fingerprint;
pub use json::parse_object;
pub use query::{decode_form, decode_segment, parse_form, parse_query};
pub use verbatim::{Element, Verbatim};

/// How deep a message may nest.
pub const DEPTH_MAX: usize = 64;

/// How many values a message may hold, unless its operation says otherwise: each costs far more than its bytes.
pub const VALUES_MAX: usize = 10_000;

/// What is wrong with a text that holds U+0000.
const HOLDS_NULL: &str = "holds a control character (U+0000)";

/// The fields of a message or of an object in it, by name.
pub type Fields = BTreeMap<String, Node>;

/// A value of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A null. A field that is null counts as absent, yet its name must be known.
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
    /// What a query or a path says: texts without a type, as often as the name was given.
    Texts(Vec<String>),
    /// A list.
    List(Vec<Self>),
    /// An object.
    Object(Fields),
}

impl Node {
    /// The names from the first value that a query gave within this one outwards; `None` when a body gave it.
    fn query_names(&self) -> Option<Vec<&str>> {
        match self {
            Self::Texts(_) => Some(Vec::new()),
            Self::Object(fields) => {
                let (name, inner) = fields.iter().next()?;
                let mut names = inner.query_names()?;
                names.push(name);
                Some(names)
            }
            _ => None,
        }
    }
}

/// A part of a path into a message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathPart {
    Name(String),
    Index(usize),
}

/// What is wrong with a message, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputError {
    /// From the innermost part outwards.
    path: Vec<PathPart>,
    description: String,
    /// Is it about the body as a whole?
    whole: bool,
}

/// How much of a name is repeated to the caller, who knows it.
const NAME_CHARACTERS_MAX: usize = 100;

/// A name as far as it is repeated.
fn shown(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

impl InputError {
    /// An error in a value; whoever holds the value says where it stands.
    fn here(description: impl Into<String>) -> Self {
        Self { path: Vec::new(), description: description.into(), whole: false }
    }

    /// An error of the body as a whole.
    fn whole(description: impl Into<String>) -> Self {
        Self { whole: true, ..Self::of("body", description) }
    }

    fn under(mut self, part: PathPart) -> Self {
        self.path.push(part);
        self
    }

    /// The same error, in the field `name`.
    #[must_use]
    pub fn in_field(self, name: &str) -> Self {
        self.under(PathPart::Name(name.to_owned()))
    }

    /// An error of the field `name` itself.
    pub fn of(name: &str, description: impl Into<String>) -> Self {
        Self::here(description).in_field(name)
    }

    /// The same error about a field whose name is not known. In a query the name is all that was written, dots included.
    fn with_query_names(mut self, value: &Node) -> Self {
        let names = value.query_names().unwrap_or_default();
        let inner = names.into_iter().map(|name| PathPart::Name(name.to_owned()));
        self.path = inner.chain(self.path).collect();
        self
    }

    /// The path of the field, such as `filter.kinds[2]`.
    fn field(&self) -> String {
        self.path.iter().rev().fold(String::new(), |path, part| match part {
            PathPart::Name(name) if path.is_empty() => shown(name).into_owned(),
            PathPart::Name(name) => format!("{path}.{}", shown(name)),
            PathPart::Index(index) => format!("{path}[{index}]"),
        })
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field(), self.description)
    }
}

impl std::error::Error for InputError {}

impl From<InputError> for Problem {
    fn from(error: InputError) -> Self {
        Self::field(error.field(), error.description)
    }
}
