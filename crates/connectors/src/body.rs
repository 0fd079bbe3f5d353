//! Bodies of requests: JSON and forms, whose values keep their place.

use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::source::Node;
use crate::template::{Template, Variable};
use crate::values::{Found, Room, Scope, scalar};

/// How deep a body's template may nest.
const DEPTH_MAX: usize = 32;
/// The most fields of a form, and the most keys of a query.
pub(crate) const PAIRS_MAX: usize = 100;

/// A tree of JSON with places for values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Fixed(Value),
    Variable(Variable),
    List(Vec<Json>),
    Table(Vec<(String, Json)>),
}

impl Json {
    /// Reads a template. A value stands alone in its string, so that it is never text within other text.
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let read = Self::compile(node.value, 0);
        read.map_err(|message| node.fault(message)).ok()
    }

    fn compile(value: &Value, depth: usize) -> Result<Self, String> {
        if depth > DEPTH_MAX {
            return Err(format!("nests deeper than {DEPTH_MAX} levels"));
        }
        match value {
            Value::String(text) => {
                let template = Template::parse(text)?;
                match template.only() {
                    Some(variable) => Ok(Self::Variable(variable.clone())),
                    None => match template.variables().next() {
                        None => Ok(Self::Fixed(value.clone())),
                        Some(variable) => Err(format!("must have {variable} as the whole of a string")),
                    },
                }
            }
            Value::Array(items) => {
                let items: Result<Vec<_>, _> =
                    items.iter().map(|item| Self::compile(item, depth + 1)).collect();
                Ok(Self::List(items?).folded(value))
            }
            Value::Object(fields) => {
                let mut table = Vec::new();
                for (name, field) in fields {
                    if Template::parse(name)?.variables().next().is_some() {
                        return Err("has a template in the name of a field".to_owned());
                    }
                    table.push((name.clone(), Self::compile(field, depth + 1)?));
                }
                Ok(Self::Table(table).folded(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::Fixed(value.clone())),
        }
    }

    /// The same as one value, where it has no places.
    fn folded(self, value: &Value) -> Self {
        let is_fixed = |json: &Self| matches!(json, Self::Fixed(_));
        let all_fixed = match &self {
            Self::List(items) => items.iter().all(is_fixed),
            Self::Table(fields) => fields.iter().all(|(_, json)| is_fixed(json)),
            Self::Fixed(_) | Self::Variable(_) => false,
        };
        if all_fixed { Self::Fixed(value.clone()) } else { self }
    }

    /// Every variable in it.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Variable)) {
        match self {
            Self::Fixed(_) => {}
            Self::Variable(variable) => visit(variable),
            Self::List(items) => items.iter().for_each(|item| item.visit(visit)),
            Self::Table(fields) => fields.iter().for_each(|(_, field)| field.visit(visit)),
        }
    }

    /// The tree with its values; what was not given leaves its place out.
    pub(crate) fn render(&self, scope: &Scope<'_>, room: &Room) -> Result<Option<Value>, Fault> {
        match self {
            Self::Fixed(value) => {
                room.take(weight(value), "")?;
                Ok(Some(value.clone()))
            }
            Self::Variable(variable) => match scope.get(variable) {
                None => Ok(None),
                Some(Found::Text(text)) => {
                    room.take(text.len(), &variable.field())?;
                    Ok(Some(text.into()))
                }
                Some(Found::Json(value)) => {
                    room.take(weight(value), &variable.field())?;
                    Ok(Some(value.clone()))
                }
            },
            Self::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    list.extend(item.render(scope, room)?);
                }
                Ok(Some(Value::Array(list)))
            }
            Self::Table(fields) => {
                let mut table = Map::new();
                for (name, field) in fields {
                    if let Some(value) = field.render(scope, room)? {
                        room.take(name.len(), "")?;
                        table.insert(name.clone(), value);
                    }
                }
                Ok(Some(Value::Object(table)))
            }
        }
    }
}

/// About as many bytes as the value takes.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| weight(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, field)| name.len() + 4 + weight(field)).sum::<usize>()
        }
    }
}

/// Names and their values, of a form or a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pairs(Vec<(String, Template)>);

impl Pairs {
    /// Reads a table of texts; numbers and booleans count as text.
    pub(crate) fn read(node: &Node<'_>) -> Self {
        let mut pairs = Vec::new();
        for (name, value) in node.entries(PAIRS_MAX) {
            let Some(text) = scalar(value.value) else {
                value.fault("must be a string, a number or a boolean");
                continue;
            };
            match Template::parse(&text) {
                Ok(template) if Template::parse(name).is_ok_and(|name| name.variables().next().is_none()) => {
                    pairs.push((name.to_owned(), template));
                }
                Ok(_) => value.fault("has a template in its name"),
                Err(message) => value.fault(message),
            }
        }
        Self(pairs)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Template)> {
        self.0.iter().map(|(name, template)| (name.as_str(), template))
    }

    /// Every name with its text. A list gives one pair for each item; what was not given leaves its name out.
    pub(crate) fn render(&self, scope: &Scope<'_>, room: &Room) -> Result<Vec<(String, String)>, Fault> {
        let mut pairs = Vec::new();
        for (name, template) in self.iter() {
            let list = template.only().and_then(|variable| match scope.get(variable) {
                Some(Found::Json(Value::Array(items))) => Some((variable, items)),
                _ => None,
            });
            match list {
                Some((variable, items)) => {
                    for item in items {
                        let text = scalar(item)
                            .ok_or_else(|| Fault::new(variable.field(), "must hold single values"))?;
                        room.take(name.len() + text.len() + 2, &variable.field())?;
                        pairs.push((name.to_owned(), text.into_owned()));
                    }
                }
                None => {
                    if let Some(text) = scope.text(template, room)? {
                        room.take(name.len() + 2, "")?;
                        pairs.push((name.to_owned(), text));
                    }
                }
            }
        }
        Ok(pairs)
    }
}

/// What a request carries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum BodyTemplate {
    Empty,
    Json(Json),
    Form(Pairs),
}

impl BodyTemplate {
    /// The type of the body and its bytes.
    pub(crate) fn render(
        &self,
        scope: &Scope<'_>,
        room: &Room,
    ) -> Result<Option<(&'static str, Vec<u8>)>, Fault> {
        match self {
            Self::Empty => Ok(None),
            Self::Json(json) => {
                let body = json.render(scope, room)?;
                Ok(body.map(|body| (JSON_TYPE, body.to_string().into_bytes())))
            }
            Self::Form(pairs) => Ok(Some((FORM_TYPE, form(&pairs.render(scope, room)?).into_bytes()))),
        }
    }
}

pub(crate) const JSON_TYPE: &str = "application/json";
pub(crate) const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// A form as it is sent.
pub(crate) fn form(pairs: &[(String, String)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}
