//! Where in a request something stands, and what is wrong there.

use std::borrow::Cow;
use std::fmt;

/// What is wrong with a request, and in which field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The path of the field, such as `lines[0].qty` or `price[min]`; `body` for the body as a whole.
    pub field: String,
    /// What is wrong with it, after "The field".
    pub description: String,
}

impl FieldError {
    pub(crate) fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.field, self.description)
    }
}

/// How much of a name is repeated to the caller, who knows it.
const NAME_CHARACTERS_MAX: usize = 100;

/// A name as far as it is repeated.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// The body, whose fields stand without a name in front.
    Body,
    /// A parameter, and whether its fields are in brackets.
    Parameter(&'a str, bool),
    Field(&'a str),
    Item(usize),
}

/// Where a value stands, from inside outwards. It costs nothing until it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    outer: Option<&'a Place<'a>>,
    step: Step<'a>,
}

impl<'a> Place<'a> {
    pub(crate) const fn body() -> Self {
        Self { outer: None, step: Step::Body }
    }

    pub(crate) const fn parameter(name: &'a str, brackets: bool) -> Self {
        Self { outer: None, step: Step::Parameter(name, brackets) }
    }

    pub(crate) const fn field(&'a self, name: &'a str) -> Self {
        Self { outer: Some(self), step: Step::Field(name) }
    }

    pub(crate) const fn item(&'a self, index: usize) -> Self {
        Self { outer: Some(self), step: Step::Item(index) }
    }

    /// Writes the path; says whether fields are in brackets here, and whether this is the body itself.
    fn write(&self, path: &mut String) -> (bool, bool) {
        let (brackets, is_body) = self.outer.map_or((false, true), |outer| outer.write(path));
        match self.step {
            Step::Body => return (false, true),
            Step::Parameter(name, brackets) => {
                path.push_str(&shown(name));
                return (brackets, false);
            }
            Step::Field(name) if brackets => {
                path.push('[');
                path.push_str(&shown(name));
                path.push(']');
            }
            Step::Field(name) => {
                if !is_body {
                    path.push('.');
                }
                path.push_str(&shown(name));
            }
            Step::Item(index) => {
                if is_body {
                    path.push_str("body");
                }
                path.push('[');
                path.push_str(&index.to_string());
                path.push(']');
            }
        }
        (brackets, false)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        let (_, is_body) = self.write(&mut path);
        f.write_str(if is_body { "body" } else { &path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_the_platform_writes_it() {
        let body = Place::body();
        let (lines, list) = (body.field("lines"), body.item(2));
        let first = lines.item(0);
        assert_eq!(body.to_string(), "body");
        assert_eq!(first.field("qty").to_string(), "lines[0].qty");
        assert_eq!(list.field("qty").to_string(), "body[2].qty");
        let price = Place::parameter("price", true);
        assert_eq!(price.field("min").to_string(), "price[min]");
        assert_eq!(Place::parameter("kinds", false).item(1).to_string(), "kinds[1]");
        assert_eq!(body.field(&"x".repeat(200)).to_string().chars().count(), 101);
    }
}
