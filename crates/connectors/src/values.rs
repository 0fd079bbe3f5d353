//! What templates are filled with.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use portico_kernel::Secret;
use serde_json::{Map, Value};

use crate::auth::Mode;
use crate::fault::Fault;
use crate::field::{ConfigField, Field, FieldType};
use crate::overrides::BaseUrl;
use crate::template::{Part, Root, Template, Variable};

/// The fields of a credential by name; prints none of their values.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, Secret<String>>);

impl Credentials {
    /// Adds or replaces a field.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), Secret::new(value.into()));
    }

    /// Takes a field away.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// A field's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.expose().as_str())
    }

    /// Every field and its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose().as_str()))
    }

    /// What is sealed and kept.
    pub fn to_bytes(&self) -> Secret<Vec<u8>> {
        let fields: Map<String, Value> =
            self.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        Secret::new(Value::Object(fields).to_string().into_bytes())
    }

    /// What [`Credentials::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<BTreeMap<String, String>>(bytes).ok().map(Self::from)
    }
}

impl From<BTreeMap<String, String>> for Credentials {
    fn from(fields: BTreeMap<String, String>) -> Self {
        Self(fields.into_iter().map(|(name, value)| (name, Secret::new(value))).collect())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What the templates of a manifest are filled with, beside parameters.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// How the connection proves who it is.
    pub mode: Mode,
    /// Its configuration, as stored; what is left out has its default.
    pub config: &'a BTreeMap<String, String>,
    /// Its credential: the fields of the mode, and `access_token` and what a test said to keep, where there are such.
    pub auth: &'a Credentials,
    /// The operator's address for this connector.
    pub base_url: Option<&'a BaseUrl>,
}

/// Where the values of one request are looked up.
pub(crate) struct Scope<'a> {
    pub(crate) fields: &'a [ConfigField],
    pub(crate) config: &'a BTreeMap<String, String>,
    pub(crate) auth: &'a Credentials,
    /// What `{auth.basic}` stands for.
    pub(crate) basic: Option<Secret<String>>,
    pub(crate) param_fields: &'a [Field],
    pub(crate) params: &'a Map<String, Value>,
}

/// A value that was found.
pub(crate) enum Found<'a> {
    Text(&'a str),
    Json(&'a Value),
}

impl<'a> Found<'a> {
    /// The value as text; `None` for a list, an object and null.
    pub(crate) fn scalar(&self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Json(value) => scalar(value),
        }
    }
}

/// A string, a number or a boolean as text.
pub(crate) fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl Scope<'_> {
    /// A value, unless nobody gave it.
    pub(crate) fn get(&self, variable: &Variable) -> Option<Found<'_>> {
        let name = variable.name.as_str();
        match variable.root {
            Root::Config => config_value(self.fields, self.config, name).map(Found::Text),
            Root::Auth if name == "basic" => self.basic.as_ref().map(|basic| Found::Text(basic.expose())),
            Root::Auth => self.auth.get(name).map(Found::Text),
            Root::Params => self.params.get(name).filter(|value| !value.is_null()).map(Found::Json),
        }
    }

    /// A value that a path or an address cannot do without, as text.
    pub(crate) fn required(&self, variable: &Variable) -> Result<Cow<'_, str>, Fault> {
        let found = self.get(variable).ok_or_else(|| Fault::new(variable.field(), "is required"))?;
        found.scalar().ok_or_else(|| Fault::new(variable.field(), "must be a single value"))
    }

    /// May the value hold several segments of a path?
    pub(crate) fn is_path(&self, variable: &Variable) -> bool {
        let is_it = |field: &&Field| field.name == variable.name;
        variable.root == Root::Params
            && self.param_fields.iter().find(is_it).is_some_and(|field| field.value_type == FieldType::Path)
    }

    /// The text of a template; `None` when one of its values was not given.
    pub(crate) fn text(&self, template: &Template, room: &Room) -> Result<Option<String>, Fault> {
        let mut text = String::new();
        for part in &template.parts {
            match part {
                Part::Text(literal) => {
                    room.take(literal.len(), "")?;
                    text.push_str(literal);
                }
                Part::Variable(variable) => {
                    let Some(found) = self.get(variable) else { return Ok(None) };
                    let found = found
                        .scalar()
                        .ok_or_else(|| Fault::new(variable.field(), "must be a single value"))?;
                    room.take(found.len(), &variable.field())?;
                    text.push_str(&found);
                }
            }
        }
        Ok(Some(text))
    }
}

/// A field of a configuration, or its default; `None` where both are empty.
pub(crate) fn config_value<'a>(
    fields: &'a [ConfigField],
    config: &'a BTreeMap<String, String>,
    name: &str,
) -> Option<&'a str> {
    let given = config.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let default = || {
        fields.iter().find(|field| field.field.name == name).map(|field| field.field.default_value.as_str())
    };
    given.or_else(default).filter(|value| !value.is_empty())
}

/// The credential of Basic authentication.
pub(crate) fn basic(user: &str, password: &str) -> Secret<String> {
    Secret::new(BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// How much a request may still grow: a template can repeat a value many times.
pub(crate) struct Room(Cell<usize>);

impl Room {
    pub(crate) const fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// Takes room for a value, or refuses it.
    pub(crate) fn take(&self, bytes: usize, field: &str) -> Result<(), Fault> {
        let left = self
            .0
            .get()
            .checked_sub(bytes)
            .ok_or_else(|| Fault::new(field, "makes the request too large"))?;
        self.0.set(left);
        Ok(())
    }
}
