//! Paths: a value stays in its segment.

use crate::fault::Fault;
use crate::template::{Part, Template, Variable};
use crate::text::{encode, has_control};
use crate::values::{Room, Scope};

/// What stands between slashes, each of it a template; an empty last one stands for a slash at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PathTemplate {
    segments: Vec<Template>,
}

impl PathTemplate {
    /// Reads a path that is empty or begins with a slash.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let rest = text.strip_prefix('/').ok_or("must begin with a slash")?;
        let count = rest.split('/').count();
        let mut segments = Vec::new();
        for (index, segment) in rest.split('/').enumerate() {
            if segment.is_empty() && index + 1 < count {
                return Err("has an empty segment".to_owned());
            }
            let segment = Template::parse(segment)?;
            segment.literals().try_for_each(check_literal)?;
            if let [Part::Text(whole)] = segment.parts.as_slice()
                && is_dots(&whole.to_ascii_lowercase().replace("%2e", "."))
            {
                return Err("has a segment of dots".to_owned());
            }
            segments.push(segment);
        }
        Ok(Self { segments })
    }

    /// The same without a slash at its end, as something that paths are appended to.
    pub(crate) fn into_base(mut self) -> Self {
        if self.segments.last().is_some_and(|segment| segment.parts.is_empty()) {
            self.segments.pop();
        }
        self
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.segments.iter().flat_map(Template::variables)
    }

    /// Does the variable share its segment with something else?
    pub(crate) fn is_mixed(&self, variable: &Variable) -> bool {
        let holds = |segment: &&Template| segment.variables().any(|each| each == variable);
        self.segments.iter().filter(holds).any(|segment| segment.only().is_none())
    }

    /// The path, each value percent-encoded in its segment.
    pub(crate) fn render(&self, scope: &Scope<'_>, room: &Room) -> Result<String, Fault> {
        let mut path = String::new();
        for segment in &self.segments {
            path.push('/');
            for part in &segment.parts {
                let (text, field) = match part {
                    Part::Text(text) => (text.clone(), String::new()),
                    Part::Variable(variable) => (value(scope, variable)?, variable.field()),
                };
                room.take(text.len(), &field)?;
                path.push_str(&text);
            }
        }
        Ok(path)
    }
}

fn value(scope: &Scope<'_>, variable: &Variable) -> Result<String, Fault> {
    let value = scope.required(variable)?;
    if !scope.is_path(variable) {
        return segment(&value, variable);
    }
    let segments: Result<Vec<_>, _> = value.split('/').map(|each| segment(each, variable)).collect();
    Ok(segments?.join("/"))
}

/// One segment, encoded.
fn segment(text: &str, variable: &Variable) -> Result<String, Fault> {
    let refusal = if text.is_empty() {
        "must not be empty, and have no empty segment"
    } else if is_dots(text) {
        "must have no segment of dots"
    } else if has_control(text) {
        "must have no control characters"
    } else {
        return Ok(encode(text));
    };
    Err(Fault::new(variable.field(), refusal))
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Is this what RFC 3986 lets stand in a path?
fn check_literal(text: &str) -> Result<(), String> {
    const MARKS: &[u8] = b"-._~!$&'()*+,;=:@";
    let bytes = text.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let fits = bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => is_hex(at + 1) && is_hex(at + 2),
        byte => byte.is_ascii_alphanumeric() || MARKS.contains(byte),
    });
    if fits { Ok(()) } else { Err("has a character that cannot stand in a path".to_owned()) }
}
