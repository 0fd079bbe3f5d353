//! Pointers into answers: RFC 6901, or `header:<name>`.

use http::HeaderName;

use crate::answer::Message;
use crate::json;
use crate::source::{Node, Table};

/// How many pointers may stand in a list, and how many steps one may have.
const POINTERS_MAX: usize = 8;
const STEPS_MAX: usize = 16;

/// Where something stands in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pointer {
    /// The steps to a value of the body; none for all of it.
    Body(Vec<String>),
    /// A header.
    Header(HeaderName),
}

impl Pointer {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const FAULT: &str = "must be a JSON Pointer, such as /data/id, or header:<name>";
        if let Some(name) = text.strip_prefix("header:") {
            return name.parse().map(Self::Header).map_err(|_| FAULT.to_owned());
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(FAULT.to_owned());
        }
        let steps: Vec<_> = text.split('/').skip(1).map(step).collect::<Option<_>>().ok_or(FAULT)?;
        if steps.len() > STEPS_MAX {
            return Err(format!("has more than {STEPS_MAX} steps"));
        }
        Ok(Self::Body(steps))
    }

    /// The JSON there, as the provider wrote it; a header as a string of JSON.
    pub(crate) fn json(&self, message: &Message<'_>) -> Option<String> {
        match self {
            Self::Body(steps) => json::find(message.json()?, steps).map(str::to_owned),
            Self::Header(_) => self.text(message).map(|text| serde_json::Value::from(text).to_string()),
        }
    }

    /// The string, number or boolean there as text; `None` when there is none, or an empty one.
    pub(crate) fn text(&self, message: &Message<'_>) -> Option<String> {
        match self {
            Self::Body(steps) => {
                json::scalar(json::find(message.json()?, steps)?).filter(|text| !text.is_empty())
            }
            Self::Header(name) => message.header(name).filter(|text| !text.is_empty()),
        }
    }
}

/// A step of a pointer, unescaped.
fn step(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_escape = |at: usize| matches!(bytes.get(at + 1), Some(b'0' | b'1'));
    let fits = (0..bytes.len()).all(|at| bytes[at] != b'~' || is_escape(at));
    fits.then(|| text.replace("~1", "/").replace("~0", "~"))
}

/// A list of pointers, of which the first one that finds something counts; empty for none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pointers(Vec<Pointer>);

impl Pointers {
    /// Reads one pointer or a list of them. As one pointer, empty text means that there is none.
    pub(crate) fn read(node: &Node<'_>) -> Self {
        if node.value.is_array() {
            let items = node.items(POINTERS_MAX);
            return Self(items.iter().filter_map(|item| item.parse(500, Pointer::parse)).collect());
        }
        match node.text(0..=500) {
            None | Some("") => Self::default(),
            Some(_) => Self(node.parse(500, Pointer::parse).into_iter().collect()),
        }
    }

    /// Reads a field that may be left out.
    pub(crate) fn field(table: &Table<'_>, name: &'static str) -> Self {
        table.get(name).map(|node| Self::read(&node)).unwrap_or_default()
    }

    /// Reads a field whose default is one pointer.
    pub(crate) fn field_or(table: &Table<'_>, name: &'static str, default: &str) -> Self {
        table.get(name).map_or_else(|| Self::standard(default), |node| Self::read(&node))
    }

    /// One pointer that is known to be one.
    pub(crate) fn standard(pointer: &str) -> Self {
        Self(Pointer::parse(pointer).into_iter().collect())
    }

    /// Does one of them lead into the body? Headers come or not.
    pub(crate) fn is_in_body(&self) -> bool {
        self.0.iter().any(|pointer| matches!(pointer, Pointer::Body(_)))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first text found.
    pub(crate) fn text(&self, message: &Message<'_>) -> Option<String> {
        self.0.iter().find_map(|pointer| pointer.text(message))
    }

    /// The first JSON found that is not null.
    pub(crate) fn json(&self, message: &Message<'_>) -> Option<String> {
        self.0.iter().filter_map(|pointer| pointer.json(message)).find(|found| found != "null")
    }
}
