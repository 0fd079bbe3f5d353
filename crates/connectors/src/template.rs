//! Text with places for values: `{config.x}`, `{auth.x}` and `{params.x}`, and no logic.

use std::fmt;

use portico_kernel::text_enum;

use crate::text::is_name;

text_enum! {
    /// Where a value comes from.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Root {
        /// The connection's configuration.
        Config = "config",
        /// Its credential.
        Auth = "auth",
        /// The parameters of the call.
        Params = "params",
    }
}

/// The place of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) root: Root,
    pub(crate) name: String,
}

impl Variable {
    /// How a refusal names it.
    pub(crate) fn field(&self) -> String {
        let root = if self.root == Root::Auth { "credentials" } else { self.root.name() };
        format!("{root}.{}", self.name)
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}.{}}}", self.root.name(), self.name)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Variable(Variable),
}

/// Text with places for values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) parts: Vec<Part>,
}

impl Template {
    /// Reads a template. A brace that opens none is text, as GraphQL has many.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            literal.push_str(&rest[..at]);
            let from = &rest[at..];
            if let Some((variable, length)) = variable(from)? {
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Variable(variable));
                rest = &from[length..];
            } else {
                literal.push('{');
                rest = &from[1..];
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }

    /// Its variable, if it is nothing else.
    pub(crate) fn only(&self) -> Option<&Variable> {
        match self.parts.as_slice() {
            [Part::Variable(variable)] => Some(variable),
            _ => None,
        }
    }

    /// Its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            Part::Text(_) => None,
        })
    }

    /// Its text, without the variables.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Variable(_) => None,
        })
    }
}

/// The variable that this text begins with, and how long it is; `None` where the brace means something else.
fn variable(text: &str) -> Result<Option<(Variable, usize)>, String> {
    const MARKS: &[u8] = b"_-. ";
    let may_stand = |b: &u8| b.is_ascii_alphanumeric() || MARKS.contains(b);
    let length = text.bytes().skip(1).take(80).take_while(may_stand).count();
    let inside = &text[1..=length];
    let closes = text.as_bytes().get(length + 1) == Some(&b'}');
    let Some((root, name)) = inside.split_once('.').filter(|_| closes) else {
        return Ok(None);
    };
    let refusal = || format!("has {{{inside}}}, which is none of {{config.x}}, {{auth.x}} and {{params.x}}");
    match Root::parse(root.trim()) {
        Some(found) if root.len() == root.trim().len() && is_name(name) => {
            Ok(Some((Variable { root: found, name: name.to_owned() }, length + 2)))
        }
        // Beside a slip of the pen, it can be a query with a fragment: `{ id ...Name }`.
        None if root.is_empty() || inside.contains([' ', '-']) || inside.contains("..") => Ok(None),
        Some(_) | None => Err(refusal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_as_a_place_is_one() {
        let parsed = Template::parse("a{config.host}b{params.x_1}").unwrap();
        let named: Vec<_> = parsed.variables().map(Variable::field).collect();
        assert_eq!(named, ["config.host", "params.x_1"]);
        assert_eq!(parsed.literals().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Template::parse("{auth.key}").unwrap().only().unwrap().field(), "credentials.key");
        for text in [
            "",
            "{",
            "}",
            "{}",
            "{organization{id name}}",
            "query{a ...F}",
            "{ id ...F }",
            "{...F}",
            "{ a: 1 }",
            "{{",
        ] {
            assert_eq!(Template::parse(text).unwrap().literals().collect::<String>(), text);
        }
        for bad in [
            "{params.X}",
            "{param.x}",
            "{params.}",
            "{params. x}",
            "{ params.x }",
            "{auth.a.b}",
            "{Config.x}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn many_braces_are_read_at_once() {
        let text = "{".repeat(100_000);
        assert_eq!(Template::parse(&text).unwrap().parts.len(), 1);
    }
}
